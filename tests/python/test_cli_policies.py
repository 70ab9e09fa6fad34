from __future__ import annotations

from command_line import fails, succeeds
from kvopt import _core
from kvopt.cli.values import split_policies


def test_every_policy_is_listed_with_its_summary() -> None:
    lines = succeeds("policies").splitlines()
    known = _core.policies()
    assert [line.split()[0] for line in lines[1:]] == [policy.name for policy in known]
    assert {"lru", "fifo", "lfu", "dummy", "min", "min-bypass"} <= {policy.name for policy in known}
    for line, policy in zip(lines[1:], known, strict=True):
        assert policy.summary in line
        assert policy.reference in line
        assert line.split()[1] == ("offline" if policy.offline else "online")


def test_one_policy_is_described_with_its_parameters() -> None:
    for policy in _core.policies():
        output = succeeds("policies", policy.name)
        assert output.startswith(f"{policy.name} (")
        for parameter in policy.parameters:
            assert f"parameter {parameter.name}={parameter.default:g} (" in output
            assert parameter.description in output


def test_a_misspelt_policy_suggests_the_nearest() -> None:
    assert "min-bypass" in fails("policies", "min-bypas")


def test_lists_keep_the_parameters_of_a_spec_together() -> None:
    assert split_policies(("lru,lfu:aging=2,decay=3,fifo", " min , a=1")) == [
        "lru",
        "lfu:aging=2,decay=3",
        "fifo",
        "min",
        "a=1",
    ]

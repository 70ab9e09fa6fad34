from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import fails, succeeds

POLICY = """
from kvopt.policies import DummyPolicy, Policy

class Mine(DummyPolicy):
    pass

class Named(DummyPolicy):
    name = "mine-too"

class Raises(DummyPolicy):
    def choose(self, n, now):
        raise RuntimeError("no idea")

class Unfinished(Policy):
    pass

class NeedsMore(DummyPolicy):
    def __init__(self, more):
        pass

number = 3
"""


@pytest.fixture
def policy_file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(POLICY)
    return path


def test_a_policy_of_a_file_is_compared_at_every_capacity(
    small_trace_file: Path, policy_file: Path, tmp_path: Path
) -> None:
    policies = f"lru,{policy_file}:Mine,{policy_file}:Named"
    succeeds("compare", small_trace_file, "--policy", policies, "--capacity", "4,9", "--json", tmp_path / "out.json")
    rows = json.loads((tmp_path / "out.json").read_text())["rows"]
    assert [(row["policy"], row["capacity"]) for row in rows] == [
        (name, capacity) for capacity in (4, 9) for name in ("lru", "Mine", "mine-too")
    ]
    for capacity in (4, 9):
        lru, mine, named = (row for row in rows if row["capacity"] == capacity)
        for figure in ("block_hit", "token_hit", "cost_saved", "evictions"):
            assert lru[figure] == mine[figure] == named[figure]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{file}:Missing", "defines no class under the name 'Missing'"),
        ("{file}:number", "no subclass of kvopt.policies.Policy"),
        ("{file}", "name its class too, as {file}:ClassName"),
        ("{file}:Unfinished", "Unfinished lacks the methods choose, on_evictable, on_referenced"),
        ("{file}:NeedsMore", "NeedsMore() raised TypeError"),
        ("{folder}/none.py:Mine", "there is no file '{folder}/none.py'"),
        ("{folder}/broken.py:Mine", "{folder}/broken.py: line 3: ZeroDivisionError"),
        ("{folder}/syntax.py:Mine", "{folder}/syntax.py: line 2: SyntaxError"),
        ("{file}:Raises", "no idea"),
    ],
)
def test_bad_policies_are_named_in_one_line(
    small_trace_file: Path, policy_file: Path, tmp_path: Path, spec: str, message: str
) -> None:
    (tmp_path / "broken.py").write_text("# first\n\n1 / 0\n")
    (tmp_path / "syntax.py").write_text("# first\nclass\n")
    before = sorted(tmp_path.iterdir())
    places = {"file": policy_file, "folder": tmp_path}
    arguments = ["--policy", spec.format(**places), "--capacity", 4, "--json", tmp_path / "out.json"]
    assert message.format(**places) in fails("compare", small_trace_file, *arguments)
    assert [path for path in sorted(tmp_path.iterdir()) if path.name != "__pycache__"] == before

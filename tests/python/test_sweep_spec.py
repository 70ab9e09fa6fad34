"""Every mistake in a spec is refused before any work, with its key and what may stand there."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import fails
from kvopt.errors import ConfigError
from kvopt.simulator.sweep import read_spec
from swept import SPEC, write_spec


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"policies": ""}, 'grid.policies: is missing; give policies, such as ["lru", "cost-aware"]'),
        ({"policies": "[]"}, "grid.policies: [] is no list of texts"),
        ({"policies": '["lru", 3]'}, "grid.policies: ['lru', 3] is no list of texts"),
        ({"policies": '["lruu"]'}, "no policy is called 'lruu'"),
        ({"policies": '["min"]'}, "min knows the future"),
        ({"policies": '["none.py:Mine"]'}, "there is no file"),
        ({"policies": '["mine.py:Nobody"]'}, "defines no class under the name 'Nobody'"),
        ({"schedulers": '["fifoo"]'}, "did you mean 'fifo'"),
        ({"capacities": ""}, "grid.capacities: is missing; give blocks"),
        ({"capacities": "[]"}, "grid.capacities: the list is empty"),
        ({"capacities": '["10x"]'}, "grid.capacities: '10x' is not a whole number of blocks"),
        ({"capacities": '["nan"]'}, "grid.capacities: 'nan' is not a whole number of blocks"),
        ({"capacities": '["infk"]'}, "grid.capacities: 'infk' is not a whole number of blocks"),
        ({"capacities": "[1.5]"}, "grid.capacities: 1.5 is not a whole number"),
        ({"capacities": "[true]"}, "grid.capacities: capacity: True is not a whole number"),
        ({"capacities": "[1]"}, "at least 2 are needed"),
        ({"rates": "[0]"}, "grid.rates: 0 is not a finite number above 0"),
        ({"rates": "[inf]"}, "grid.rates: inf is not a finite number above 0"),
        ({"seeds": "0"}, "grid.seeds: 0 is neither a count of seeds from 1 to 10000"),
        ({"seeds": "[-1]"}, "grid.seeds: [-1] is neither"),
        ({"profile": '"h100"'}, "server.profile: profile 'h100': write a model and a chip"),
        ({"profile": "3"}, "server.profile: 3 is no text"),
        ({"path": '"none.jsonl"'}, "none.jsonl"),
        ({"path": '""'}, "trace.path: '' is no text"),
    ],
)
def test_values(tmp_path: Path, change: dict[str, str], message: str) -> None:
    spec = write_spec(tmp_path, **change)
    assert message in fails("sweep", spec, "-o", tmp_path / "out.parquet")
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("[servers]\nx = 1", "no key 'servers'; there are the tables trace, grid, server, clients"),
        ("answers = 'shared'", "server: answers: 'shared' is neither 'reused' nor 'private'"),
        ("preemption = 'first'", "server: "),
        ("token_budgets = 3", "server: no key 'token_budgets'; did you mean 'token_budget'?"),
        ("token_budget = 0", "server: token_budget: 0 is not a whole number from 1 up"),
        ("token_budget = '8k'", "server.token_budget: '8k' is not a whole number"),
        ("max_sequences = 9000", "server: max_sequences: 9000 is above the token budget"),
        ("exact = 1", "server.exact: 1 is not true or false"),
        ("tier = 'blocks=3'", "server: tier 'blocks=3': block_ms is missing"),
        ("retention = 'index:leases=often'", "server: retention: leases is 'often'"),
        ("model = 'llama'", "server.model: "),
        ("kv_dtype = 'fp8'", "server.kv_dtype: is of no use without model"),
        ("[clients]\nmode = 'half'", "clients.mode: 'half' is not one of closed, open"),
        ("[clients]\nmode = 'open'\nsession_limit = 2", "clients: session_limit: clients in an open loop do not wait"),
        ("[clients]\npatience = -1", "clients: patience: -1 is not a finite number of seconds above 0"),
        ("[clients]\nrate = 2", "clients: no key 'rate'; "),
    ],
)
def test_keys(tmp_path: Path, more: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_spec(write_spec(tmp_path, SPEC + more))
    assert message in str(caught.value)
    assert str(tmp_path / "spec.toml") in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "grid.policies: is missing"),
        ("grid = 3", "grid: 3 is no table"),
        ("[grid", "not TOML"),
        ("\udcff", "not TOML"),
        ("[trace]\nseed = 3", "trace.path: is missing"),
        ("[trace]\npath = 'x'\nformat = 'csv'", "trace.format: 'csv' is not one of auto, mooncake"),
        ("[trace]\npath = 'x'\narrival_gap = 'long'", "trace.arrival_gap: 'long' is not a number"),
        ("[grid]\npolicies = 'lru'\nmemory = ['1GiB']", "server.model: is missing"),
        ("[grid]\npolicies = 'lru'\nmemory = ['1 block']", "grid.memory: memory size '1 block'"),
    ],
)
def test_whole_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "spec.toml"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ConfigError) as caught:
        read_spec(path)
    assert message in str(caught.value)


def test_options_of_the_command(tmp_path: Path) -> None:
    spec = write_spec(tmp_path)
    assert "does not go with --ray" in fails("sweep", spec, "-o", tmp_path / "o.parquet", "--jobs", 2, "--ray", "auto")
    assert "would overwrite the input" in fails("sweep", spec, "-o", spec)
    assert "there is no folder" in fails("sweep", spec, "-o", tmp_path / "none" / "o.parquet")
    assert "No such file" in fails("sweep", tmp_path / "none.toml", "-o", tmp_path / "o.parquet")

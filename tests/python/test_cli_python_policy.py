from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import fails, succeeds
from made_traces import SPACED_TRACE, write_mooncake

POLICY = """
from kvopt.policies import DummyPolicy, Policy, RankingPolicy

class Mine(RankingPolicy):
    def rank(self, run, now):
        return self.runs.last_use[run]

class Named(Mine):
    name = "mine-too"

class Raises(DummyPolicy):
    def choose(self, wanted, now):
        raise RuntimeError("no\\n idea")

class RaisesInHook(DummyPolicy):
    def on_evictable(self, runs, info):
        self.runs.last_use[runs] = 0

class TakesHeld(DummyPolicy):
    def choose(self, wanted, now):
        held = [run for run in range(self.runs.used) if self.runs.live[run] and self.runs.references[run] > 0]
        return held[0] if held else super().choose(wanted, now)

class TakesParents(DummyPolicy):
    def choose(self, wanted, now):
        parents = [run for run in range(self.runs.used) if self.runs.live[run] and self.runs.children[run] > 0]
        return parents[-1] if parents else super().choose(wanted, now)

class TakesNothing(DummyPolicy):
    def choose(self, wanted, now):
        return None

class IsNaN(RankingPolicy):
    def rank(self, run, now):
        return float("nan")

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


def test_a_policy_of_a_file_is_compared_at_every_capacity(policy_file: Path, tmp_path: Path) -> None:
    trace = write_mooncake(tmp_path / "spaced.jsonl", SPACED_TRACE)
    policies = f"lru,{policy_file}:Mine,{policy_file}:Named"
    succeeds("compare", trace, "--policy", policies, "--capacity", "4,9", "--json", tmp_path / "out.json")
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
        ("{folder}/leaves.py:Mine", "{folder}/leaves.py: line 2: SystemExit: 3"),
        ("{file}:Raises", "{file}: line 13: policy Raises at 4 blocks: Raises.choose raised RuntimeError: no idea\n"),
        ("{file}:RaisesInHook", "{file}: line 17: policy RaisesInHook at 4 blocks: RaisesInHook.on_evictable raised"),
        ("{file}:TakesHeld", "policy TakesHeld at 4 blocks: the policy chose run 0, which is held by a request"),
        ("{file}:TakesParents", "policy TakesParents at 4 blocks: the policy chose run "),
        (
            "{file}:TakesNothing",
            "policy TakesNothing at 4 blocks: TakesNothing.choose returned None; it must return a run id",
        ),
        ("{file}:IsNaN", "error: policy IsNaN at 4 blocks: IsNaN.on_evictable raised ValueError: rank(0) is NaN\n"),
    ],
)
def test_bad_policies_are_named_in_one_line(
    small_trace_file: Path, policy_file: Path, tmp_path: Path, spec: str, message: str
) -> None:
    (tmp_path / "broken.py").write_text("# first\n\n1 / 0\n")
    (tmp_path / "syntax.py").write_text("# first\nclass\n")
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(3)\n")
    before = sorted(tmp_path.iterdir())
    places = {"file": policy_file, "folder": tmp_path}
    arguments = ["--policy", spec.format(**places), "--capacity", 4, "--json", tmp_path / "out.json"]
    assert message.format(**places) in fails("compare", small_trace_file, *arguments)
    assert [path for path in sorted(tmp_path.iterdir()) if path.name != "__pycache__"] == before


def test_a_line_is_named_for_a_relative_path_too(
    small_trace_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.py").write_text("# first\n\n1 / 0\n")
    monkeypatch.chdir(tmp_path)
    assert "error: broken.py: line 3: ZeroDivisionError" in fails(
        "compare", "small.jsonl", "--policy", "broken.py:Mine"
    )

"""The page on continuum is true: its example runs, and its names and defaults are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

from kvopt.continuum import TTL_RULES, ContinuumOptions
from kvopt.continuum.history import GapHistory
from kvopt.continuum.record import parse_record

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "continuum.md").read_text(encoding="utf-8")


def test_the_example_runs() -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(code, "docs/continuum.md", "exec"), names)
    stats = names["coordinator"].stats()  # type: ignore[attr-defined]
    assert stats["decisions"] == stats["kept"] == 1
    assert names["pool"].verify() == []  # type: ignore[attr-defined]


def test_every_rule_has_its_row() -> None:
    rows = re.findall(r"^\| `([\w-]+)(?::[^`]*)?`", PAGE, re.MULTILINE)
    assert set(rows) >= set(TTL_RULES)


def test_the_fields_named_are_read() -> None:
    fields = {"session_id": "a", "last_turn": False, "tool": "a", "expected_gap": 1.0, "progress": 0.5, "priority": 1}
    fields |= {"ttl": 1.0, "lifetime": "fixed", "token_ranges": []}
    assert all(f"`{name}`" in PAGE for name in fields)
    assert parse_record(fields).problems == ()


def test_the_defaults_are_as_stated() -> None:
    options = ContinuumOptions()
    assert (options.ttl, options.leases, options.starvation_bound, options.ageing) == ("index", "scarce", 30.0, 0.0)
    assert (options.shrinkage, options.memory, options.time_constant) == (15.0, 2000.0, 20.0)
    assert options.most_sessions == 100_000
    assert GapHistory()._most_nodes == 1024

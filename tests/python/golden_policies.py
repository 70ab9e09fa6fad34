"""Misses of every built-in policy on a small generated trace, as exact numbers.

Run this file to write data/golden_policies.json anew after a change that is meant to move them:

    python tests/python/golden_policies.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kvopt import _core
from kvopt.workload import CodingAgents, Mixture, MultiTurnChat, OneOffRequests, SharedPrompts, Trace

FILE = Path(__file__).parent / "data" / "golden_policies.json"
Rule = Literal["prefix", "flat"]
RULES: tuple[Rule, ...] = ("prefix", "flat")
CAPACITIES = (300, 600, 1200, 2000, 3000)

Misses = dict[str, dict[str, list[int]]]


def golden_trace() -> Trace:
    """Agents, chats, shared prompts and one-off requests at once: 1,039 requests for 40 blocks on average."""
    parts = (
        CodingAgents(sessions=8, seed=3, block_tokens=256, requests_median=12, prompt_tokens=8000),
        MultiTurnChat(sessions=150, seed=3, block_tokens=256),
        SharedPrompts(requests=150, seed=3, block_tokens=256),
        OneOffRequests(requests=60, seed=3, block_tokens=256, burst=7),
    )
    return Mixture(parts, title="golden").load()


def misses_of(policy: str, trace: Trace) -> dict[str, list[int]]:
    """Referenced blocks that were not hit, by rule, at each capacity; a skipped request misses all of its own."""
    context: dict[str, np.ndarray[Any, Any]] = {
        "session": trace.session,
        "turn": trace.turn,
        "tool": trace.tool,
        "output_tokens": trace.output_tokens,
        "gap": trace.gap,
        "stop": trace.stop,
        "subagent": trace.subagent.astype(np.uint8),
    }

    def misses(rule: Rule, capacity: int) -> int:
        counts = _core.replay(
            trace.prefix,
            trace.time,
            policy,
            capacity,
            rule=rule,
            block_tokens=trace.block_tokens,
            context=context,
        )
        return trace.prefix.block_references - int(counts.hit_blocks.sum())

    return {rule: [misses(rule, capacity) for capacity in CAPACITIES] for rule in RULES}


def write() -> None:
    """Compute all and write the file."""
    trace = golden_trace()
    misses: Misses = {policy.name: misses_of(policy.name, trace) for policy in _core.policies()}
    lines = [f"  {json.dumps(name)}: {json.dumps(rules)}" for name, rules in misses.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    write()

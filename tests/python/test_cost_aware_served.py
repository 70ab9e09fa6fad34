"""cost-aware in a server whose requests overlap: its guard knows what LRU would have there."""

from __future__ import annotations

import pytest

from kvopt.simulator import simulate
from kvopt.simulator.clients import ClientOptions
from kvopt.workload import Trace


@pytest.mark.slow
def test_the_guard_keeps_what_the_index_gains(agentic: Trace) -> None:
    """Tokens hit above LRU's. A shadow of LRU that has room which running requests hold gives most of it away."""
    policies = ["lru", "cost-aware", "cost-aware:guard=0"]
    clients = ClientOptions(rate=0.31)
    result = simulate(agentic, policies, 30_000, profile="llama-3.1-8b@8xh100", clients=clients, seeds=3)
    guarded, free = (difference.figures["token_hit"].mean for difference in result.differences())
    assert free > 0.04
    assert guarded > 0.7 * free

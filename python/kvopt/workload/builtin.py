"""The workload that stands in where a user names no trace."""

from __future__ import annotations

from kvopt.workload.base import Workload
from kvopt.workload.generate_agents import CodingAgents
from kvopt.workload.generate_scans import OneOffRequests
from kvopt.workload.merge import Mixture


def default_workload(seed: int = 1) -> Workload:
    """Coding agents beside one-off chats: some 15 million block references of 64 tokens.

    The agents' sessions return to long prompts after seconds (tools) or minutes (people), while short chats that never
    return pass through; so a policy shows what it makes of both. Generating it takes well under a second.
    """
    agents = CodingAgents(sessions=100, arrival_gap=10.0, seed=seed)
    chats = OneOffRequests(requests=8000, request_gap=1.0, input_tokens=3000, seed=seed)
    return Mixture((agents, chats), title="builtin-agents")

"""A process whose memory is measured: `continuum_child.py SESSIONS MOST` lets so many sessions come and never return.

MOST is how many the coordinator remembers. Prints bytes taken, their growth over the second half, and its totals, as
JSON. It runs by itself, so that nothing else counts.
"""

from __future__ import annotations

import json
import sys

from memory_child import status

from kvopt._core import BlockPool
from kvopt.continuum import ClientRecord, ContinuumOptions, Coordinator, NativePool
from kvopt.policies import StopReason


def serve(coordinator: Coordinator, first: int, last: int) -> None:
    for i in range(first, last):
        now = 0.01 * i
        record = ClientRecord(f"session {i}", tools=(f"tool {i % 3000}",))  # more tools than are told apart
        coordinator.arrival(i, now, record, blocks=3)
        coordinator.scheduled(i, now)
        coordinator.finished(i, now, stop=StopReason.TOOL_USE)
        coordinator.tick(now)


def main(sessions: int, most: int) -> None:
    options = ContinuumOptions(most_sessions=most)
    before = status("VmRSS")
    coordinator = Coordinator(NativePool(BlockPool(8)), lambda new, cached: 1e-3 * new, options)
    serve(coordinator, 0, sessions // 2)
    half = status("VmRSS")
    serve(coordinator, sessions // 2, sessions)
    end = status("VmRSS")
    print(json.dumps({"bytes": end - before, "growth": end - half, **coordinator.stats()}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

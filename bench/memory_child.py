"""A process whose memory is measured: reads and replays a trace, or fills a pool, and prints what it took as JSON.

    memory_child.py replay TRACE_FILE CAPACITY
    memory_child.py pool agents|scattered CAPACITY

It runs by itself, since a process cannot give back what it once used, and so that nothing else counts.
"""

from __future__ import annotations

import json
import sys

import numpy as np

from kvopt._core import BlockPool


def status(field: str) -> int:
    """VmRSS or VmHWM of this process in bytes."""
    with open("/proc/self/status") as lines:
        for line in lines:
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def replay_trace(path: str, capacity: int) -> dict[str, float]:
    from kvopt.simulator import replay
    from kvopt.workload import read_trace

    before = status("VmRSS")
    trace = read_trace(path)
    loaded = status("VmHWM")
    (row,) = replay(trace, "lru", capacity).rows
    return {"before": before, "peak_loading": loaded, "peak": status("VmHWM"), "block_hit": row.block_hit}


def fill_pool(load: str, capacity: int) -> dict[str, float]:
    """Memory of a full pool: of agents' chains, or of blocks that are each a prompt of their own (the worst case)."""
    from pool_load import AgentLoad, block_keys

    rehearsal = AgentLoad(BlockPool(capacity // 100, "lru"), 600)  # pays for code and buffers beforehand
    rehearsal.run(capacity // 100)
    requests = rehearsal if load == "agents" else None
    keys = block_keys(np.arange(capacity, dtype=np.uint64))
    before = status("VmRSS")
    pool = BlockPool(capacity, "lru")
    empty = status("VmRSS")
    if requests is not None:
        requests.pool = pool
        requests.run(capacity)
    else:
        for block in range(capacity):
            allocation = pool.acquire(keys[block : block + 1], now=float(block))
            pool.commit(allocation, keys[block : block + 1], now=float(block))
            pool.release(allocation, now=float(block))
    stats = pool.stats()
    return {
        "empty_pool": empty - before,
        "full_pool": status("VmRSS") - before,
        "evictable": stats["evictable"],
        "runs": stats["runs"],
        "stated_bytes": stats["bytes"],
    }


if __name__ == "__main__":
    what, which, size = sys.argv[1:]
    print(json.dumps({"replay": replay_trace, "pool": fill_pool}[what](which, int(size))))

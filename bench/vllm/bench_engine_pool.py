"""What a request of 32,768 tokens costs in vLLM's KV cache manager, on its own block pool and on ours, in one run.

    python bench/vllm/bench_engine_pool.py [--policy cost-aware] [--rounds 15] [--json FILE]

in an environment that has vLLM. The pool has 100,000 blocks of 16 tokens and is full of cached blocks, so that a miss
evicts 2,048. Each row stands for work that vLLM's scheduler does once a request (hash, look up, allocate, free) or once
a step and running request (decode). Rounds of both pools alternate; the figure is the median. What both return is
checked equal with the policy lru.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

BLOCK = 16
BLOCKS = 100_000
PROMPT = 32_768
AT_LEAST = {"hash": 10, "look up, full hit": 10, "allocate, miss": 5, "free": 3, "decode": 0.9}


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    result = call()
    return time.perf_counter() - begin, result


class Bench:
    """One manager, and what it takes."""

    def __init__(self, policy: str | None) -> None:
        import torch
        from vllm.sampling_params import SamplingParams
        from vllm.utils.hashing import sha256
        from vllm.v1.core import kv_cache_utils
        from vllm.v1.core.kv_cache_manager import KVCacheManager
        from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
        from vllm.v1.request import Request

        from kvopt.vllm.hashing import get_request_block_hasher
        from kvopt.vllm.install import installed
        from kvopt.vllm.settings import PoolSettings

        kv_cache_utils.init_none_hash(sha256)
        make = kv_cache_utils.get_request_block_hasher if policy is None else get_request_block_hasher
        self.hasher = make(BLOCK, sha256)
        spec = FullAttentionSpec(block_size=BLOCK, num_kv_heads=1, head_size=1, dtype=torch.float32)
        config = KVCacheConfig(
            num_blocks=BLOCKS, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)]
        )

        def build() -> KVCacheManager:
            return KVCacheManager(
                config,
                max_model_len=2 * PROMPT,
                scheduler_block_size=BLOCK,
                hash_block_size=BLOCK,
                max_in_flight_tokens=PROMPT,
            )

        if policy is None:
            self.manager = build()
        else:
            with installed(PoolSettings(policy)):
                self.manager = build()
        self.made = 0
        self.times: dict[str, list[float]] = {}
        self.request = lambda tokens, hasher: Request(
            request_id=str(self.made),
            prompt_token_ids=tokens,
            sampling_params=SamplingParams(max_tokens=64),
            pooling_params=None,
            block_hasher=hasher,
        )

    def note(self, row: str, call: Callable[[], Any]) -> Any:
        seconds, result = timed(call)
        self.times.setdefault(row, []).append(seconds)
        return result

    def tokens(self, number: int) -> list[int]:
        return [(number * 7919 + i * 31) % 128_000 for i in range(PROMPT)]

    def serve(self, tokens: list[int], timing: bool, suffix: str) -> tuple[Any, ...]:
        """One request from its arrival to its end. Returns what was decided."""
        note = self.note if timing else lambda _row, call: call()
        self.made += 1
        request = self.request(tokens, None)
        request._block_hasher = self.hasher
        note("hash", request.update_block_hashes)
        found = note(f"look up, {suffix}", lambda: self.manager.get_computed_blocks(request))
        slots = note(
            f"allocate, {suffix}",
            lambda: self.manager.allocate_slots(request, request.num_tokens - found[1], found[1], found[0]),
        )
        ids = slots.get_block_ids()
        note("free", lambda: self.manager.free(request))
        return found[1], [b.block_id for b in found[0].blocks[0]], ids

    def decode(self, running: int, steps: int) -> float:
        """Seconds a call, of a step that gives each running request one more token."""
        requests = []
        for i in range(running):
            self.made += 1
            request = self.request([i, *range(100, 131)], self.hasher)
            self.manager.allocate_slots(request, request.num_tokens)
            request.num_computed_tokens = request.num_tokens
            requests.append(request)
        allocate = self.manager.allocate_slots
        spent = 0.0
        for _ in range(steps):
            for request in requests:
                request.append_output_token_ids(7)
            begin = time.perf_counter()
            for request in requests:
                allocate(request, 1)
            spent += time.perf_counter() - begin
            for request in requests:
                request.num_computed_tokens += 1
        for request in requests:
            self.manager.free(request)
        return spent / (steps * running)


def memory(policy: str) -> None:
    """Print the resident bytes a block of a pool whose blocks are all cached: 'vllm' or a policy."""

    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    bench = Bench("lru")
    del bench
    gc.collect()
    before = resident()
    bench = Bench(None if policy == "vllm" else policy)
    empty = resident() - before
    for number in range(BLOCKS * BLOCK // PROMPT):
        bench.serve(bench.tokens(number), False, "")
    gc.collect()
    print(json.dumps({"empty": empty / BLOCKS, "cached": (resident() - before) / BLOCKS}))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--policy", default="lru")
    arguments.add_argument("--rounds", type=int, default=15)
    arguments.add_argument("--json")
    arguments.add_argument("--memory", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.memory:
        memory(options.memory)
        return
    theirs, ours = Bench(None), Bench(options.policy)
    fill = BLOCKS * BLOCK // PROMPT
    for number in range(fill):
        for bench in (theirs, ours):
            bench.serve(bench.tokens(number), False, "")
    gc.collect()
    gc.freeze()
    for number in range(fill, fill + options.rounds):
        tokens = theirs.tokens(number)
        longer = [*tokens, 1]
        answers = [[b.serve(tokens, True, "miss"), b.serve(longer, True, "full hit")] for b in (theirs, ours)]
        if options.policy == "lru" and answers[0] != answers[1]:
            raise SystemExit(f"round {number}: the pools decided differently")
        if any(hit != PROMPT for (_, (hit, _, _)) in answers):
            raise SystemExit(f"round {number}: no full hit")
    for _ in range(5):
        for bench in (theirs, ours):
            bench.times.setdefault("decode", []).append(bench.decode(256, 32))
    rows = {}
    print(f"{'':20}{'vLLM, us':>12}{'KVopt, us':>12}{'times faster':>14}{'at least':>10}")
    for row in theirs.times:
        pair = [statistics.median(bench.times[row]) * 1e6 for bench in (theirs, ours)]
        rows[row] = {"vllm_us": pair[0], "kvopt_us": pair[1], "ratio": pair[0] / pair[1]}
        floor = AT_LEAST.get(row, "")
        print(f"{row:20}{pair[0]:12.1f}{pair[1]:12.1f}{pair[0] / pair[1]:14.1f}{floor:>10}")
    for name in ("vllm", options.policy):
        child = subprocess.run(
            [sys.executable, __file__, "--memory", name], check=True, capture_output=True, text=True, env=os.environ
        )
        rows[f"memory {name}"] = json.loads(child.stdout.splitlines()[-1])
        print(f"bytes a block, {name}: {rows[f'memory {name}']}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=2)


if __name__ == "__main__":
    main()

"""What a scheduler step with 256 running requests costs in untouched vLLM and under KVopt, in one run.

    python bench/vllm/bench_scheduler_step.py [--policy lru cost-aware] [--steps 600] [--asynchronous] [--json FILE]

in an environment that has vLLM. Each engine is vLLM's own core on the simulated executor without simulated time, with a
pool of 100,000 blocks of 16 tokens that is full of cached blocks. The figure is the processor time of `schedule` and
`update_from_output`, all that an engine's loop does beside the model. Two rows: `decode` steps only decode, one request
in 16 needing a block each step; in `turnover` steps, besides, two requests end and two others arrive, half of whose
prompt is cached. The engines take their steps in turn, in an order that changes, and the figure is the median.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_TARGET_DEVICE": "cpu", "OMP_NUM_THREADS": "1"}
os.environ |= {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR"}

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "vllm"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from engines import Engine
from tiny_model import make_model

RUNNING = 256
BLOCK = 16
BLOCKS = 100_000
PROMPT = 1024
ANSWER = 4096
TURNOVER = 2
ASYNCHRONOUS = "vllm.v1.core.sched.async_scheduler.AsyncScheduler"  # by name: vLLM takes no other for CPUs


class Stepped:
    """An engine and how long its steps took, in seconds, by row."""

    def __init__(self, name: str, model: Path, kvopt: dict[str, Any] | None, asynchronous: bool) -> None:
        self.name = name
        self.times: dict[str, list[float]] = {}
        self.made = 0
        self.engine = Engine(
            model,
            kvopt=kvopt,
            blocks=BLOCKS,
            block_size=BLOCK,
            max_num_seqs=RUNNING,
            max_model_len=8192,
            max_num_batched_tokens=8192,
            **({"scheduler_cls": ASYNCHRONOUS} if asynchronous else {}),
        )
        self.scheduler = self.engine.scheduler

    def add(self) -> None:
        """A request whose first half is one of 64 heads, and whose length says when it needs its next block."""
        number = self.made
        self.made += 1
        prompt = [(number % 64 * 97 + i) % 400 + 10 for i in range(PROMPT // 2)]
        prompt += [(number * 31 + i * 7) % 400 + 10 for i in range(PROMPT // 2 + number % BLOCK)]
        self.engine.add(str(number), prompt, max_tokens=ANSWER)

    def step(self, row: str | None = None) -> None:
        """One step; its time counts in `row`."""
        scheduler, executor = self.scheduler, self.engine.core.model_executor
        begin = time.thread_time()
        scheduled = scheduler.schedule()
        spent = time.thread_time() - begin
        done = executor.execute_model(scheduled)
        output = done if done is not None else executor.sample_tokens(None)
        begin = time.thread_time()
        scheduler.update_from_output(scheduled, output)
        spent += time.thread_time() - begin
        if row is not None:
            self.times.setdefault(row, []).append(spent)

    def turn_over(self) -> None:
        """End the oldest requests, and let others arrive."""
        oldest = [request.request_id for request in self.scheduler.running[:TURNOVER]]
        self.engine.core.abort_requests(oldest)
        for _ in oldest:
            self.add()

    def fill(self) -> None:
        """Fill the pool with cached blocks, then let RUNNING requests run."""
        self.scheduler.max_num_running_reqs = RUNNING
        pool = self.scheduler.kv_cache_manager.block_pool
        self.made = 1_000_000
        blocks_each = 8000 // BLOCK
        for number in range(BLOCKS // blocks_each):
            prompt = [(number * 131 + i * 17 + i // 400) % 400 + 10 for i in range(8000)]
            prompt[:3] = [10 + number // 100, 10 + number % 100, 9]
            self.engine.add(f"fill-{number}", prompt, max_tokens=1)
        while self.scheduler.has_requests():
            self.step()
        assert pool.get_num_free_blocks() == BLOCKS - 1
        self.made = 0
        for _ in range(RUNNING):
            self.add()
        while len(self.scheduler.running) < RUNNING or self.scheduler.waiting:
            self.step()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", nargs="+", default=["lru", "cost-aware"])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--asynchronous", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    configs: dict[str, dict[str, Any] | None] = {"vLLM": None}
    simulation = {"time": "virtual"}
    for policy in options.policy:
        configs[policy] = {"policy": policy, "simulation": simulation}
    with tempfile.TemporaryDirectory() as folder:
        model = make_model(Path(folder))
        os.environ["KVOPT_CONFIG"] = ""
        engines = [Stepped(name, model, config, options.asynchronous) for name, config in configs.items()]
        for engine in engines:
            engine.fill()
        gc.collect()
        gc.freeze()
        order = random.Random(0)
        for row in ("decode", "turnover"):
            for _ in range(options.steps):
                for engine in order.sample(engines, len(engines)):
                    if row == "turnover":
                        engine.turn_over()
                    engine.step(row)
        result = {
            engine.name: {row: statistics.median(times) * 1e6 for row, times in engine.times.items()}
            for engine in engines
        }
        for engine in engines:
            engine.engine.shutdown()
    print(f"{type(engines[0].scheduler).__name__}, {RUNNING} running")
    for row in ("decode", "turnover"):
        theirs = result["vLLM"][row]
        for name, rows in result.items():
            print(f"{row:10}{name:14}{rows[row]:10.0f} us{theirs / rows[row]:8.3f} times as fast")
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()

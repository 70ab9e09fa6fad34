"""Two of vLLM's KV cache managers, one on vLLM's block pool and one on ours, that are told the same and must agree."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import torch
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec, MambaSpec, SlidingWindowSpec
from vllm.v1.request import Request

from kvopt.vllm.install import installed
from kvopt.vllm.settings import PoolSettings

BLOCK = 4
init_none_hash(sha256)


def hasher(block_tokens: int) -> Any:
    return get_request_block_hasher(block_tokens, sha256)


HASHER = hasher(BLOCK)


def full_attention(block_tokens: int = BLOCK) -> FullAttentionSpec:
    return FullAttentionSpec(block_size=block_tokens, num_kv_heads=1, head_size=1, dtype=torch.float32)


def mamba(block_tokens: int = BLOCK) -> MambaSpec:
    """States that are kept at the ends of blocks, so that they can be hit ("align")."""
    return MambaSpec(block_size=block_tokens, shapes=((1,),), dtypes=(torch.float32,), mamba_cache_mode="align")


def sliding_window(tokens: int) -> SlidingWindowSpec:
    return SlidingWindowSpec(block_size=BLOCK, num_kv_heads=1, head_size=1, dtype=torch.float32, sliding_window=tokens)


def make_manager(specs: list[Any], blocks: int, settings: PoolSettings | None, **options: Any) -> KVCacheManager:
    """A manager; `settings`: on a native pool, None: on vLLM's own."""

    def build() -> KVCacheManager:
        groups = [KVCacheGroupSpec([f"layer{i}"], spec) for i, spec in enumerate(specs)]
        config = KVCacheConfig(num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=groups)
        return KVCacheManager(
            config,
            max_model_len=1024,
            scheduler_block_size=BLOCK,
            hash_block_size=BLOCK,
            max_in_flight_tokens=64,
            log_stats=True,
            **{"enable_caching": True, **options},
        )

    if settings is None:
        return build()
    with installed(settings):
        return build()


def make_request(name: str, tokens: list[int], hasher: Any = HASHER) -> Request:
    return Request(
        request_id=name,
        prompt_token_ids=tokens,
        sampling_params=SamplingParams(max_tokens=64),
        pooling_params=None,
        block_hasher=hasher,
    )


@dataclass
class Server:
    """A manager and the requests that it serves, driven step by step."""

    manager: KVCacheManager
    requests: dict[str, Request] = field(default_factory=dict)
    free_steps: int = 0

    @property
    def pool(self) -> Any:
        return self.manager.block_pool

    def admit(self, name: str, tokens: list[int], chunk: int) -> tuple[Any, ...]:
        request = self.requests.get(name)
        if request is None:
            request = self.requests[name] = make_request(name, tokens)
        found = self.manager.get_computed_blocks(request)
        blocks, hit = found[0], found[1]
        new = min(chunk, request.num_tokens - hit)
        before = [[b.block_id for b in group] for group in blocks.blocks]
        slots = self.manager.allocate_slots(
            request, new, num_new_computed_tokens=hit, new_computed_blocks=blocks, full_sequence_must_fit=False
        )
        if slots is None:
            return before, hit, None
        request.num_computed_tokens = hit + new
        return before, hit, slots.get_block_ids()

    def proceed(self, name: str, chunk: int, token: int) -> Any:
        request = self.requests[name]
        if request.num_computed_tokens >= request.num_tokens:
            request.append_output_token_ids(token)
        new = min(chunk, request.num_tokens - request.num_computed_tokens)
        slots = self.manager.allocate_slots(request, new)
        if slots is None:
            return None
        request.num_computed_tokens += new
        return slots.get_block_ids()

    def let_go(self, name: str, finished: bool) -> None:
        request = self.requests[name]
        self.manager.free(request)
        request.num_computed_tokens = 0
        if finished:
            del self.requests[name]

    def state(self) -> tuple[Any, ...]:
        """Everything that a block pool decides: the free order, who holds what, which keys lie where."""
        pool = self.pool
        blocks = [
            (b.block_hash, b.block_hash_num_tokens, 0 if b.is_null else b.ref_cnt, b.is_null) for b in pool.blocks
        ]
        queue = [b.block_id for b in pool.free_block_queue.get_all_free_blocks()]
        tables = {name: self.manager.get_block_ids(name) for name in self.requests}
        counts = (pool.get_num_free_blocks(), round(pool.get_usage(), 12), len(pool.cached_block_hash_to_block))
        return queue, blocks, tables, counts


@dataclass
class Workload:
    """Random requests with shared prefixes that arrive, run in chunks, are preempted, aborted and finished."""

    seed: int
    blocks: int

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.prefixes = [[self.random.randrange(50_000) for _ in range(self.random.randrange(1, 40))] for _ in range(4)]
        self.running: list[str] = []
        self.waiting: list[tuple[str, list[int]]] = []
        self.old: list[list[int]] = []
        self.count = 0

    def prompt(self) -> list[int]:
        r = self.random
        again = self.old and r.random() < 0.4  # the next turn of an old request, or the same once more
        tokens = list(r.choice(self.old if again else self.prefixes))
        tokens += [r.randrange(4) for _ in range(r.randrange(12))]
        return (tokens or [1])[: (self.blocks - 2) * BLOCK]

    def steps(self, n: int) -> Any:
        """Yield operations as (name of the method, arguments); is sent back what the first server answered."""
        r = self.random
        for _ in range(n):
            roll = r.random()
            if roll < 0.3 and len(self.running) < 8:
                if self.waiting and r.random() < 0.5:
                    name, tokens = self.waiting.pop(0)
                else:
                    self.count += 1
                    name, tokens = f"r{self.count}", self.prompt()
                answer = yield "admit", (name, tokens, r.choice([4, 7, 16, 64]))
                if answer[2] is None:
                    self.waiting.insert(0, (name, tokens))
                else:
                    self.running.append(name)
            elif roll < 0.8 and self.running:
                name = r.choice(self.running)
                answer = yield "proceed", (name, r.choice([1, 4, 9, 32]), r.randrange(4))
                if answer is None:  # no room: the newest goes back to waiting
                    victim = self.running.pop()
                    tokens = yield "let_go", (victim, False)
                    self.waiting.append((victim, []))
            elif roll < 0.97 and self.running:
                name = self.running.pop(r.randrange(len(self.running)))
                self.old.append([])
                self.old[-1] = yield "tokens", (name,)
                yield "let_go", (name, True)
            elif roll < 0.985:
                yield "evict", (r.sample(range(1, self.blocks), 2),)
            else:
                yield "reset", ()


def perform(server: Server, operation: str, arguments: tuple[Any, ...]) -> Any:
    if operation == "evict":
        return server.manager.evict_blocks(set(arguments[0]))
    if operation == "reset":
        return server.manager.reset_prefix_cache()
    if operation == "tokens":
        return list(server.requests[arguments[0]].all_token_ids)
    return getattr(server, operation)(*arguments)

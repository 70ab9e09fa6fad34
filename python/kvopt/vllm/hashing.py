"""Block hashes of whole prompts in one native call, byte for byte those of vLLM.

Blocks with extra keys (cache salt in the first one, multimodal inputs) are hashed by vLLM's own functions, the plain
blocks behind them natively; requests with LoRA or prompt embeddings, where every block has extra keys, and hashes that
look ahead (0.33) are left to vLLM whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from vllm.utils import hashing
from vllm.v1.core import kv_cache_utils

from kvopt._core import BlockHasher

SCHEMES = ("sha256", "sha256_cbor", "xxhash", "xxhash_cbor")


def scheme_of(caching_hash_fn: Callable[[Any], bytes]) -> str | None:
    """Return the name of vLLM's hash function, None for one that is not vLLM's."""
    for name in SCHEMES:
        if getattr(hashing, name, None) is caching_hash_fn:
            return name
    return None


def get_request_block_hasher(
    hash_block_size: int,
    caching_hash_fn: Callable[[Any], bytes],
    num_hash_lookahead_tokens: int = 0,
    *,
    own: Callable[..., Callable[[Any], list[bytes]]] = kv_cache_utils.get_request_block_hasher,
) -> Callable[[Any], list[bytes]]:
    """Return a function that computes the block hashes of a request that are not computed yet, as vLLM's does.

    `own` is vLLM's function of this name; what it returns is used for requests that are not covered.
    """
    lookahead = (num_hash_lookahead_tokens,) if num_hash_lookahead_tokens else ()
    vllm_hasher = own(hash_block_size, caching_hash_fn, *lookahead)
    scheme = scheme_of(caching_hash_fn)
    if scheme is None or num_hash_lookahead_tokens or hash_block_size > BlockHasher.MOST_BLOCK_TOKENS:
        return vllm_hasher
    native = BlockHasher(scheme, hash_block_size)

    def request_block_hasher(request: Any) -> list[bytes]:
        known = request.block_hashes
        start = len(known) * hash_block_size
        tokens = request._all_token_ids
        if start + hash_block_size > len(tokens):
            return []
        if request.lora_request or request.prompt_embeds is not None:
            return vllm_hasher(request)
        parent = known[-1] if known else kv_cache_utils.NONE_HASH
        keyed: list[bytes] = []
        if request.mm_features or request.cache_salt:
            keyed = hash_keyed_blocks(request, caching_hash_fn, hash_block_size, start, parent)
            if keyed:
                start += len(keyed) * hash_block_size
                parent = keyed[-1]
        plain = native.hash_blocks(tokens, start, parent)
        if plain is None:
            return vllm_hasher(request)
        return keyed + plain if keyed else plain

    return request_block_hasher


def hash_keyed_blocks(
    request: Any, caching_hash_fn: Callable[[Any], bytes], block_size: int, start: int, parent: bytes
) -> list[bytes]:
    """Return the hashes of the full blocks from token `start` on up to the last that may have extra keys."""
    end = 1 if request.cache_salt else 0
    if request.mm_features:
        last = request.mm_features[-1].mm_position
        end = max(end, last.offset + last.length)
    tokens = request._all_token_ids
    hashes: list[bytes] = []
    mm_index = 0
    while start < end and start + block_size <= len(tokens):
        extra, mm_index = kv_cache_utils.generate_block_hash_extra_keys(request, start, start + block_size, mm_index)
        parent = kv_cache_utils.hash_block_tokens(caching_hash_fn, parent, tokens[start : start + block_size], extra)
        hashes.append(parent)
        start += block_size
    return hashes


@contextmanager
def native_hashing() -> Iterator[None]:
    """Make every engine core that is built inside hash natively."""
    from vllm.v1.engine import core

    own = core.get_request_block_hasher

    def make(*args: Any, **kwargs: Any) -> Callable[[Any], list[bytes]]:
        return get_request_block_hasher(*args, own=own, **kwargs)

    core.get_request_block_hasher = make
    try:
        yield
    finally:
        core.get_request_block_hasher = own

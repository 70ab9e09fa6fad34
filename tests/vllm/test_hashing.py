"""Native block hashes are vLLM's own, byte for byte."""

from __future__ import annotations

import hashlib
import importlib.util
import random
from typing import Any

import pytest
from vllm.sampling_params import SamplingParams
from vllm.utils import hashing
from vllm.v1.core import kv_cache_utils
from vllm.v1.request import Request

from kvopt._core import BlockHasher
from kvopt.vllm.hashing import get_request_block_hasher, scheme_of

SCHEMES = [
    "sha256",
    "sha256_cbor",
    *(
        pytest.param(
            name,
            marks=pytest.mark.skipif(
                importlib.util.find_spec("xxhash") is None, reason="the package xxhash, which vLLM calls, is missing"
            ),
        )
        for name in ("xxhash", "xxhash_cbor")
    ),
]
EDGES = [0, 1, 23, 24, 127, 128, 255, 256, 257, 65_535, 65_536, 2**24, 2**30 - 1, 2**30, 2**31 - 1]


def make_request(tokens: list[int], hasher: Any, **more: Any) -> Request:
    return Request(
        request_id="r",
        prompt_token_ids=tokens,
        sampling_params=SamplingParams(max_tokens=8),
        pooling_params=None,
        block_hasher=hasher,
        **more,
    )


def hash_both(tokens: list[int], scheme: str, block: int, outputs: int = 0, **more: Any) -> list[bytes]:
    function = hashing.get_hash_fn_by_name(scheme)
    kv_cache_utils.init_none_hash(function)
    theirs = make_request(tokens, kv_cache_utils.get_request_block_hasher(block, function), **more)
    ours = make_request(tokens, get_request_block_hasher(block, function), **more)
    for token in range(outputs):
        theirs.append_output_token_ids(token)
        ours.append_output_token_ids(token)
    assert ours.block_hashes == theirs.block_hashes
    assert len(ours.block_hashes) == (len(tokens) + outputs) // block
    return ours.block_hashes


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("block", [1, 2, 3, 4, 5, 16, 23, 24, 25, 32, 64, 128, 255, 256, 300])
def test_random_prompts(scheme: str, block: int) -> None:
    r = random.Random(block)
    for _ in range(10):
        top = r.choice([10, 300, 70_000, 200_000, 2**31])
        tokens = [r.choice(EDGES) if r.random() < 0.1 else r.randrange(top) for _ in range(r.randrange(block * 6 + 2))]
        hash_both(tokens, scheme, block, outputs=r.randrange(2 * block))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_cache_salt_is_in_the_first_block(scheme: str) -> None:
    tokens = list(range(100))
    salted = hash_both(tokens, scheme, 16, outputs=20, cache_salt="tenant é")
    assert salted != hash_both(tokens, scheme, 16, outputs=20)


def test_negative_and_huge_token_ids() -> None:
    hash_both([-1, -(2**31), 5, 7], "sha256", 2)
    hash_both([-1, -(2**31), 5, 7], "sha256_cbor", 2)
    hash_both([2**31, 2**40, 5, 7], "sha256", 2)
    hash_both([2**63, 2**40, 5, 7], "sha256_cbor", 2)


def test_other_kinds_of_requests_are_left_to_vllm() -> None:
    class Lora:
        lora_name, lora_path, adapter_id = "name", "path", 1

    plain = hash_both(list(range(64)), "sha256", 16)
    assert plain != hash_both(list(range(64)), "sha256", 16, lora_request=Lora())


def test_a_hash_function_of_somebody_else_is_left_to_vllm() -> None:
    def own_hash(value: Any) -> bytes:
        return hashlib.blake2b(repr(value).encode(), digest_size=20).digest()

    assert scheme_of(own_hash) is None
    assert scheme_of(hashing.sha256) == "sha256"
    kv_cache_utils.init_none_hash(own_hash)
    assert make_request([1, 2], get_request_block_hasher(2, own_hash)).block_hashes == [
        own_hash((kv_cache_utils.NONE_HASH, (1, 2), None))
    ]


def test_multimodal_inputs() -> None:
    from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange

    def feature(name: str, offset: int, length: int) -> MultiModalFeatureSpec:
        return MultiModalFeatureSpec(
            data=None, modality="image", identifier=name, mm_position=PlaceholderRange(offset=offset, length=length)
        )

    features = [feature("a", 3, 20), feature("b", 40, 9), feature("a", 49, 1)]
    hashes = hash_both(list(range(120)), "sha256", 8, outputs=30, mm_features=features)
    assert hashes != hash_both(list(range(120)), "sha256", 8, outputs=30)


def test_native_hasher_refuses_nonsense() -> None:
    hasher = BlockHasher("sha256", 4)
    assert hasher.hash_blocks([1, 2, 3], 0, b"parent") == []
    assert hasher.hash_blocks([1, 2, 3, "4"], 0, b"parent") is None

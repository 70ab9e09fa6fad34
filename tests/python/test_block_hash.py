"""Native block hashes against Python's own pickle and hashlib; against vLLM itself in tests/vllm."""

from __future__ import annotations

import hashlib
import importlib.util
import pickle
import random

import pytest

from kvopt import _core
from kvopt._core import BlockHasher
from kvopt.errors import ConfigError


def plain_hashes(tokens: list[int], block: int, parent: bytes) -> list[bytes]:
    hashes = []
    for start in range(0, len(tokens) - block + 1, block):
        content = (parent, tuple(tokens[start : start + block]), None)
        parent = hashlib.sha256(pickle.dumps(content, protocol=5)).digest()
        hashes.append(parent)
    return hashes


@pytest.mark.parametrize("block", [1, 2, 3, 4, 15, 16, 17, 64, 1024, 8192])
def test_sha256_of_pickled_blocks(block: int) -> None:
    r = random.Random(block)
    hasher = BlockHasher("sha256", block)
    assert (hasher.block_tokens, hasher.hash_bytes) == (block, 32)
    for top in (2**8, 2**16, 2**18, 2**31):
        tokens = [r.randrange(top) for _ in range(3 * block + block // 2)]
        parent = r.randbytes(r.choice([16, 32, 255]))
        assert hasher.hash_blocks(tokens, 0, parent) == plain_hashes(tokens, block, parent)
        assert hasher.hash_blocks(tokens, block // 2, parent) == plain_hashes(tokens[block // 2 :], block, parent)


def test_both_implementations_of_sha256_agree_with_hashlib() -> None:
    r = random.Random(1)
    for size in [*range(200), 1000, 4096]:
        data = r.randbytes(size)
        assert _core.sha256_portable(data) == hashlib.sha256(data).digest()
    assert _core.sha256_implementation() in {"sha-ni", "armv8", "portable"}


@pytest.mark.parametrize(
    ("data", "digest"),
    [
        (b"", "99aa06d3014798d86001c324468d497f"),
        (b"a" * 17, None),
        (bytes(range(256)) * 5, None),
    ],
)
def test_xxh3(data: bytes, digest: str | None) -> None:
    if digest is not None:
        assert _core.xxh3_128(data).hex() == digest
        return
    if importlib.util.find_spec("xxhash") is None:
        pytest.skip("the package xxhash, which this compares with, is missing")
    xxhash = importlib.import_module("xxhash")
    assert _core.xxh3_128(data) == xxhash.xxh3_128_digest(data)


def test_what_is_no_token_id_is_refused_whole() -> None:
    hasher = BlockHasher("sha256", 2)
    for odd in (2**31, -(2**31) - 1, 1.0, "1", None, True):
        tokens: list[object] = [1, 2, 3, odd]
        assert hasher.hash_blocks(tokens, 0, b"parent") is None  # type: ignore[arg-type]
    assert hasher.hash_blocks([-1, 2], 0, b"p") == plain_hashes([-1, 2], 2, b"p")


def test_errors_name_the_limit() -> None:
    with pytest.raises(ConfigError, match="sha256_cbor"):
        BlockHasher("md5", 16)
    for block in (0, 8193, -1):
        with pytest.raises(ConfigError, match=f"{block}; it must be 1 to 8192"):
            BlockHasher("sha256", block)
    with pytest.raises(ConfigError, match="first_token is 5; there are 4"):
        BlockHasher("sha256", 2).hash_blocks([1, 2, 3, 4], 5, b"p")
    with pytest.raises(ConfigError, match="0 bytes"):
        BlockHasher("sha256", 2).hash_blocks([1, 2], 0, b"")

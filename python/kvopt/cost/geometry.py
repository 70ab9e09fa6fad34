"""The shape of a model, as far as its KV cache and its prefill cost depend on it.

A token at position p costs, counted exactly up to norms and softmax,

    f(p) = 2·P + Σ over attention layers of 2·heads·(d_qk + d_v)·keys(p) + Σ over state layers of their scan

operations, where P are the parameters of all matrices that it passes (the output head among them) and keys(p) is how
many keys it reads: p in a full-attention layer, min(p, W) under a sliding window of W tokens, p mod C in chunks of C.
Prefill of the tokens from a to b costs the integral of f. p* = f without attention ÷ the slope of f: the position
where full attention doubles a token's cost.

Layers that keep the same things form a group: full attention keeps keys and values of every token, a window the last W,
a state (Mamba, linear attention) a fixed number of bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from kvopt.errors import ConfigError

LayerKind = Literal["full", "window", "chunk", "state"]

KV_BYTES = {"bf16": 2, "fp16": 2, "fp8": 1, "int8": 1, "fp32": 4}
"""Bytes of one number of the KV cache by its type."""

_DTYPE_NAMES = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
    "float32": "fp32",
    "float": "fp32",
}


def kv_dtype_name(dtype: str) -> str:
    """The short name of a KV-cache type such as "bf16" or "fp8_e4m3". Raises ConfigError for an unknown one."""
    name = dtype.strip().lower().removeprefix("torch.")
    name = _DTYPE_NAMES.get(name, name)
    if name not in KV_BYTES:
        raise ConfigError(f"KV dtype {dtype!r} is unknown; known: {', '.join([*KV_BYTES, *_DTYPE_NAMES])}")
    return name


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """Layers of one kind.

    Attributes:
        kind: what the layers keep: "full", "window", "chunk" or "state".
        layers: how many.
        kv_heads: heads that are spread over GPUs; 1 for a latent (MLA), which every GPU keeps whole; 0 for a state.
        values_per_head: numbers that one head of one layer keeps of one token, keys and values.
        pair_flops: operations of one layer for one query and one key: 2·heads·(d_qk + d_v).
        window: tokens of the window or chunk.
        state_bytes: what one layer keeps of one context, whatever its length.
        scan_flops: operations of one layer for one token besides matrices and attention.
    """

    kind: LayerKind
    layers: int
    kv_heads: int = 0
    values_per_head: int = 0
    pair_flops: int = 0
    window: int | None = None
    state_bytes: int = 0
    scan_flops: int = 0

    def kept_tokens(self, tokens: int) -> int:
        """Of a context of `tokens` tokens, how many each layer keeps."""
        return tokens if self.window is None else min(tokens, self.window)

    def values_per_gpu(self, tensor_parallel: int) -> int:
        """Numbers that one layer keeps of one token on one GPU; a head is never split, but may be kept twice."""
        return -(-self.kv_heads // tensor_parallel) * self.values_per_head

    def keys_read(self, position: float) -> float:
        """How many keys the token at `position` reads in each layer."""
        if self.kind == "chunk":
            return position % (self.window or 1)
        return position if self.window is None else min(position, self.window)

    def keys_read_up_to(self, position: float) -> float:
        """The sum of `keys_read` over all tokens in front of `position`, as an integral."""
        if self.window is None:
            return position * position / 2.0
        window = float(self.window)
        if self.kind == "chunk":
            whole, rest = divmod(position, window)
            return (whole * window * window + rest * rest) / 2.0
        inside = min(position, window)
        return inside * inside / 2.0 + window * (position - inside)


@dataclass(frozen=True, slots=True)
class ModelGeometry:
    """A model's KV cache and prefill cost. All sizes are those of the whole model unless tensor parallelism is named.

    Attributes:
        name: a preset's name, or where its config.json lies.
        groups: its layers by what they keep; layers that only compute are in none.
        active_parameters: parameters of all matrices that one token passes, with the output head.
        total_parameters: of all experts, embeddings and head.
        query_heads: attention heads; tensor parallelism must divide them.
        kv_dtype: type of the numbers in the KV cache, a key of KV_BYTES.
        source: where the shape is from.
        context: tokens of a typical context, for `bytes_per_token` of a model with windows or states.
    """

    name: str
    groups: tuple[LayerGroup, ...]
    active_parameters: int
    total_parameters: int
    query_heads: int
    kv_dtype: str
    source: str
    context: int | None = None

    @property
    def uniform(self) -> bool:
        """Whether every token adds the same number of bytes: full attention everywhere."""
        return all(group.kind == "full" for group in self.groups)

    @property
    def bytes_per_token(self) -> float:
        """KV-cache bytes of one token over all layers; whole for a uniform model.

        With windows or states it is the mean over a context of `context` tokens. Raises ConfigError without one.
        """
        tokens = self.typical_context
        return self.kv_bytes(tokens) if tokens == 1 else self.kv_bytes(tokens) / tokens

    @property
    def typical_context(self) -> int:
        """Tokens over which the bytes of a token are a mean: 1 for a uniform model, else `context`.

        Raises ConfigError when a context is needed and not named.
        """
        if self.uniform:
            return 1
        if self.context is None:
            raise ConfigError(
                f"{self.name} has layers with a window or a state, so the bytes of a token depend on the length of the "
                "context: name one (at_context)"
            )
        return self.context

    def bytes_per_block(self, block_tokens: int) -> float:
        """KV-cache bytes of one block of `block_tokens` tokens; whole for a uniform model. See bytes_per_token."""
        return self.bytes_per_token * block_tokens

    def kv_bytes(self, tokens: int, *, cached: int = 0, tensor_parallel: int = 1) -> int:
        """Bytes that the last `tokens` − `cached` tokens of a context of `tokens` need in the cache, on one GPU.

        A window counts as far as it reaches into them; a state counts whole, as soon as there is a token. Raises
        ConfigError when `cached` is not from 0 to `tokens`, or the heads do not divide over the GPUs.
        """
        _check_tokens(tokens, cached)
        self.check_tensor_parallel(tensor_parallel)
        new = tokens - cached
        total = 0
        for group in self.groups:
            values = group.values_per_gpu(tensor_parallel)
            total += group.layers * values * KV_BYTES[self.kv_dtype] * min(new, group.kept_tokens(tokens))
            total += group.layers * -(-group.state_bytes // tensor_parallel) if new else 0
        return total

    def growing_bytes(self, tensor_parallel: int = 1) -> int:
        """Bytes that each further token of a long context adds on one GPU: those of full attention."""
        full = (group for group in self.groups if group.kind == "full")
        values = sum(group.layers * group.values_per_gpu(tensor_parallel) for group in full)
        return values * KV_BYTES[self.kv_dtype]

    def token_flops(self, position: float) -> float:
        """f(p): operations of prefilling the token at `position`."""
        attention = sum(group.layers * group.pair_flops * group.keys_read(position) for group in self.groups)
        return self._flat_flops + attention

    def prefill_flops(self, tokens: float, *, cached: float = 0.0) -> float:
        """Operations of prefilling `tokens` new tokens behind `cached` ones. Raises ConfigError below 0."""
        _check_tokens(tokens, 0)
        _check_tokens(cached, 0)
        end = cached + tokens
        attention = sum(
            group.layers * group.pair_flops * (group.keys_read_up_to(end) - group.keys_read_up_to(cached))
            for group in self.groups
        )
        return self._flat_flops * tokens + attention

    @property
    def p_star(self) -> float:
        """p* in tokens; infinite without full attention."""
        slope = self.full_pair_flops
        return self._flat_flops / slope if slope else math.inf

    @property
    def full_pair_flops(self) -> int:
        """Operations that each further token of context adds to a token, in all full-attention layers."""
        return sum(group.layers * group.pair_flops for group in self.groups if group.kind == "full")

    @property
    def local_flops(self) -> float:
        """Operations of a token far from the start, without those of full attention."""
        local = (group for group in self.groups if group.window is not None)
        return self._flat_flops + sum(
            group.layers * group.pair_flops * (group.window or 0) * (0.5 if group.kind == "chunk" else 1.0)
            for group in local
        )

    @property
    def _flat_flops(self) -> float:
        return 2.0 * self.active_parameters + sum(group.layers * group.scan_flops for group in self.groups)

    def with_kv_dtype(self, dtype: str) -> ModelGeometry:
        """The same model with another type of KV cache. Raises ConfigError for an unknown one."""
        return replace(self, kv_dtype=kv_dtype_name(dtype))

    def at_context(self, tokens: int) -> ModelGeometry:
        """The same model, its bytes a token the mean over a context of `tokens`. Raises ConfigError below 1."""
        if tokens < 1:
            raise ConfigError(f"context: {tokens} is below 1 token")
        return replace(self, context=tokens)

    def check_tensor_parallel(self, gpus: int) -> None:
        """Raise ConfigError unless the heads divide over `gpus`, as engines require."""
        if gpus < 1:
            raise ConfigError(f"tensor parallelism: {gpus} is below 1")
        if self.query_heads % gpus:
            raise ConfigError(f"tensor parallelism: {gpus} does not divide the {self.query_heads} heads of {self.name}")
        for heads in {group.kv_heads for group in self.groups if group.kv_heads > 1}:
            if heads % gpus and gpus % heads:
                raise ConfigError(f"tensor parallelism: {gpus} and the {heads} KV heads of {self.name} do not divide")


def _check_tokens(tokens: float, cached: float) -> None:
    if not (0 <= tokens < math.inf):
        raise ConfigError(f"tokens: {tokens} is not a number of tokens of 0 or more")
    if not (0 <= cached <= tokens):
        raise ConfigError(f"cached: {cached} is not from 0 to the {tokens} tokens of the context")

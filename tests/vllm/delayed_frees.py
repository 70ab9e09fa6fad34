"""A KV connector that keeps the blocks of finished requests for some steps, as one that sends them elsewhere does."""

from __future__ import annotations

from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
    SupportsHMA,
)
from vllm.v1.outputs import KVConnectorOutput

STEPS = 3


class DelayedFrees(KVConnectorBase_V1, SupportsHMA):
    """Every second request's blocks are freed `STEPS` steps after its end."""

    def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any = None) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        self.step = 0
        self.delayed = 0
        self._sending: dict[str, int] = {}

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int, bool]:
        return 0, False

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        """Nothing is loaded."""

    def build_connector_meta(self, scheduler_output: Any) -> KVConnectorMetadata:
        self.step += 1
        return KVConnectorMetadata()

    def request_finished(self, request: Any, block_ids: Any) -> tuple[bool, dict[str, Any] | None]:
        delay = int(request.request_id.removeprefix("r")) % 2 == 0
        if delay:
            self._sending[request.request_id] = self.step + STEPS
            self.delayed += 1
        return delay, None

    def request_finished_all_groups(self, request: Any, block_ids: Any) -> tuple[bool, dict[str, Any] | None]:
        return self.request_finished(request, block_ids)

    def take_sent(self) -> KVConnectorOutput | None:
        """What the workers say of this step."""
        sent = {name for name, step in self._sending.items() if step <= self.step}
        for name in sent:
            del self._sending[name]
        return KVConnectorOutput(finished_sending=sent) if sent else None

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        """A worker's part; there is none."""

    def wait_for_layer_load(self, layer_name: str) -> None:
        """A worker's part; there is none."""

    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any, **kwargs: Any) -> None:
        """A worker's part; there is none."""

    def wait_for_save(self) -> None:
        """A worker's part; there is none."""

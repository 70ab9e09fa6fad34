"""The blocks of the simulated server: the native pool, used as vLLM uses its own.

One block is vLLM's null block and holds nothing. A request is admitted when all blocks of its prompt (and of the answer
that it had before a preemption) could be had, but gets them chunk by chunk. Full blocks can be hit as soon as the step
that computes them is planned; partial ones never. Empty blocks go first, then the policy chooses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvopt._core import BlockPool
from kvopt.continuum.pool import weighs_returns
from kvopt.errors import ConfigError

if TYPE_CHECKING:
    from kvopt.policies import Policy


class Memory:
    """A pool of `capacity` blocks of which one is the null block. Raises ConfigError below two.

    Leases may pin `lease_share` of it; with `retention`, requests may leave priorities behind.
    """

    def __init__(
        self,
        capacity: int,
        policy: str | Policy,
        *,
        block_tokens: int,
        p_star: float,
        lease_share: float = 0.0,
        retention: bool = False,
    ) -> None:
        if capacity < 2:
            raise ConfigError(f"capacity: {capacity} blocks; at least 2 are needed, for one is the null block")
        self.usable = capacity - 1
        self.block_tokens = block_tokens
        self.weighs = weighs_returns(policy)
        self.lease_budget = int(lease_share * self.usable)
        self.pool = BlockPool(
            self.usable,
            policy,
            lease_budget=self.lease_budget,
            retention=retention,
            block_tokens=block_tokens,
            p_star=p_star,
        )

    @property
    def free(self) -> int:
        """Blocks that can be had: empty or evictable."""
        counts = self.pool.counts()
        return counts["empty"] + counts["evictable"]

    @property
    def leased(self) -> int:
        """Blocks that leases hold, and no request."""
        return self.pool.counts()["leased"]

    def blocks(self, tokens: int) -> int:
        """Blocks that hold so many tokens."""
        return -(-tokens // self.block_tokens)


def dropped_blocks(pool: BlockPool) -> dict[str, int]:
    """Cached blocks that lost their content, by reason."""
    dropped = pool.stats()["dropped_blocks"]
    return {
        "capacity": dropped["capacity"],
        "explicit": dropped["explicit"],
        "cleared": dropped["cleared"],
        "forgotten": dropped["forgotten"],
    }

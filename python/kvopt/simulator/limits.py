"""What a step of the server may hold."""

from __future__ import annotations

from dataclasses import dataclass

from kvopt.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Limits:
    """The defaults are those of vLLM's server on GPUs of 70 GiB and more. Raises ConfigError."""

    token_budget: int = 8192
    """Tokens a step: vLLM's max_num_batched_tokens."""
    max_sequences: int = 1024
    """Requests that run at once: vLLM's max_num_seqs."""

    def __post_init__(self) -> None:
        for name in ("token_budget", "max_sequences"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(f"{name}: {value!r} is not a whole number from 1 up")
        if self.max_sequences > self.token_budget:
            raise ConfigError(
                f"max_sequences: {self.max_sequences} is above the token budget {self.token_budget}; every running "
                "request needs a token a step"
            )

    @classmethod
    def of(cls, token_budget: int, max_sequences: int | None = None) -> Limits:
        """Limits with this budget, and by default as many sequences as it allows, up to vLLM's default."""
        if max_sequences is None:
            most: int = cls().max_sequences
            return cls(token_budget, min(most, token_budget) if isinstance(token_budget, int) else most)
        return cls(token_budget, max_sequences)

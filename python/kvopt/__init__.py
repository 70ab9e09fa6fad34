"""KVopt decides which KV-cache blocks an LLM server keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvopt._core import __version__, build_info
from kvopt.errors import KvoptError

if TYPE_CHECKING:
    from kvopt.scoring import score, score_select, select_k

__all__ = ["KvoptError", "__version__", "build_info", "score", "score_select", "select_k"]

_FROM_SCORING = {"score", "score_select", "select_k"}


def __getattr__(name: str) -> Any:
    """The functions of kvopt.scoring, which needs NumPy: loaded when asked for, so that `import kvopt` is quick."""
    if name not in _FROM_SCORING:
        raise AttributeError(f"module 'kvopt' has no attribute {name!r}")
    import kvopt.scoring

    return getattr(kvopt.scoring, name)

"""KVopt decides which KV-cache blocks an LLM server keeps."""

from __future__ import annotations

from kvopt._core import __version__, build_info
from kvopt.errors import KvoptError

__all__ = ["KvoptError", "__version__", "build_info"]

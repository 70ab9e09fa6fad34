"""``python -m kvopt``: the same command as ``kvopt``."""

from __future__ import annotations

from kvopt.cli.main import main

if __name__ == "__main__":
    main(prog_name="kvopt")

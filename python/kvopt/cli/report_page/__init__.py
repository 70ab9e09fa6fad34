"""The parts of the page that `kvopt report` writes."""

from __future__ import annotations

from kvopt.cli.report_page.page import report_page

__all__ = ["report_page"]

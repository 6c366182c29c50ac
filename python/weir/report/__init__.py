"""Reports: `report.html`, one file that works offline, and figures for papers.

Everything in a report comes from a run's tables and from `weir.metrics`. Reports measure nothing and change no run.
"""

from __future__ import annotations

from weir.report.errors import ReportError
from weir.report.figures import Size, figures, summary_picture
from weir.report.page import build

__all__ = ["ReportError", "Size", "build", "figures", "summary_picture"]

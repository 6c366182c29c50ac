"""Reports: `report.html`, one file to read offline, and figures for a paper.

Everything shown comes from a run's tables and from `weir.metrics`; nothing is measured here and no run is changed.
"""

from __future__ import annotations

from weir.report.errors import ReportError
from weir.report.figures import figures
from weir.report.page import build

__all__ = ["ReportError", "build", "figures"]

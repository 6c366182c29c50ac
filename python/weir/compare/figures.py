"""The figures of a comparison for a paper: SVG and PDF of a column's width, and their data as CSV."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from weir.compare._align import Group
from weir.compare._comparison import Comparison
from weir.compare.charts import OVERLAYS, SCATTER, scatter
from weir.report.figures import PAPER, check_formats, write_figure

__all__ = ["figures", "overlays"]


def figures(comparison: Comparison, folder: Path, formats: Sequence[str] = ("svg", "pdf", "csv")) -> list[Path]:
    """Writes every figure: those of a cell to a folder named by its factors; the paths, sorted.

    Raises:
        ReportError: no such format.
        OSError: a file cannot be written.
    """
    check_formats(formats)
    folder.mkdir(parents=True, exist_ok=True)
    drawing = scatter(comparison, PAPER)
    written = [] if drawing is None else write_figure(SCATTER, drawing, folder, formats)
    for group in comparison.groups:
        place = folder / _folder(group) if len(comparison.groups) > 1 else folder
        written += overlays(comparison, group, place, formats)
    return sorted(written)


def overlays(comparison: Comparison, group: Group, folder: Path, formats: Sequence[str]) -> list[Path]:
    """Writes the overlaid series of one cell.

    Raises:
        OSError: a file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for overlay in OVERLAYS:
        drawing = overlay.draw(comparison, group, PAPER)
        if drawing is not None:
            written += write_figure(overlay.chart, drawing, folder, formats)
    return written


def _folder(group: Group) -> str:
    text = "_".join(f"{k}-{v}" for k, v in group.shown.items())
    return re.sub(r"[^A-Za-z0-9.+-]+", "_", text).strip("._") or f"cell-{group.number}"

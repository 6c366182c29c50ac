"""The figures of a comparison for a paper: SVG and PDF of a column's width, and their data as CSV."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from weir.compare._align import Group
from weir.compare._comparison import Comparison
from weir.compare.charts import OVERLAYS, SCATTER, scatter
from weir.report.figures import PAPER, check_formats, write_figure
from weir.report.names import folder_names, write_index

__all__ = ["figures", "overlays"]


def figures(comparison: Comparison, folder: Path, formats: Sequence[str] = ("svg", "pdf", "csv")) -> list[Path]:
    """Writes all figures, those of a cell to a folder named after its factors; returns the paths, sorted.

    Raises:
        ReportError: no such format.
        OSError: a file cannot be written.
    """
    check_formats(formats)
    folder.mkdir(parents=True, exist_ok=True)
    drawing = scatter(comparison, PAPER)
    written = [] if drawing is None else write_figure(SCATTER, drawing, folder, formats)
    shown = [group.shown for group in comparison.groups]
    names = folder_names(shown) if len(shown) > 1 else [""] * len(shown)
    if len(names) > 1 and "csv" in formats:
        written.append(write_index(folder, names, shown))
    for group, name in zip(comparison.groups, names, strict=True):
        written += overlays(comparison, group, folder / name, formats)
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

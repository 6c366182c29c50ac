"""The figures of a validation: errors by factor, and the overlaid series of the worst cells."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from weir.compare.charts import OVERLAYS
from weir.report.figures import PAPER, write_figure
from weir.study.validation import _heatmap
from weir.study.validation._validation import Validation

__all__ = ["by_factor", "worst_cells"]

_MAX_CELLS = 6
_TRACES = ("goodput", "cwnd", "queue")
_RANKED = ("goodput_error", "queue_delay_error", "completion_error", "jain_error", "loss_error")


def by_factor(validation: Validation, folder: Path) -> Path | None:
    """Writes the errors by factor; returns the path, or ``None`` if there is nothing to draw."""
    drawing = _heatmap.draw(validation, PAPER)
    if drawing is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    return write_figure(_heatmap.CHART, drawing, folder, ["svg"])[0]


def worst_cells(validation: Validation, folder: Path) -> dict[int, list[Path]]:
    """Writes the overlaid series of the most interesting cells; returns the paths, by number of the cell."""
    drawn: dict[int, list[Path]] = {}
    for number in _worth_drawing(validation):
        group = validation.comparison.groups[number]
        place = _slug(validation.cells[number].factors)
        for overlay in OVERLAYS:
            drawing = overlay.draw(validation.comparison, group, PAPER) if overlay.trace in _TRACES else None
            if drawing is not None:
                folder.mkdir(parents=True, exist_ok=True)
                (svg,) = write_figure(overlay.chart, drawing, folder, ["svg"])
                drawn.setdefault(number, []).append(svg.replace(folder / f"{place}-{overlay.trace}.svg"))
    return drawn


def _worth_drawing(validation: Validation) -> list[int]:
    """The worst cells of each kind of error, first those that chance does not explain."""
    found: dict[int, None] = {}
    for name in _RANKED:
        ranked = validation.worst(name, len(validation.cells))
        ranked.sort(key=lambda n: validation.cells[n].sure(name) is False)
        found |= dict.fromkeys(ranked[: 2 if name == "goodput_error" else 1])
    return list(found)[:_MAX_CELLS]


def _slug(factors: Mapping[str, str]) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", "-".join(factors.values())).strip("-.") or "cell"

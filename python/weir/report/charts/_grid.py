"""Panels for the cells of a sweep: one row a combination of names, one column a value of the axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt
import polars as pl

from weir.report.charts._base import Drawing, Medium, named, plain_spec
from weir.report.view import CellView, RunView

__all__ = ["MOST_PANELS", "Place", "facet", "panel_height", "places"]

MOST_PANELS = 120
"""A grid of more panels is not drawn: nobody could read it."""


@dataclass(frozen=True)
class Place:
    """Where a cell is in the grid."""

    view: CellView
    row: str
    column: str


def places(run: RunView) -> list[Place]:
    """The combinations of factors in their places; empty where there is nothing to compare, or too much."""
    if not 1 < len(run.combinations) <= MOST_PANELS:
        return []
    axis = run.axis or run.series
    if axis is None:
        return []
    others = [f for f in run.swept if f is not axis]
    found = []
    for view in run.combinations:
        row = ", ".join(_label(f.name, view.cell.factors.get(f.name, ""), f.numeric) for f in others)
        found.append(Place(view, row, _label(axis.name, view.cell.factors.get(axis.name, ""), axis.numeric)))
    return found


def _label(name: str, value: str, numeric: bool) -> str:
    return f"{name} {value}" if numeric else value


def panel_height(grid: Sequence[Place], medium: Medium) -> int:
    """Height of a panel: the fewer rows, the taller."""
    rows = len({p.row for p in grid})
    return max(46, min(120, 280 // rows)) if medium.page else max(30, min(70, 190 // rows))


def facet(
    layers: Sequence[alt.Chart], grid: Sequence[Place], data: dict[str, pl.DataFrame], medium: Medium, *, height: int,
    title: str, alt_text: str, notes: tuple[str, ...] = (),
) -> Drawing:  # fmt: skip
    """The drawing with ``layers`` repeated for every place; its data have columns ``row`` and ``column``."""
    rows = list(dict.fromkeys(p.row for p in grid))
    columns = list(dict.fromkeys(p.column for p in grid))
    source = next(iter(data))
    layered = alt.layer(*layers, data=named(source)).properties(height=height)
    across = alt.Column("column:N", sort=columns, title=None, header=alt.Header(labelAnchor="start"))
    if len(rows) > 1:
        # Vega shifts a level label by its own width once more: aligned to the right it begins beside the panel.
        header = alt.Header(labelAngle=0, labelAlign="right", labelOrient="right", labelPadding=4)
        down = alt.Row("row:N", sort=rows, title=None, header=header)
        spec = layered.facet(row=down, column=across, spacing=8 if medium.page else 4)
    else:
        spec = layered.facet(column=across, spacing=8 if medium.page else 4)
    spec = spec.properties(title=alt.TitleParams(title, anchor="start"))
    return Drawing(plain_spec(spec), data, alt_text, notes, columns=len(columns), panel_width=64, span=2)

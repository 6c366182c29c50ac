"""Panels for the cells of a sweep.

If every name occurs with every value of the axis, the panels form a table: one row per combination of names, one column
per value of the axis. Otherwise (values swept in step, an unfinished grid) each cell has a panel, in rows of a few.
Vega fills a table of rows and columns from its first place on, with or without data, so a table with holes would show
panels in wrong places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import altair as alt
import polars as pl

from weir.report._text import distinct
from weir.report.charts._base import Drawing, Medium, Spec, header, named, plain_spec, relabel
from weir.report.view import CellView, RunView

__all__ = ["MAX_PANELS", "Grid", "Place", "facet", "grid_of", "panel_height"]

MAX_PANELS = 120
"""Larger grids are not drawn: nobody could read them."""

_ACROSS = 6
"""Panels beside each other if they do not form a table."""


@dataclass(frozen=True)
class Place:
    """The position of a cell in the grid."""

    view: CellView
    row: str
    column: str


@dataclass(frozen=True)
class Grid:
    """The cells of a sweep and their positions."""

    places: tuple[Place, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    crossed: bool
    """Whether there is, or should be, a cell in every row of every column."""

    @property
    def table(self) -> bool:
        """Whether the panels form a table of rows and columns."""
        return self.crossed and (len(self.rows) > 1 or len(self.columns) <= _ACROSS)

    def across(self, medium: Medium) -> int:
        """Panels beside each other."""
        return len(self.columns) if self.table else min(len(self.places), _ACROSS if medium.page else 4)


def grid_of(run: RunView) -> Grid | None:
    """Arranges the combinations of factors; ``None`` if there is nothing to compare, or too much."""
    axis = run.axis or run.series
    if axis is None or not 1 < len(run.combinations) <= MAX_PANELS:
        return None
    others = [f for f in run.swept if f is not axis]
    keys = [tuple(v.cell.factors.get(f.name, "") for f in others) for v in run.combinations]
    texts = {key: ", ".join(_label(f.name, v, f.numeric) for f, v in zip(others, key, strict=True)) for key in keys}
    rows = dict(zip(texts, distinct(list(texts.values())), strict=True))
    columns = {value: _label(axis.name, value, axis.numeric) for value in axis.values}
    places = tuple(
        Place(view, rows[key], columns[view.cell.factors.get(axis.name, "")])
        for view, key in zip(run.combinations, keys, strict=True)
    )
    used = {p.column for p in places}
    order = tuple(c for c in columns.values() if run.crossed or c in used)
    return Grid(places, tuple(rows.values()), order, run.crossed and len(rows) * len(order) == run.listed)


def _label(name: str, value: str, numeric: bool) -> str:
    return f"{name} {value}" if numeric else value


def panel_height(grid: Grid, medium: Medium) -> int:
    """Height of a panel: the fewer rows, the taller."""
    rows = len(grid.rows) if grid.table else -(-len(grid.places) // grid.across(medium))
    return max(46, min(120, 280 // rows)) if medium.page else max(30, min(70, 190 // rows))


def facet(
    layers: Sequence[alt.Chart], grid: Grid, rows: pl.DataFrame, medium: Medium, *, nothing: Mapping[str, float | None],
    title: str, alt_text: str, notes: tuple[str, ...] = (),
) -> Drawing:  # fmt: skip
    """The drawing with ``layers`` repeated for every place.

    ``rows`` has the columns ``row`` and ``column``; ``nothing`` is an invisible row that keeps an empty panel in place.
    """
    layered: alt.LayerChart = alt.layer(*layers, data=named("grid"))  # type: ignore[assignment]  # no layer is a facet
    layered = layered.properties(height=panel_height(grid, medium))
    if not grid.table:
        names = {(p.row, p.column): ", ".join(s for s in (p.row, p.column) if s) for p in grid.places}
        panels = dict(zip(names, distinct(list(names.values())), strict=True))
        look = pl.DataFrame([(*key, panel) for key, panel in panels.items()], ["row", "column", "panel"], orient="row")
        rows = rows.join(look, on=["row", "column"], how="left", maintain_order="left")
        spec = _wrapped(layered, list(panels.values()), grid.across(medium), medium)
        width = 150
    else:
        rows, left_out = _filled(grid, rows, nothing)
        spec = _crossed(layered, grid, medium)
        notes = (*notes, "A panel without a curve is a cell without a result.") if left_out else notes
        width = 64
    spec = spec.properties(title=alt.TitleParams(title, anchor="start"))
    across = grid.across(medium)
    return Drawing(plain_spec(spec), {"grid": rows}, alt_text, notes, columns=across, panel_width=width, span=2)


def _filled(grid: Grid, rows: pl.DataFrame, nothing: Mapping[str, float | None]) -> tuple[pl.DataFrame, bool]:
    """Adds a row for each place without data: Vega would otherwise give its panel to the next."""
    there = set(rows.select("row", "column").unique().iter_rows())
    left_out = [place for place in product(grid.rows, grid.columns) if place not in there]
    if not left_out:
        return rows, False
    empty = pl.DataFrame(left_out, {"row": pl.String, "column": pl.String}, orient="row")
    empty = empty.with_columns(pl.lit(value, pl.Float64).alias(name) for name, value in nothing.items())
    return pl.concat([rows, empty], how="diagonal"), True


def _wrapped(layered: alt.LayerChart, panels: Sequence[str], columns: int, medium: Medium) -> Spec:
    how = alt.Facet("panel:N", sort=list(panels), title=None, header=header(panels, 24, labelPadding=2))
    spec: Spec = layered.facet(facet=how, columns=columns, spacing=14 if medium.page else 8)
    return spec


def _crossed(layered: alt.LayerChart, grid: Grid, medium: Medium) -> Spec:
    across = alt.Column("column:N", sort=list(grid.columns), title=None, header=header(grid.columns, 24))
    spacing = 15 if medium.page else 8  # the label at the bottom of an axis stands above that at the top of the next
    if len(grid.rows) == 1:
        only: Spec = layered.facet(column=across, spacing=spacing)
        return only
    # Vega shifts a level label by its own width again: aligned to the right, it begins beside the panel.
    beside = alt.Header(labelAngle=0, labelAlign="right", labelOrient="right", labelPadding=4,
                        labelExpr=relabel(grid.rows, 32))  # fmt: skip
    down = alt.Row("row:N", sort=list(grid.rows), title=None, header=beside)
    both: Spec = layered.facet(row=down, column=across, spacing=spacing)
    return both

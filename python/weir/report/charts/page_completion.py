"""Completion times of pages: the share completed within a given time."""

from __future__ import annotations

import polars as pl

from weir.metrics.pages import loaded
from weir.metrics.window import CellData, window
from weir.report.charts._base import CellChart, Drawing, Medium
from weir.report.charts.completion import curves, staircases
from weir.report.view import CellView

__all__ = ["CHART"]


def _draw(cell: CellView, medium: Medium) -> Drawing | None:
    if cell.table("flows") is None or not any(page is not None for flow in cell.tested for page in flow.pages):
        return None
    groups = pl.DataFrame(
        {"owner": [f.id for f in cell.tested], "group": [f.group for f in cell.tested]},
        schema={"owner": pl.UInt32, "group": pl.String},
    )
    took = ((pl.col("end_ns") - pl.col("start_ns")) / 1e9).alias("seconds")
    pages = loaded(window(CellData(cell.cell), selector="*")).join(groups, on="owner").select("group", took)
    return staircases(curves(pages), medium, "pages")


CHART = CellChart(
    name="page-completion",
    title="Completion times of pages",
    section="Completion times",
    needs=("flows",),
    caption="Share of the pages that completed within a time of their request, from the request of the document to "
    "the end of the last object. A curve that ends below 100 % has pages that did not complete before the run ended.",
    draw=_draw,
)

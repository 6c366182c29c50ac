"""Shared parts of the link charts: one panel per bottleneck, stacked."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import polars as pl

from weir.report import theme
from weir.report._text import Unit, greatest
from weir.report.charts._base import Drawing, Medium, Spec, header, named, shape, time_axis, value_scale, window
from weir.report.charts._series import band
from weir.report.downsample import bucket_ns
from weir.report.view import CellView
from weir.run import TABLES

__all__ = ["link_panels", "link_rows", "link_width"]


def link_rows(cell: CellView) -> pl.LazyFrame | None:
    """Rows of table ``links`` for the bottlenecks, including the rows of zeros that the table omits."""
    frame = cell.table("links")
    step = cell.plan.interval_ns("links")
    if frame is None or not cell.bottlenecks or not step:
        return None
    links = pl.LazyFrame({"link": [k.id for k in cell.bottlenecks]}, schema={"link": pl.UInt32})
    ends = pl.LazyFrame({"time_ns": pl.int_range(step, cell.end_ns + 1, step, dtype=pl.UInt64, eager=True)})
    rows = frame.join(links, on="link", how="semi")
    silent = ends.join(links, how="cross").join(rows, on=["time_ns", "link"], how="anti")
    counts = [pl.lit(0, pl.UInt64).alias(c.name) for c in TABLES["links"].columns[2:] if not c.nullable]
    return pl.concat([rows, silent.with_columns(counts)], how="diagonal").sort("link", "time_ns")


def link_width(cell: CellView, medium: Medium) -> int:
    """Length of a bucket."""
    return bucket_ns(cell.end_ns, medium.buckets, cell.plan.interval_ns("links"))


def link_panels(
    cell: CellView,
    medium: Medium,
    rows: pl.DataFrame,
    title: str,
    unit: Unit,
    *,
    limits: Mapping[int, float] | None = None,
    alt_text: str,
    notes: tuple[str, ...],
    colour: str = theme.ACCENT,
) -> Drawing | None:
    """One envelope per bottleneck, with a rule at its limit.

    ``rows`` has the columns ``link``, ``time_s``, ``low``, ``mean`` and ``high``.
    """
    if rows.is_empty():
        return None
    names = pl.DataFrame(
        {"link": [k.id for k in cell.bottlenecks], "name": [k.name for k in cell.bottlenecks]},
        schema={"link": pl.UInt32, "name": pl.String},
    )
    rows = rows.join(names, on="link").sort("link", "time_s").select("name", "time_s", "low", "mean", "high")
    if limits:
        most = pl.DataFrame(
            {"name": [names["name"][i] for i, k in enumerate(names["link"]) if k in limits],
             "limit": [limits[k] / unit.factor for k in names["link"] if k in limits]}
        )  # fmt: skip
        rows = rows.join(most, on="name", how="left") if not most.is_empty() else rows.with_columns(limit=None)
    shown = tuple(k.name for k in cell.bottlenecks)
    spec = _spec(medium, cell.end_s, f"{title} ({unit.label})", shown, bool(limits), colour, not greatest(rows["high"]))
    return Drawing(spec, {"links": rows}, alt_text, notes)


@shape
def _spec(
    medium: Medium, end_s: float, title: str, names: tuple[str, ...], limited: bool, colour: str, zeros: bool
) -> Spec:
    several = len(names) > 1
    scale = value_scale(0 if zeros and not limited else 1)
    ticks = 3 if several else 5
    layers = band(end_s, medium, None, title if not several else "", colour=colour, y_scale=scale, ticks=ticks)
    if limited:
        rule = alt.Chart().mark_line(strokeDash=[4, 3], color=theme.SECOND, strokeWidth=1, clip=True)
        layers.append(rule.encode(x=time_axis(end_s, medium), y="limit:Q"))
    layered = alt.layer(*layers, data=named("links"))
    if not several:
        return layered.properties(height=medium.height).add_params(*window(end_s, medium))
    return (
        layered.properties(height=medium.height // 2)
        .facet(
            facet=alt.Facet("name:N", sort=list(names), title=None, header=header(names, labelPadding=1)),
            columns=1,
            spacing=6,
        )
        .properties(title=alt.TitleParams(title, anchor="start"))
        .add_params(*window(end_s, medium))
    )

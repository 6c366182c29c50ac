"""Completion times of transfers: the share completed within a given time."""

from __future__ import annotations

import altair as alt
import polars as pl

from weir.report import theme
from weir.report._text import greatest, unit_for
from weir.report.charts._base import CellChart, Drawing, Medium, Spec, category_scale, legend, named, shape, tooltip
from weir.report.view import CellView

__all__ = ["CHART", "cumulative", "curves", "staircases"]

_MAX_COUNT = 300


def cumulative(cell: CellView) -> pl.DataFrame | None:
    """Columns ``group``, ``seconds`` and ``percent`` of the started transfers that completed within ``seconds``.

    At most about 300 steps per group, evenly spaced in rank, including the first and the last. ``None`` without
    transfers of known size.
    """
    frame = cell.of_tested("flows")
    if frame is None:
        return None
    groups = pl.LazyFrame(
        {"flow": [f.id for f in cell.tested], "group": [f.group for f in cell.tested]},
        schema={"flow": pl.UInt32, "group": pl.String},
    )
    took = (pl.col("end_ns").cast(pl.Int64) - pl.col("start_ns").cast(pl.Int64)) / 1e9
    sized = (
        frame.filter(pl.col("bytes").is_not_null())
        .join(groups, on="flow")
        .select("group", took.alias("seconds"))
        .collect()
    )
    return curves(sized)


def curves(took: pl.DataFrame) -> pl.DataFrame | None:
    """Columns ``group``, ``seconds`` and ``percent``, from ``group`` and ``seconds`` (null: not completed) of each."""
    parts = [
        _steps(part)
        for part in took.sort("group", "seconds", nulls_last=True).partition_by("group", maintain_order=True)
    ]
    return pl.concat(parts) if parts else None


def _steps(part: pl.DataFrame) -> pl.DataFrame:
    total = part.height
    done = part.drop_nulls("seconds").with_row_index("rank", offset=1)
    every = max(1, -(-done.height // _MAX_COUNT))
    kept = done.filter((pl.col("rank") % every == 0) | (pl.col("rank") == 1) | (pl.col("rank") == done.height))
    return kept.select("group", "seconds", percent=100 * pl.col("rank") / total)


def _draw(cell: CellView, medium: Medium) -> Drawing | None:
    return staircases(cumulative(cell), medium, "transfers")


def staircases(rows: pl.DataFrame | None, medium: Medium, what: str) -> Drawing | None:
    """Draws the result of :func:`curves`; ``what`` is the plural noun for the completed things."""
    if rows is None or rows.is_empty():
        return None
    longest = greatest(rows["seconds"])
    unit = unit_for(longest, "s")
    rows = rows.with_columns(seconds=pl.col("seconds") / unit.factor).rename({"seconds": "time"})
    groups = list(dict.fromkeys(rows["group"]))
    last = f"{longest / unit.factor:.3g} {unit.label}"
    text = f"{greatest(rows['percent']):.3g} % of the {what} completed, the longest in {last}."
    spec = _spec(medium, unit.label, tuple(groups), rows.height < 30, f"{what.capitalize()} completed (%)")
    return Drawing(spec, {"completion": rows}, text, csv_names={"time": f"time ({unit.label})"})


@shape
def _spec(medium: Medium, unit: str, groups: tuple[str, ...], dots: bool, title: str) -> Spec:
    shown = tooltip(
        medium, ("group:N", "group"), ("time:Q", f"within ({unit})", ".4~g"), ("percent:Q", "completed (%)", ".4~g")
    )
    line = alt.Chart(named("completion")).mark_line(interpolate="step-after", point=dots)
    spec: alt.Chart = line.encode(
        x=alt.X("time:Q", title=f"Completion time ({unit})", scale=alt.Scale(zero=True), axis=alt.Axis(grid=False)),
        y=alt.Y("percent:Q", title=title, scale=alt.Scale(domain=[0, 100])),
        tooltip=shown,
    )
    if len(groups) > 1:
        key = legend(groups, medium)
        spec = spec.encode(
            color=alt.Color("group:N", title=None, scale=category_scale(groups, "color"), legend=key),
            strokeDash=alt.StrokeDash("group:N", title=None, scale=category_scale(groups, "strokeDash"), legend=key),
        )
    else:
        spec = spec.encode(color=alt.value(theme.ACCENT))
    sized: alt.Chart = spec.properties(height=medium.height)
    return sized


CHART = CellChart(
    name="completion",
    title="Completion times",
    section="Completion times",
    needs=("flows",),
    caption="Share of the transfers of known size that completed within a time of their request, including connection "
    "set-up. A curve that ends below 100 % has transfers that did not complete before the run ended.",
    draw=_draw,
)

"""Jain's index over time."""

from __future__ import annotations

import altair as alt
import polars as pl

from weir.metrics.fairness import jain_index
from weir.report import theme
from weir.report._text import least
from weir.report.charts._base import (
    CellChart,
    Drawing,
    Medium,
    Spec,
    by_direction,
    named,
    shape,
    time_axis,
    tooltip,
    window,
)
from weir.report.charts._changes import marked
from weir.report.downsample import aggregate, bucket_ends, bucket_ns
from weir.report.view import CellView

__all__ = ["CHART"]


@marked
def _draw(cell: CellView, medium: Medium) -> Drawing | None:
    frame = cell.of_tested("goodput")
    if frame is None or len(cell.tested) < 2:
        return None
    width = bucket_ns(cell.end_ns, max(1, medium.buckets // 3), cell.plan.interval_ns("goodput"))
    sums = aggregate(
        bucket_ends(frame, width),
        {"got": pl.col("delivered_bytes").sum().cast(pl.Float64)},
        by=["flow"],
        width_ns=width,
    )
    rows = [
        (time, jain_index(part["got"].to_numpy()), part.height, way)
        for way, flows in cell.directions.items()
        for time, part in _instants(sums.filter(pl.col("flow").is_in([f.id for f in flows])))
        if part.height > 1
    ]
    schema = {"time_s": pl.Float64, "jain": pl.Float64, "flows": pl.Int64, "direction": pl.String}
    data = pl.DataFrame(rows, schema, orient="row").filter(pl.col("jain").is_not_nan())
    if data.is_empty():
        return None
    text = f"Jain's index of the active flows over time; minimum {least(data['jain']):.3g}."
    said: tuple[str, ...] = (f"Each point covers the goodputs of {width / 1e9:.3g} s.",)
    if unlike := [way for way, flows in cell.directions.items() if len({f.kind for f in flows}) > 1]:
        kinds = sorted({f.kind for way in unlike for f in cell.directions[way]})
        said = (*said, f"It compares unlike flows ({', '.join(kinds)}), for which equal shares are no aim.")
    both = data["direction"].n_unique() > 1
    data = data if cell.both_ways else data.drop("direction")
    return Drawing(_spec(medium, cell.end_s, both), {"fairness": data}, text, said)


@shape
def _spec(medium: Medium, end_s: float, both: bool) -> Spec:
    shown = tooltip(medium, ("time_s:Q", "Time (s)", ".4~g"), ("jain:Q", "jain", ".4~f"), ("flows:Q", "flows active"))
    y = alt.Y("jain:Q", title="Jain's index", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(tickCount=5))
    line = alt.Chart(named("fairness")).mark_line(color=theme.ACCENT, clip=True)
    spec: alt.Chart = line.encode(x=time_axis(end_s, medium), y=y, tooltip=shown).properties(
        height=int(medium.height * 0.7)
    )
    spec = spec.encode(color=by_direction(medium)) if both else spec
    shown_part: alt.Chart = spec.add_params(*window(end_s, medium))
    return shown_part


def _instants(sums: pl.DataFrame) -> list[tuple[float, pl.DataFrame]]:
    return [
        (float(part["time_s"][0]), part)
        for part in sums.sort("time_s", "flow").partition_by("time_s", maintain_order=True)
    ]


CHART = CellChart(
    name="fairness-time",
    title="Fairness over time",
    section="Fairness",
    needs=("goodput",),
    caption="Jain's index of the goodputs of the active flows under test: 1 if all are equal, 1/N if "
    "one of N gets everything. Uploads and downloads are separate.",
    draw=_draw,
)

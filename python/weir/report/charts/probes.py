"""Values inside the flows' congestion controls, as they show them by ``WEIR_PROBE``."""

from __future__ import annotations

import json

import altair as alt
import polars as pl

from weir.report import theme
from weir.report._text import shortened
from weir.report.charts._base import CellChart, Drawing, Medium, Spec, named, shape, time_axis, tooltip, window
from weir.report.charts._changes import marked
from weir.report.downsample import bucket_ns, samples, steps_note
from weir.report.view import CellView

__all__ = ["CHART"]

_PANELS = 16
"""Most panels of a drawing; of many flows, the first ones are drawn."""


@marked
def _draw(cell: CellView, medium: Medium) -> Drawing | None:
    frame = cell.of_tested("probes")
    if frame is None:
        return None
    frame = frame.with_columns(pl.col("probe").cast(pl.String))
    found = frame.select("flow", "probe").unique().collect().sort("flow", "probe")
    if found.is_empty():
        return None
    shown = found.head(max(_PANELS, found.filter(pl.col("flow") == found["flow"][0]).height))
    interval = cell.plan.interval_ns("probes")
    width = bucket_ns(cell.end_ns, medium.buckets, interval)
    rows = samples(
        frame.join(shown.lazy(), on=["flow", "probe"]), pl.col("value"), by=["flow", "probe"], width_ns=width
    )
    titles = shown.join(cell.names(), on="flow", maintain_order="left").select(
        "flow", "probe", panel=pl.concat_str("name", pl.lit(": "), "probe")
    )
    rows = rows.join(titles, on=["flow", "probe"]).sort("flow", "probe", "time_s").select("panel", "time_s", "value")
    order = tuple(titles["panel"])
    text = f"{len(order)} values inside the congestion controls over {cell.end_s:g} s: {', '.join(order)}."
    notes = steps_note(width, interval)
    if len(shown) < len(found):
        notes = (*notes, f"The first {len(shown)} of {len(found)} values are drawn; table probes has all.")
    panels = tuple((panel, *_ends(rows, panel)) for panel in order)
    return Drawing(_spec(medium, cell.end_s, panels), {"probes": rows}, text, notes, span=2)


def _ends(rows: pl.DataFrame, panel: str) -> tuple[float, float]:
    """The ends of a panel's axis: zero is among them."""
    own = rows.filter(pl.col("panel") == panel)["value"]
    low, high = min(0.0, float(own.min() or 0)), max(0.0, float(own.max() or 0))  # type: ignore[arg-type]
    return (low, high) if low < high else (0.0, 1.0)


@shape
def _spec(medium: Medium, end_s: float, panels: tuple[tuple[str, float, float], ...]) -> Spec:
    height = min(max(medium.row_height, (480 if medium.page else 2 * medium.height) // len(panels)), medium.height)
    titles = shortened([panel for panel, _, _ in panels], 100)
    parts = [
        _panel(medium, end_s, panel, last=number == len(panels) - 1).properties(
            height=height, title=alt.TitleParams(titles[number], anchor="start", frame="group")
        )
        for number, panel in enumerate(panels)
    ]
    stacked: alt.VConcatChart = alt.vconcat(*parts, spacing=8).add_params(*window(end_s, medium))
    return stacked


def _panel(medium: Medium, end_s: float, panel: tuple[str, float, float], *, last: bool) -> alt.Chart:
    """The steps of one value, on its own scale."""
    name, low, high = panel
    shown = tooltip(medium, ("panel:N", "of"), ("time_s:Q", "Time (s)", ".6~g"), ("value:Q", "value", ".6~g"))
    chart: alt.Chart = (
        alt.Chart(named("probes"))
        .transform_filter(f"datum.panel === {json.dumps(name)}")
        .mark_line(clip=True, interpolate="step-after", color=theme.ACCENT)
        .encode(
            x=time_axis(end_s, medium, title="Time (s)" if last else None),
            y=alt.Y("value:Q", title="", scale=alt.Scale(domain=[low, high], nice=True), axis=alt.Axis(tickCount=3)),
            tooltip=shown,
        )
    )
    return chart


CHART = CellChart(
    name="probes",
    title="Inside the congestion control",
    section="Time series",
    needs=("probes",),
    caption="The values that each flow's congestion control shows by WEIR_PROBE, in the units of its source, as steps "
    "between the samples of measure.tcp; each panel has its own scale.",
    draw=_draw,
)

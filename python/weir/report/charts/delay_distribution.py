"""Distribution of the one-way delays of each flow's packets."""

from __future__ import annotations

import altair as alt
import polars as pl

from weir.report import theme
from weir.report._text import greatest, unit_for
from weir.report.charts._base import (
    CellChart,
    Drawing,
    Medium,
    Spec,
    category_scale,
    legend,
    named,
    shape,
    tooltip,
)
from weir.report.charts._delays import ranks
from weir.report.view import CellView

__all__ = ["CHART"]

_MAX_COUNT = 300
_CURVES = 12
"""With more flows, the flows of each workload entry share a curve."""


def _draw(cell: CellView, medium: Medium) -> Drawing | None:
    frame = cell.of_tested("delay_bins")
    if frame is None:
        return None
    single = len(cell.tested) <= _CURVES
    look = {f.id: f.name if single else f.group for f in cell.tested}
    names_of = pl.LazyFrame(list(look.items()), {"flow": pl.UInt32, "name": pl.String}, orient="row")
    rows = ranks(frame.join(names_of, on="flow"), ["name"])
    if rows.is_empty():
        return None
    highest = greatest(rows["delay_s"])
    unit = unit_for(highest, "s")
    kept = pl.concat([_kept(part) for part in rows.partition_by("name", maintain_order=True)])
    data = kept.select("name", delay=pl.col("delay_s") / unit.factor, percent=100 * pl.col("rank") / pl.col("total"))
    names = tuple(name for name in dict.fromkeys(look.values()) if name in set(data["name"]))
    spec = _spec(medium, unit.label, names)
    what, most = "flows" if single else "groups of flows", highest / unit.factor
    text = f"One-way delays of {len(names)} {what}, up to {most:.3g} {unit.label}."
    return Drawing(spec, {"delays": data}, text, csv_names={"delay": f"delay ({unit.label})"})


def _kept(part: pl.DataFrame) -> pl.DataFrame:
    """At most about 300 bins, evenly spaced in rank, including the first and the last."""
    step = (pl.col("rank") * _MAX_COUNT // pl.col("total")).cast(pl.Int64)
    first = pl.int_range(pl.len()) == 0
    return part.filter((step > step.shift(1, fill_value=-1)) | first | (pl.col("rank") == pl.col("total")))


@shape
def _spec(medium: Medium, unit: str, names: tuple[str, ...]) -> Spec:
    shown = tooltip(
        medium, ("name:N", "of"), ("delay:Q", f"within ({unit})", ".4~g"), ("percent:Q", "packets (%)", ".4~g")
    )
    line = (
        alt.Chart(named("delays"))
        .mark_line(interpolate="step-after", clip=True)
        .encode(
            x=alt.X(
                "delay:Q",
                title=f"One-way delay ({unit})",
                scale=alt.Scale(zero=True),
                axis=alt.Axis(grid=False, tickCount=8),
            ),
            y=alt.Y("percent:Q", title="Packets (%)", scale=alt.Scale(domain=[0, 100])),
            tooltip=shown,
        )
    )
    if len(names) > 1:
        key = legend(names, medium)
        line = line.encode(
            color=alt.Color("name:N", title=None, scale=category_scale(names, "color"), legend=key),
            strokeDash=alt.StrokeDash("name:N", title=None, scale=category_scale(names, "strokeDash"), legend=key),
        )
    else:
        line = line.encode(color=alt.value(theme.ACCENT))
    sized: alt.Chart = line.properties(height=medium.height)
    return sized


CHART = CellChart(
    name="delay-distribution",
    title="Distribution of one-way delays",
    section="Delays",
    needs=("delay_bins",),
    caption="Share of a flow's data packets with a host-to-host delay up to a given time, over the whole "
    "run, to 0.4 %. With more than 12 flows, the flows of each workload entry share a curve.",
    draw=_draw,
)

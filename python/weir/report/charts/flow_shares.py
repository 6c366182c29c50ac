"""Mean goodput of each flow in each phase."""

from __future__ import annotations

import altair as alt
import polars as pl

from weir.metrics.selection import direction_of
from weir.report import theme
from weir.report._text import greatest, least, unit_for
from weir.report.charts._base import (
    CellChart,
    Drawing,
    Medium,
    Spec,
    beside,
    by_direction,
    header,
    named,
    own_axes,
    shape,
    tooltip,
    value_scale,
)
from weir.report.view import CellView

__all__ = ["CHART"]


def _draw(cell: CellView, medium: Medium) -> Drawing | None:
    found = cell.by_flow("goodput.mean")
    if found.is_empty() or "flow" not in found.columns:
        return None
    tested = {"flow": [f.name for f in cell.tested], "direction": [direction_of(f) for f in cell.tested]}
    order = pl.DataFrame({**tested, "row": range(len(cell.tested))})
    rows = found.filter(pl.col("value").is_not_null()).join(order, on="flow")
    if rows.is_empty() or rows["row"].n_unique() < 2:
        return None
    unit = unit_for(greatest(rows["value"]), "bit/s")
    phase = pl.col("phase").fill_null("whole run")
    scaled = [(pl.col(c) / unit.factor).alias(name) for c, name in _COLUMNS.items()]
    rows = rows.select(phase, pl.col("flow").alias("name"), "row", "direction", *scaled).sort(
        "row", maintain_order=True
    )
    rows = rows.with_columns(fair=pl.col("goodput").mean().over("phase", "direction"))
    rows = rows if cell.both_ways else rows.drop("direction")
    phases = [p.name for p in cell.phases if p.name in set(rows["phase"])]
    label = f"Mean goodput ({unit.label})"
    text = "Mean goodput of each flow: " + "; ".join(_say(rows, p, unit.label) for p in phases) + "."
    flows, several = len(cell.tested), len(phases) > 1
    highest = [greatest(rows.filter(phase=p)["goodput"]) for p in phases]
    spec = _spec(
        medium,
        tuple(phases),
        label,
        flows,
        bool(rows["low"].is_not_null().any()),
        tuple(map(bool, highest)),
        cell.both_ways,
    )
    columns = beside(len(phases))
    return Drawing(spec, {"shares": rows}, text, columns=columns, panel_width=300, span=2 if several else 1)


@shape
def _spec(
    medium: Medium,
    phases: tuple[str, ...],
    label: str,
    flows: int,
    intervals: bool,
    values: tuple[bool, ...],
    both: bool,
) -> Spec:
    several = len(phases) > 1
    layers = _layers(
        medium, flows, label if not (several and medium.page) else None, intervals, value_scale(any(values))
    )
    layers = [layer.encode(color=by_direction(medium)) for layer in layers] if both else layers
    layered = alt.layer(*layers, data=named("shares")).properties(height=medium.height)
    if not several:
        return layered
    spec: alt.FacetChart = layered.facet(
        facet=alt.Facet("phase:N", sort=list(phases), title=None, header=header(phases)),
        columns=beside(len(phases)),
        spacing=62 if medium.page else 34,
    )
    spec = own_axes(spec, len(phases))
    if all(values):  # a panel of only zeros has no scale of its own
        spec = spec.resolve_scale(y="independent")
    if medium.page:
        spec = spec.properties(title=alt.TitleParams(label, anchor="start"))
    return spec


_COLUMNS = {"value": "goodput", "ci_low": "low", "ci_high": "high"}


def _layers(medium: Medium, flows: int, title: str | None, intervals: bool, scale: alt.Scale) -> list[alt.Chart]:
    axis = alt.Axis(grid=False, tickMinStep=1, format="d", tickCount=min(flows, 12))
    x = alt.X(
        "row:Q",
        title="Flow, in the order of the plan",
        axis=axis,
        scale=alt.Scale(domain=[-0.5, flows - 0.5], nice=False),
    )
    y = alt.Y("goodput:Q", title=title, scale=scale)
    base = alt.Chart()
    shown = tooltip(
        medium,
        ("name:N", "flow"),
        ("goodput:Q", "mean", ".4~g"),
        ("low:Q", "95 % from", ".4~g"),
        ("high:Q", "to", ".4~g"),
    )
    fair = base.mark_line(color=theme.SECOND, strokeDash=[4, 3], strokeWidth=1).encode(x=x, y="fair:Q")
    size = max(6.0, min(42.0, 1500 / flows)) * (1 if medium.page else 0.35)
    dot = base.mark_point(color=theme.ACCENT, size=size, opacity=1, clip=True).encode(x=x, y=y, tooltip=shown)
    if not intervals:
        return [fair, dot]
    interval = base.mark_rule(color=theme.ACCENT, opacity=0.5, clip=True).encode(
        x=x, y=alt.Y("low:Q", scale=y["scale"]), y2="high:Q"
    )
    return [fair, interval, dot]


def _say(rows: pl.DataFrame, phase: str, unit: str) -> str:
    mine = rows.filter(pl.col("phase") == phase)["goodput"]
    return f"{phase}, from {least(mine):.3g} to {greatest(mine):.3g} {unit}"


CHART = CellChart(
    name="flow-shares",
    title="Who gets how much",
    section="Fairness",
    needs=("goodput.mean",),
    caption="Mean goodput of each flow under test in a phase, averaged over the repeats, with its 95 % confidence "
    "interval; dashed: the mean over the flows, which is every flow's share if all are equal. "
    "Uploads and downloads are separate.",
    draw=_draw,
)

"""Mean goodput of each flow in each phase: who gets how much."""

from __future__ import annotations

import altair as alt
import polars as pl

from weir.report import theme
from weir.report._text import unit_for
from weir.report.charts._base import CellChart, Drawing, Medium, named, tooltip
from weir.report.view import CellView

__all__ = ["CHART"]


def _draw(cell: CellView, medium: Medium) -> Drawing | None:
    found = cell.metric("goodput.mean", "flow")
    if found.is_empty() or "flow" not in found.columns:
        return None
    order = pl.DataFrame({"flow": [f.name for f in cell.tested], "row": range(len(cell.tested))})
    rows = found.filter(pl.col("value").is_not_null()).join(order, on="flow")
    if rows.is_empty() or rows["row"].n_unique() < 2:
        return None
    unit = unit_for(float(rows["value"].max()), "bit/s")  # type: ignore[arg-type]
    phase = pl.col("phase").fill_null("whole run")
    scaled = [(pl.col(c) / unit.factor).alias(name) for c, name in _COLUMNS.items()]
    rows = rows.select(phase, pl.col("flow").alias("name"), "row", *scaled).sort("row", maintain_order=True)
    rows = rows.with_columns(fair=pl.col("goodput").mean().over("phase"))
    phases = [p.name for p in cell.phases if p.name in set(rows["phase"])]
    label = f"Mean goodput ({unit.label})"
    layered = alt.layer(*_layers(medium, rows, label, len(phases) > 1), data=named("shares")).properties(height=medium.height)
    text = "Mean goodput of each flow: " + "; ".join(_say(rows, p, unit.label) for p in phases) + "."
    if len(phases) == 1:
        return Drawing(layered, {"shares": rows}, text)
    header = alt.Header(labelAnchor="start", title=None)
    spec = layered.facet(facet=alt.Facet("phase:N", sort=phases, title=None, header=header), columns=2, spacing=24)
    if medium.page:
        spec = spec.properties(title=alt.TitleParams(label, anchor="start"))
    return Drawing(spec, {"shares": rows}, text, columns=2, panel_width=300, span=2)


_COLUMNS = {"value": "goodput", "ci_low": "low", "ci_high": "high"}


def _layers(medium: Medium, rows: pl.DataFrame, label: str, several: bool) -> list[alt.Chart]:
    flows = int(rows["row"].max()) + 1  # type: ignore[arg-type]
    axis = alt.Axis(grid=False, tickMinStep=1, format="d", tickCount=min(flows, 12))
    x = alt.X("row:Q", title="Flow, in the order of the plan", axis=axis, scale=alt.Scale(domain=[-0.5, flows - 0.5], nice=False))
    title = None if several and medium.page else label
    top = float(rows["goodput"].max())  # type: ignore[arg-type]
    y = alt.Y("goodput:Q", title=title, scale=alt.Scale(domain=[0, top * 1.1], nice=False))
    base = alt.Chart()
    shown = tooltip(medium, alt.Tooltip("name:N", title="flow"), alt.Tooltip("goodput:Q", title=label, format=".4~g"),
                    alt.Tooltip("low:Q", title="95 % from", format=".4~g"), alt.Tooltip("high:Q", title="to", format=".4~g"))  # fmt: skip
    fair = base.mark_line(color=theme.SECOND, strokeDash=[4, 3], strokeWidth=1).encode(x=x, y="fair:Q")
    size = max(6.0, min(42.0, 1500 / flows)) * (1 if medium.page else 0.35)
    dot = base.mark_point(color=theme.ACCENT, size=size, opacity=1, clip=True).encode(x=x, y=y, tooltip=shown)
    if rows["low"].is_null().all():
        return [fair, dot]
    interval = base.mark_rule(color=theme.ACCENT, opacity=0.5, clip=True).encode(x=x, y=alt.Y("low:Q", scale=y["scale"]), y2="high:Q")
    return [fair, interval, dot]


def _say(rows: pl.DataFrame, phase: str, unit: str) -> str:
    mine = rows.filter(pl.col("phase") == phase)["goodput"]
    return f"{phase}, from {mine.min():.3g} to {mine.max():.3g} {unit}"


CHART = CellChart(
    name="flow-shares",
    title="Who gets how much",
    section="Fairness",
    needs=("goodput.mean",),
    caption="Mean goodput of each flow under test in a phase, mean over the repeats with its 95 % confidence interval; dashed: "
    "the mean over the flows, which each would have if all were equal.",
    draw=_draw,
)

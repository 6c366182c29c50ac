"""The number of each packet at the output against time, with the losses: figures 8 to 10 of LIP 2006-38.

Shown for a cell with a packet trace (`measure.trace`). On the page, the time shown enlarges a part; the numbers' axis
follows.
"""

from __future__ import annotations

import io
import json

import altair as alt
import polars as pl

from weir._inside import read_plain
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
    window,
)
from weir.report.view import CellView

__all__ = ["CHART"]

_FLOWS = 6
"""Most flows of a drawing."""
_PACKETS = 8000
"""Most packets of a drawing."""
_MOST_BYTES = 1 << 28
_WIDEST = 5
"""Area of the marks of the first flow in units of the last one's."""
_OUTPUT, _LOST = "at the output", "lost"
_EVENTS = {_OUTPUT: "received", _LOST: "dropped"}
_SETS = {_OUTPUT: "output", _LOST: "lost"}
_TIMES = alt.Axis(grid=False, tickCount=6)


def _packets(cell: CellView) -> pl.DataFrame | None:
    """The packets of the traced flows' senders that arrived or were dropped; ``None``: no readable trace."""
    trace = cell.cell.path / "packets.csv"
    try:
        log = pl.read_csv(
            io.BytesIO(read_plain(trace, _MOST_BYTES)),
            columns=["time_ns", "event", "flow", "from", "number"],
            schema_overrides={"time_ns": pl.Int64, "flow": pl.Int64, "number": pl.Int64},
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        cell.problems.append(f"{cell.id}: packets.csv: {error}")
        return None
    tested = [flow.id for flow in cell.tested]
    chosen = pl.col("event").is_in(list(_EVENTS.values())) & (pl.col("from") == "sender") & pl.col("flow").is_in(tested)
    return log.filter(chosen).drop_nulls(["time_ns", "number"]).sort("time_ns", maintain_order=True)


def _draw(cell: CellView, medium: Medium) -> Drawing | None:
    log = _packets(cell)
    if log is None or log.is_empty():
        return None
    flows = log["flow"].unique().sort().to_list()
    names = {flow.id: flow.name for flow in cell.plan.flows if flow.id in flows[:_FLOWS]}
    own = log.filter(pl.col("flow").is_in(list(names)))
    drawn = own.head(_PACKETS).with_columns(pl.col("number") - pl.col("number").min().over("flow"))
    label = pl.col("flow").replace_strict(names, return_dtype=pl.String).alias("name")
    # Flows of one rate lie on one line: the marks of each flow are smaller than those below them, of the flow before.
    layered = drawn.sort("flow", maintain_order=True)
    data = {
        _SETS[what]: layered.filter(pl.col("event") == event).select(label, "time_ns", "number")
        for what, event in _EVENTS.items()
    }
    notes = []
    if len(flows) > _FLOWS:
        notes.append(f"The first {_FLOWS} of {len(flows)} traced flows are drawn; packets.csv has all.")
    begin, end = int(drawn["time_ns"][0]) / 1e9, int(drawn["time_ns"][-1]) / 1e9
    if drawn.height < own.height:
        notes.append(f"The first {drawn.height} of {own.height} packets are drawn, until {end:.6g} s.")
    order = tuple(names.values())
    lost = data["lost"].height
    text = f"Numbers of {drawn.height - lost} packets of {len(order)} flows at the output, and of {lost} lost."
    end = max(end, begin + 1e-6)  # a single packet
    if not lost:
        del data["lost"]
    return Drawing(_spec(medium, begin, end, cell.end_s, order, lost > 0), data, text, tuple(notes), span=2)


@shape
def _spec(medium: Medium, begin: float, end: float, end_s: float, order: tuple[str, ...], lost: bool) -> Spec:
    if not lost:
        alone: alt.Chart = _plot(medium, begin, end, order, _OUTPUT).add_params(*window(end_s, medium))
        return alone
    output = _plot(medium, begin, end, order, _OUTPUT, above=True)
    both: alt.VConcatChart = alt.vconcat(output, _plot(medium, begin, end, order, _LOST), spacing=10)
    return both.add_params(*window(end_s, medium))


def _plot(
    medium: Medium, begin: float, end: float, order: tuple[str, ...], what: str, above: bool = False
) -> alt.Chart:
    """The packets of one kind; above another plot without a title of the axis of time."""
    domain = alt.Scale(domain=[begin, end], nice=False, zero=False)
    base = alt.Chart(named(_SETS[what])).transform_calculate(time_s="datum.time_ns / 1e9")
    if medium.page:
        # The time shown, as far as the trace covers it: a trace is often a small part of a run.
        covered = f"tmin < {end!r} && tmax > {begin!r}"
        low = alt.ExprRef(expr=f"{covered} ? max(tmin, {begin!r}) : tmin")
        high = alt.ExprRef(expr=f"{covered} ? min(tmax, {end!r}) : tmax")
        domain = alt.Scale(domainMin=low, domainMax=high, nice=False, zero=False)
        base = base.transform_filter("datum.time_s >= tmin && datum.time_s <= tmax")
    # On the page, larger ones for a small part.
    least = f"(tmax - tmin < {(end - begin) / 8!r} ? 50 : 14)" if medium.page else "3"
    above_it = f"{len(order) - 1} - indexof({json.dumps(order)}, datum.name)"
    size = alt.ExprRef(expr=f"{least} * (1 + {_WIDEST - 1} * ({above_it}) / {max(len(order) - 1, 1)})")
    title = f"packet {what}"
    look = legend(order, medium, symbolOpacity=1, symbolType="circle")
    colour = alt.Color("name:N", title=None, scale=category_scale(order, "color"), legend=look)
    plot: alt.Chart = (
        base.mark_point(
            shape="circle" if what == _OUTPUT else "cross", size=size, strokeWidth=1.2 if medium.page else 0.5
        )
        .encode(
            x=alt.X("time_s:Q", title=None if above else "Time (s)", scale=domain, axis=_TIMES),
            y=alt.Y("number:Q", title=title, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=4)),
            color=colour,
            tooltip=tooltip(medium, ("name:N", "flow"), ("number:Q", title), ("time_s:Q", "Time (s)", ".9~g")),
        )
        .properties(height=medium.height)
    )
    return plot


CHART = CellChart(
    name="sequence",
    title="Packets at the output",
    section="Time series",
    needs=("flows",),
    caption="The number of each packet of the flows of measure.trace when it arrives at its receiver, and of each lost "
    "one when it is dropped, from the first that is drawn of its flow. The way from the last output port to a receiver "
    "takes the same time for every packet, so distances in time are those at the port. Flows that lie on one line have "
    "marks of different size.",
    draw=_draw,
)

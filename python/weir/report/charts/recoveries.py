"""Times at which flows lose packets: recoveries and timeouts, to show whether losses are synchronised."""

from __future__ import annotations

import altair as alt
import polars as pl

from weir.report import theme
from weir.report._text import greatest
from weir.report.charts._base import CellChart, Drawing, Medium, Spec, named, shape, time_axis, tooltip, window
from weir.report.charts._changes import marked
from weir.report.downsample import bucket_ns
from weir.report.view import CellView

__all__ = ["CHART"]

_KINDS = {"recovery": "recovery", "rto": "timeout", "cwr": "ECN reduction", "local_congestion": "own queue full"}
# The named shapes have no upright stroke.
_SHAPES = ["M0,-0.7L0,0.7", "triangle-down", "diamond", "square"]
_COLOURS = [theme.ACCENT, theme.SECOND, theme.THIRD, "#CC79A7"]


@marked
def _draw(cell: CellView, medium: Medium) -> Drawing | None:
    frame = cell.of_tested("events")
    if frame is None:
        return None
    width = bucket_ns(cell.end_ns, medium.buckets if cell.few else medium.map_columns, 1)
    events = frame.with_columns(pl.col("kind").cast(pl.String)).filter(pl.col("kind").is_in(list(_KINDS)))
    binned = events.with_columns((pl.col("time_ns") // width).alias("bin"))
    order = pl.LazyFrame(
        {"flow": [f.id for f in cell.tested], "row": range(len(cell.tested))},
        schema={"flow": pl.UInt32, "row": pl.Int64},
    )
    counted = binned.group_by("flow", "kind", "bin").agg(
        count=pl.len(), time_s=pl.col("time_ns").min() / 1e9, end_s=(pl.col("bin").first() + 1) * (width / 1e9)
    )
    rows = counted.join(order, on="flow").join(cell.names().lazy(), on="flow").collect()
    if rows.is_empty():
        return None
    rows = rows.with_columns(event=pl.col("kind").replace_strict(_KINDS, return_dtype=pl.String))
    marks = rows.select("name", "row", "event", "time_s", "end_s", "count").sort("row", "time_s", "event")
    shares = _synchrony(cell, medium, rows)
    text = (
        f"{int(marks['count'].sum())} reductions of {marks['row'].n_unique()} flows; "
        f"at most {greatest(shares['share']):.0f} % of the flows within {greatest(shares['window_s']):.3g} s."
    )
    if cell.few:
        kinds = tuple(k for k in _KINDS.values() if k in set(marks["event"]))
        spec = _raster(medium, cell.end_s, len(cell.tested), kinds)
        said: tuple[str, ...] = ()
        marks = marks.drop("end_s")
    else:
        marks = _counts(marks, width)
        spec = _map(medium, cell.end_s, len(cell.tested))
        said = (f"Each field of the map counts the reductions of a flow in {width / 1e9:.3g} s.",)
    return Drawing(spec, {"events": marks, "shares": shares}, text, said, span=2)


def _counts(marks: pl.DataFrame, width: int) -> pl.DataFrame:
    """All kinds together, by flow and field of the map."""
    fields = marks.with_columns(from_s=pl.col("end_s") - width / 1e9)
    counted = fields.group_by("name", "row", "from_s", "end_s").agg(pl.col("count").sum())
    return counted.sort("row", "from_s")


def _synchrony(cell: CellView, medium: Medium, rows: pl.DataFrame) -> pl.DataFrame:
    """Share of the flows started so far that reduced within each window, about two pixels wide."""
    window_s = max(cell.end_s / (medium.buckets / 2), 1e-3)
    binned = rows.with_columns((pl.col("time_s") / window_s).floor().cast(pl.Int64).alias("bin"))
    hit = binned.group_by("bin").agg(pl.col("row").n_unique().alias("hit")).sort("bin")
    starts = sorted(f.start_ns / 1e9 for f in cell.tested)
    ends = ((hit["bin"] + 1) * window_s).to_list()
    started = [max(1, sum(s <= end for s in starts)) for end in ends]
    return pl.DataFrame(
        {
            "time_s": (hit["bin"] * window_s).to_list(),
            "window_s": [window_s] * len(ends),
            "share": [100 * h / n for h, n in zip(hit["hit"], started, strict=True)],
        }
    )


@shape
def _raster(medium: Medium, end_s: float, flows: int, kinds: tuple[str, ...]) -> Spec:
    return _under_bars(medium, end_s, _marks(medium, end_s, flows, kinds))


@shape
def _map(medium: Medium, end_s: float, flows: int) -> Spec:
    return _under_bars(medium, end_s, _counted(medium, end_s, flows))


def _under_bars(medium: Medium, end_s: float, chart: alt.Chart) -> alt.VConcatChart:
    both = alt.vconcat(_bars(medium, end_s), chart).resolve_scale(color="independent", shape="independent")
    found: alt.VConcatChart = both.add_params(*window(end_s, medium))
    return found


def _bars(medium: Medium, end_s: float) -> alt.Chart:
    scale, axis = alt.Scale(domain=[0, 100]), alt.Axis(tickCount=2)
    chart: alt.Chart = (
        alt.Chart(named("shares"))
        .mark_rule(color=theme.NEUTRAL, clip=True, strokeWidth=1.5 if medium.page else 0.6)
        .transform_calculate(floor="0")
        .encode(
            x=time_axis(end_s, medium, title=None),
            y=alt.Y(
                "share:Q",
                title="Flows reducing together (%)" if medium.page else "Together (%)",
                scale=scale,
                axis=axis,
            ),
            y2="floor:Q",
            tooltip=tooltip(medium, ("time_s:Q", "Time (s)"), ("share:Q", "%", ".3~g")),
        )
        .properties(height=70 if medium.page else 30)
    )
    return chart


def _counted(medium: Medium, end_s: float, flows: int) -> alt.Chart:
    axis = alt.Axis(grid=False, tickCount=5)
    chart: alt.Chart = (
        alt.Chart(named("events"))
        .transform_calculate(row_end="datum.row + 1")
        .mark_rect(clip=True, strokeWidth=0)
        .encode(
            x=time_axis(end_s, medium, field="from_s"),
            x2="end_s:Q",
            y=alt.Y(
                "row:Q",
                title="Flow" if not medium.page else "Flow, in the order of the plan",
                axis=axis,
                scale=alt.Scale(domain=[0, flows], nice=False),
            ),
            y2="row_end:Q",
            color=alt.Color("count:Q", title="reductions", scale=alt.Scale(scheme="viridis", zero=True)),
            tooltip=tooltip(medium, ("name:N", "flow"), ("from_s:Q", "from (s)"), ("count:Q", "count")),
        )
        .properties(height=min(420, 2 * flows) if medium.page else medium.height)
    )
    return chart


def _marks(medium: Medium, end_s: float, flows: int, kinds: tuple[str, ...]) -> alt.Chart:
    names = list(_KINDS.values())
    colours = [_COLOURS[names.index(k)] for k in kinds]
    shapes = [_SHAPES[names.index(k)] for k in kinds]
    pitch = max(2.0, min(16.0, (300 if medium.page else 100) / flows))
    axis = alt.Axis(grid=False, tickCount=min(flows, 6), format="d", tickMinStep=1)
    chart: alt.Chart = (
        alt.Chart(named("events"))
        .mark_point(clip=True, filled=False, strokeWidth=1.2 if medium.page else 0.6)
        .encode(
            x=time_axis(end_s, medium),
            y=alt.Y(
                "row:Q",
                title="Flow, in the order of the plan" if medium.page else "Flow",
                axis=axis,
                scale=alt.Scale(domain=[-0.7, flows - 0.3], nice=False, zero=False),
            ),
            color=alt.Color("event:N", title=None, scale=alt.Scale(domain=list(kinds), range=colours)),
            shape=alt.Shape("event:N", title=None, scale=alt.Scale(domain=list(kinds), range=shapes)),
            size=alt.value(min(60.0, pitch * pitch * 0.6)),
            tooltip=tooltip(
                medium, ("name:N", "flow"), ("event:N", "event"), ("time_s:Q", "Time (s)", ".6~g"), ("count:Q", "count")
            ),
        )
        .properties(height=pitch * flows)
    )
    return chart


CHART = CellChart(
    name="recoveries",
    title="Recoveries and timeouts",
    section="Events",
    needs=("events",),
    caption="Each mark is a window reduction of one flow (fast recovery, retransmission timeout, ECN; own queue full: "
    "the sending host's own queue refused a packet, local congestion in Linux). Above: "
    "the share of the flows started so far that reduced at about the same time (one step of the drawing); tall "
    "bars mean synchronised losses.",
    draw=_draw,
)

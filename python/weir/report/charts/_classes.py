"""Shared parts of the charts of classes: a panel for each recorded link with classes, and a line for each class."""

from __future__ import annotations

import math
from collections.abc import Sequence

import altair as alt
import numpy as np
import polars as pl

from weir.metrics.capacity import capacity_bps
from weir.plan import guaranteed_shares, queue_classes
from weir.report.charts._base import (
    Drawing,
    Medium,
    Spec,
    category_scale,
    header,
    legend,
    named,
    shape,
    time_axis,
    tooltip,
    value_scale,
    window,
)
from weir.report.downsample import aggregate
from weir.report.view import CellView
from weir.run import TABLES, Link

__all__ = ["class_lines", "class_values", "links_drawn", "with_guarantees"]

_LINKS = 6
"""Most links of a drawing."""
_COLOURS = 7
"""With more classes, colours repeat: dashes tell them apart."""


def links_drawn(cell: CellView) -> tuple[tuple[Link, ...], tuple[str, ...]]:
    """The links whose classes are worth a panel, and a remark on those that are left out.

    A link is left out if packets hardly waited and none was dropped there, unless that is so at all of them.
    """
    frame = cell.table("classes")
    if frame is None or not cell.plan.interval_ns("classes"):
        return (), ()
    bad = (pl.col("drop_packets") + pl.col("mark_packets")).sum().alias("bad")
    most = pl.col("queue_max_bytes").max().alias("most")
    found = frame.group_by("link").agg(bad, most, pl.col("in_packets").sum()).collect().to_dicts()
    seen = {int(row["link"]): row for row in found if row["in_packets"] > 0}
    links = [k for k in cell.plan.links if k.id in seen and queue_classes(k.typed.queue)]
    busy = [k for k in links if seen[k.id]["bad"] > 0 or seen[k.id]["most"] > 2 * k.mtu_bytes] or links
    drawn = tuple(busy[:_LINKS])
    left = [k.name for k in links if k not in busy]
    notes = [f"Not drawn, because packets hardly waited there: {_listed(left)}."] if left else []
    if len(busy) > _LINKS:
        notes.append(f"The first {_LINKS} of {len(busy)} links with classes.")
    return drawn, tuple(notes)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _LINKS
    return ", ".join(names[:_LINKS]) + (f" and {more} more" if more > 0 else "")


def class_values(cell: CellView, link: Link, value: pl.Expr, width_ns: int) -> pl.DataFrame:
    """Columns ``link``, ``class``, ``time_s`` and ``value``, the aggregate of each bucket and class of ``link``.

    ``value`` may use the columns of table ``classes``, whose omitted intervals count with zeros, and ``could``: the
    bits that the link can transmit in the interval.
    """
    names = [name for name, _ in queue_classes(link.typed.queue)]
    frame, step = cell.table("classes"), cell.plan.interval_ns("classes")
    assert frame is not None

    def could(ends: pl.Series) -> pl.Series:
        at = ends.to_numpy().astype(np.int64)
        return pl.Series(capacity_bps(cell.plan, link.id, at, np.full(len(at), step / 1e9)) * (step / 1e9))

    own = frame.filter(pl.col("link") == link.id).drop("link")
    ends = pl.LazyFrame({"time_ns": pl.int_range(step, cell.end_ns + 1, step, dtype=pl.UInt64, eager=True)})
    classes = pl.LazyFrame({"class": range(len(names))}, schema={"class": pl.UInt32})
    counts = [pl.col(c.name).fill_null(0) for c in TABLES["classes"].columns[3:] if not c.nullable]
    whole = ends.join(classes, how="cross").join(own, on=["time_ns", "class"], how="left").with_columns(counts)
    whole = whole.with_columns(could=pl.col("time_ns").map_batches(could, return_dtype=pl.Float64))
    rows = aggregate(whole, {"value": value}, by=["class"], width_ns=width_ns)
    label = pl.col("class").replace_strict(dict(enumerate(names)), return_dtype=pl.String)
    return rows.select(pl.lit(link.name).alias("link"), label.alias("class"), "time_s", "value")


def with_guarantees(cell: CellView, links: Sequence[Link], rows: pl.DataFrame) -> pl.DataFrame:
    """``rows`` with the column ``guaranteed``: the share of the link that the class is guaranteed at that time.

    Without the column, if no class is guaranteed any, or dashes tell the classes apart.
    """
    found = [  # an interval that ends with a change is of the time before
        (link.name, name, (at_ns + 1) / 1e9, _part(shares[name]))
        for link in links
        for at_ns, shares in guaranteed_shares(cell.plan.typed, link.id)
        for name, _ in queue_classes(link.typed.queue)
    ]
    if all(share is None for *_, share in found) or len({name for _, name, _, _ in found}) > _COLOURS:
        return rows
    schema = {"link": pl.String, "class": pl.String, "time_s": pl.Float64, "guaranteed": pl.Float64}
    guaranteed = pl.DataFrame(found, schema=schema, orient="row")
    keys = ["link", "class", "time_s"]
    both = rows.sort("time_s").join_asof(
        guaranteed.sort("time_s"), on="time_s", by=["link", "class"], check_sortedness=False
    )
    return rows.join(both.select(*keys, "guaranteed"), on=keys, how="left")


def _part(share: int | None) -> float | None:
    """A share in parts of a million as a part of 1."""
    return None if share is None else share / 1e6


def class_lines(
    cell: CellView, medium: Medium, links: Sequence[Link], rows: pl.DataFrame, title: str, *, top: float,
    share: bool = False, alt_text: str, notes: tuple[str, ...],
) -> Drawing:  # fmt: skip
    """A line for each class, and a panel for each of several links. ``top`` is the largest value.

    With the column ``guaranteed`` in ``rows``, each class has a dashed line there.
    """
    order = tuple(dict.fromkeys(name for link in links for name, _ in queue_classes(link.typed.queue)))
    # Of a saturated link, an interval may have a packet more than fits.
    end = max(1.0, math.ceil(50 * top) / 50) if share else 0.0
    dashed = "guaranteed" in rows.columns
    spec = _spec(medium, cell.end_s, title, tuple(link.name for link in links), order, end, top > 0, dashed)
    names = {"value": title, "guaranteed": "Guaranteed share"}
    notes = ("Dashed: the share that the class is guaranteed, by its weight, quantum or rate.",) * dashed + notes
    return Drawing(
        spec, {"classes": rows}, alt_text, notes, csv_names={n: names[n] for n in names if n in rows.columns}
    )


@shape
def _spec(
    medium: Medium,
    end_s: float,
    title: str,
    links: tuple[str, ...],
    classes: tuple[str, ...],
    end: float,
    some: bool,
    dashed: bool,
) -> Spec:
    """The look of the lines; ``end`` is that of an axis of shares, 0 for other values."""
    several = len(links) > 1
    scale = alt.Scale(domain=[0, end], nice=False) if end else value_scale(1 if some else 0)
    ticks = 3 if several else 5
    axis = (
        alt.Axis(values=[k / (ticks - several) for k in range(ticks - several + 1)])
        if end
        else alt.Axis(tickCount=ticks)
    )
    key = legend(classes, medium, symbolOpacity=1)
    base = alt.Chart() if several else alt.Chart(named("classes"))
    line = base.mark_line(clip=True, strokeCap="round").encode(
        x=time_axis(end_s, medium),
        y=alt.Y("value:Q", title="" if several else title, scale=scale, axis=axis),
        color=alt.Color("class:N", title=None, scale=category_scale(classes, "color"), legend=key),
        tooltip=tooltip(
            medium,
            ("class:N", "class"),
            ("time_s:Q", "Time (s)", ".4~g"),
            ("value:Q", title, ".3~f" if end else ".4~g"),
        ),
    )
    if len(classes) > _COLOURS:
        dash = category_scale(classes, "strokeDash")
        line = line.encode(strokeDash=alt.StrokeDash("class:N", title=None, scale=dash, legend=key))
    layers = [_guarantee(base, line), line] if dashed else [line]
    if not several and dashed:
        both = alt.layer(*layers).properties(height=medium.height)
        return both.add_params(*window(end_s, medium))
    if not several:
        alone: alt.Chart = line.properties(height=medium.height).add_params(*window(end_s, medium))
        return alone
    facet = alt.Facet("link:N", sort=list(links), title=None, header=header(links, labelPadding=1))
    return (
        alt.layer(*layers, data=named("classes"))
        .properties(height=medium.height // 2)
        .facet(facet=facet, columns=1, spacing=6)
        .properties(title=alt.TitleParams(title, anchor="start"))
        .add_params(*window(end_s, medium))
    )


def _guarantee(base: alt.Chart, line: alt.Chart) -> alt.Chart:
    """The dashed lines of the guaranteed shares, with the axes and colours of ``line``."""
    look = line.encoding
    y = look.y.copy()
    y.shorthand = "guaranteed:Q"
    # A value belongs to the interval that ends at its time.
    dashes = base.mark_line(strokeDash=[4, 3], strokeWidth=1, clip=True, interpolate="step-before")
    found: alt.Chart = dashes.encode(x=look.x, y=y, color=look.color)
    return found

"""Tables of a cell's classes of packets, of the ports of its switches, and of the changes of its links."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import polars as pl

from weir.metrics import MetricError, compute
from weir.metrics.overview import OF_PORTS, switched, windows_of
from weir.plan import Queue, class_groups, queue_classes
from weir.report._text import metric_unit
from weir.report.tables import Field, Grid, Part, field_of, repeats_note
from weir.report.view import CellView
from weir.run import Flow, Link, RunError

__all__ = ["qos_tables"]

_METRICS = {
    "class.share": "Share",
    "class.throughput": "Throughput",
    "class.loss": "Loss",
    "class.delay": "Delay, mean",
    "class.delay.p99": "Delay, 99th percentile of intervals' means",
}
"""The columns of the table of classes."""
_PORTS = {"port.rate": "Rate", "switch.loss": "Loss", "switch.starvation": "Longest starvation"}
"""The columns of the table of ports."""
_OUTER = "The row (all) of a class with classes inside has these together. "
_MOST_ROWS = 250
_OPEN = 8
"""With more tables, the fold is closed."""


def qos_tables(cell: CellView) -> list[Grid]:
    """The tables of a cell's classes, of its switches' ports and of its changes, if it has some."""
    return [grid for grid in (_classes(cell), _ports(cell), _changes(cell)) if grid is not None]


def _classes(cell: CellView) -> Grid | None:
    """The metrics of each class, in a table for each recorded link with traffic and for each phase."""
    frame = cell.table("classes")
    if frame is None or cell.table("flows") is None:
        return None
    came = frame.group_by("link").agg(pl.col("in_packets").sum()).filter(pl.col("in_packets") > 0)
    seen = set(came.collect()["link"])
    links = [k for k in cell.plan.links if k.id in seen and queue_classes(k.typed.queue)]
    found = [(link, values) for link in links if not (values := _values(cell, link)).is_empty()]
    if not found:
        return None
    parts = [part for link, values in found for part in _parts(link, values)]
    caption = (
        "Share of the link's capacity on the wire, throughput in IP bytes, packets dropped over packets arrived, and "
        "queueing delay: its mean over the packets and, over the intervals of measure.links, the 99th percentile of "
        "their means, weighted by packets. Metrics class.share, class.throughput, class.loss and class.delay. "
        + _OUTER * any(class_groups(link.typed.queue) for link, _ in found)
        + repeats_note(cell.run)
    )
    title = f"{len(found)} link{'s' * (len(found) > 1)}"
    return Grid("Classes", title, caption, tuple(parts), len(parts) <= _OPEN)


def _ports(cell: CellView) -> Grid | None:
    """The metrics of each flow through a switch, with its input and output, in a table for each phase."""
    flows = switched(cell.plan)
    if not flows or cell.table("ports") is None or cell.table("goodput") is None:
        return None
    try:
        found = compute(cell.repeats, *OF_PORTS, by=["flow"], phase=windows_of(cell.repeats))
    except (MetricError, RunError) as error:
        cell.problems.append(f"{cell.id}: ports of switches: {error}")
        return None
    units = {name: metric_unit(name, found.filter(pl.col("metric") == name)) for name in _PORTS}
    columns = ("Input", "Output", *(f"{title} ({units[name].label})" for name, title in _PORTS.items()))
    parts = []
    for (phase,), part in found.partition_by("phase", maintain_order=True, as_dict=True).items():
        fields = {
            (row["flow"], row["metric"]): field_of(row, units[row["metric"]]) for row in part.iter_rows(named=True)
        }
        rows = tuple(
            (flow.name, (*_ends(cell, flow), *(fields.get((flow.name, name), Field("–")) for name in _PORTS)))
            for flow in flows[:_MOST_ROWS]
        )
        parts.append(Part(phase or "", "Flow", columns, rows))
    more = len(flows) - _MOST_ROWS
    caption = (
        "Ethernet frames that the receiver of a flow gets; at the switch, packets of its input dropped over packets "
        "arrived, and the longest time for which its output served nothing of its input although it had packets of it. "
        "Flows with the same input and output share the latter two. Metrics port.rate, switch.loss and "
        "switch.starvation. " + repeats_note(cell.run) + (f" {more} more flows are in the run." if more > 0 else "")
    )
    return Grid("Ports of the switch", f"{len(flows)} flows", caption, tuple(parts), len(parts) <= _OPEN)


def _ends(cell: CellView, flow: Flow) -> tuple[Field, Field]:
    """The nodes between which a flow passes its first switch."""
    links, nodes = cell.plan.typed.links, cell.plan.typed.nodes
    for before, after in pairwise(flow.path):
        if nodes[links[before].to].switch is not None:
            return Field(nodes[links[before].from_].name, numeric=False), Field(
                nodes[links[after].to].name, numeric=False
            )
    return Field("–"), Field("–")


def _values(cell: CellView, link: Link) -> pl.DataFrame:
    """The metrics of every class of a link and phase, over all repeats, with the columns ``class`` and ``name``."""
    names = [name for name, _ in _named(link.typed.queue)]
    asked = {f"{metric}[class: {name}]": (metric, name) for name in names for metric in _METRICS}
    try:
        found = compute(cell.repeats, *asked, flows=link.name, phase=windows_of(cell.repeats))
    except (MetricError, RunError) as error:
        cell.problems.append(f"{cell.id}: classes of {link.name}: {error}")
        return pl.DataFrame()
    which = pl.col("metric")
    metric, name = ({text: pair[i] for text, pair in asked.items()} for i in (0, 1))
    return found.select(
        which.replace_strict(metric, return_dtype=pl.String).alias("name"),
        which.replace_strict(name, return_dtype=pl.String).alias("class"),
        *("phase", "metric", "unit", "value", "ci_low", "ci_high", "censored"),
    )


def _parts(link: Link, values: pl.DataFrame) -> Iterator[Part]:
    """A table for each phase; all of a link have the same units."""
    own = {name: values.filter(pl.col("name") == name) for name in _METRICS}
    units = {name: metric_unit(frame["metric"][0], frame) for name, frame in own.items()}
    units["class.delay.p99"] = units["class.delay"]  # to be compared with it
    columns = tuple(f"{title} ({units[name].label})" for name, title in _METRICS.items())
    classes = _named(link.typed.queue)
    for (phase,), part in values.partition_by("phase", maintain_order=True, as_dict=True).items():
        fields = {(r["class"], r["name"]): field_of(r, units[r["name"]]) for r in part.iter_rows(named=True)}
        rows = tuple((label, tuple(fields.get((name, m), Field("–")) for m in _METRICS)) for name, label in classes)
        yield Part(link.name if phase is None else f"{link.name}, {phase}", "Class", columns, rows)


def _named(queue: Queue) -> list[tuple[str, str]]:
    """The classes of a queue, each with its label: one with classes inside comes before them."""
    found = []
    groups = class_groups(queue)
    for number, (name, _) in enumerate(queue_classes(queue)):
        found += [(group.name, f"{group.name} (all)") for group in groups if group.members.start == number]
        found.append((name, name))
    return found


def _changes(cell: CellView) -> Grid | None:
    """What the plan changes at links, with the letters of the marks in charts over time."""
    changes = cell.changes
    rows = [
        (one.label or "–", (Field(f"{one.at_s:.6g}"), Field(each.link, numeric=False), Field(each.text, numeric=False)))
        for one in changes.instants
        for each in one.changes
    ]
    for course in changes.courses:
        text = f"{course.kind}, {course.number} times until {course.to_s:.6g} s"
        rows.append(
            ("–", (Field(f"{course.from_s:.6g}"), Field(course.link, numeric=False), Field(text, numeric=False)))
        )
    if not rows:
        return None
    more = len(rows) - _MOST_ROWS
    caption = "Changes of links that the scenario makes; the letters are those of the dotted lines in charts over time."
    caption += f" {more} more are in the plan." if more > 0 else ""
    part = Part("", "Mark", ("Time (s)", "Link", "Change"), tuple(rows[:_MOST_ROWS]))
    return Grid("Changes", f"{len(rows)}", caption, (part,))

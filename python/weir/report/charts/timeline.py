"""The timeline of a cell on real machines: what weir did before the traffic, and when each node sent and received."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import polars as pl

from weir._inside import read_plain
from weir.report import theme
from weir.report._text import greatest
from weir.report.charts._base import CellChart, Drawing, Medium, Spec, legend, named, relabel, shape
from weir.report.charts._base import tooltip as shown
from weir.report.view import CellView
from weir.run.printable import printable

__all__ = ["CHART"]

_MOST_BYTES = 1 << 26
_STEPS = "preparation"
_SENDS, _RECEIVES = "sends", "receives"


@dataclass(frozen=True)
class _Machines:
    """What the cell keeps of its machines."""

    nodes: dict[int, str]
    """Their names by host of the plan, in the order of the inventory's roles."""
    steps: tuple[tuple[str, float, float], ...]
    """What weir did: name, begin and end in seconds since the traffic's begin."""
    skew_s: float | None


def _machines(cell: CellView) -> _Machines | None:
    """The machines of a cell; ``None``: it has none, or they cannot be read."""
    hosts = {node.name: number for number, node in enumerate(cell.plan.typed.nodes)}
    try:
        nodes, clocks = (_document(cell, name) for name in ("nodes.json", "clocks.json"))
        on_hosts = [each for each in nodes if each["host"] is not None]  # the network may be a node, too
        names = {hosts[each["host"]]: printable(str(each["name"])) for each in on_hosts}
        steps = tuple((printable(str(name)), float(a) / 1e9, float(b) / 1e9) for name, a, b in clocks.get("steps", ()))
        skew = clocks.get("skew_ns")
        return _Machines(names, steps, None if skew is None else float(skew) / 1e9)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        cell.problems.append(f"{cell.id}: nodes.json or clocks.json: {error}")
        return None


def _document(cell: CellView, name: str) -> Any:
    return json.loads(read_plain(cell.cell.path / name, _MOST_BYTES))


def _draw(cell: CellView, medium: Medium) -> Drawing | None:
    found = _machines(cell)
    if found is None or not found.nodes:
        return None
    traffic = _traffic(cell, found.nodes, medium)
    if traffic.is_empty():
        return None
    steps = [_row(name.replace("_", " "), _STEPS, _STEPS, a, b) for name, a, b in found.steps if b - a > 0]
    rows = pl.concat([pl.DataFrame(steps, schema=traffic.schema), traffic])
    order = [*dict.fromkeys(step["row"] for step in steps), *found.nodes.values()]
    present = set(rows["entry"])
    entries = [entry for entry in dict.fromkeys([_STEPS, *(f.group for f in cell.plan.flows)]) if entry in present]
    begin = min(0.0, float(rows["from_s"].min()))  # type: ignore[arg-type]  # a column of numbers
    spec = _spec(medium, tuple(order), tuple(entries), begin, cell.end_s)
    return Drawing(spec, {"timeline": rows}, _say(found, traffic, begin), _notes(found), span=2)


def _row(row: str, entry: str, what: str, from_s: float, to_s: float) -> dict[str, Any]:
    return {"row": row, "entry": entry, "what": what, "from_s": from_s, "to_s": to_s}


_SCHEMA = {"row": pl.String, "entry": pl.String, "what": pl.String, "from_s": pl.Float64, "to_s": pl.Float64}


def _traffic(cell: CellView, nodes: dict[int, str], medium: Medium) -> pl.DataFrame:
    """When a node had transfers of an entry of the workload: one row for each uninterrupted time."""
    frame = cell.table("flows")
    if frame is None:
        return pl.DataFrame(schema=_SCHEMA)
    transfers = frame.select("flow", "start_ns", "end_ns").sort("flow", "start_ns").collect()
    joined = cell.end_ns // medium.buckets
    rows: list[dict[str, Any]] = []
    spans: dict[tuple[str, str, str], list[tuple[int, int]]] = {}
    for number, start_ns, end_ns in transfers.iter_rows():
        flow = cell.plan.flows[number]
        stop = end_ns if end_ns is not None else flow.stop_ns if flow.stop_ns is not None else cell.plan.end_ns
        for host, what in ((flow.source, _SENDS), (flow.target, _RECEIVES)):
            if host in nodes:
                span = (start_ns, max(start_ns, min(stop, cell.end_ns)))
                spans.setdefault((nodes[host], flow.group, what), []).append(span)
    for (node, group, what), several in spans.items():
        rows += [_row(node, group, what, a / 1e9, b / 1e9) for a, b in _union(several, joined)]
    return pl.DataFrame(rows, schema=_SCHEMA)


def _union(spans: Sequence[tuple[int, int]], gap: int) -> Iterator[tuple[int, int]]:
    """``spans`` in their order; those that overlap, or are no more than ``gap`` apart, are one."""
    begin, end = None, 0
    for a, b in sorted(spans):
        if begin is not None and a - end > gap:
            yield begin, end
            begin = None
        begin, end = (a, b) if begin is None else (begin, max(end, b))
    if begin is not None:
        yield begin, end


def _say(found: _Machines, traffic: pl.DataFrame, begin: float) -> str:
    busy = traffic.filter(pl.col("what") == _SENDS)
    last = f"{greatest(busy['to_s']):.4g} s"
    text = f"{len(found.nodes)} nodes, of which {busy['row'].n_unique()} send, the last until {last}"
    return text + (f"; prepared in {-begin:.3g} s." if begin < 0 else ".")


def _notes(found: _Machines) -> tuple[str, ...]:
    return () if found.skew_s is None else (f"All nodes began within {1e3 * found.skew_s:.3g} ms of each other.",)


@shape
def _spec(medium: Medium, rows: tuple[str, ...], entries: tuple[str, ...], begin: float, end: float) -> Spec:
    look = theme.categories([entry for entry in entries if entry != _STEPS])["color"]
    before = [(_STEPS, theme.NEUTRAL)] if _STEPS in entries else []
    colours = alt.Scale(
        domain=[*(name for name, _ in before), *look["domain"]], range=[*(one for _, one in before), *look["range"]]
    )
    pitch = max(4.0, min(16.0 if medium.page else 8.0, (900 if medium.page else 320) / len(rows)))
    extent, most = (92, 15) if medium.page else (52, 11)
    labels = alt.Axis(
        labelExpr=relabel(rows, most), labelLimit=extent, minExtent=extent, maxExtent=extent, grid=False, ticks=False
    )
    spec: alt.Chart = (
        alt.Chart(named("timeline"))
        .mark_bar(clip=True)
        .encode(
            x=alt.X(
                "from_s:Q",
                title="Time (s)",
                scale=alt.Scale(domain=[begin, end], nice=False, zero=False),
                axis=alt.Axis(grid=True, tickCount=8 if medium.page else 6),
            ),
            x2="to_s:Q",
            y=alt.Y("row:N", title=None, sort=list(rows), scale=alt.Scale(domain=list(rows)), axis=labels),
            color=alt.Color("entry:N", title=None, scale=colours, legend=legend(entries, medium, symbolOpacity=1)),
            opacity=alt.Opacity(
                "what:N",
                scale=alt.Scale(type="ordinal", domain=[_STEPS, _SENDS, _RECEIVES], range=[1, 1, 0.4]),
                legend=None,
            ),
            tooltip=shown(
                medium,
                ("row:N", "node or step"),
                ("entry:N", "entry"),
                ("what:N", "what"),
                ("from_s:Q", "from (s)", ".5~g"),
                ("to_s:Q", "to (s)", ".5~g"),
            ),
        )
        .properties(height=pitch * len(rows))
    )
    return spec


CHART = CellChart(
    name="timeline",
    title="Timeline",
    section="Machines",
    needs=("flows",),
    caption="When each node of a run on real machines had traffic of an entry of the workload: it sends (dark) or "
    "receives (pale). Above, what weir did before all nodes began at the instant 0. Transfers with less than a step of "
    "the drawing between them are one bar.",
    draw=_draw,
)

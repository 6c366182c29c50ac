"""The expected content of each chart, computed from the run's tables alone: one reader per chart, by its name.

Values are in base units (bit/s, s, bytes, shares of 1), as `scene` reads them. A reader returns everything that must be
drawn; anything else that is drawn is an error as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import polars as pl
from scene import Point
from shapes import Shape
from told import TheCell, TheRun, Told, banded, buckets, curve, envelope, shown

from weir.report._text import unit_for
from weir.report.contours import contours
from weir.run.quantity import parse_quantity

__all__ = ["READERS", "changed", "reader_of"]

_SECOND = 1e9

Reader = Callable[[Any], list[Told]]
READERS: dict[str, Reader] = {}
"""By name of the chart; a name that ends with ``*`` matches all with that prefix."""


def reads(name: str) -> Callable[[Reader], Reader]:
    """Registers the reader of a chart."""

    def register(reader: Reader) -> Reader:
        READERS[name] = reader
        return reader

    return register


def reader_of(name: str) -> Reader | None:
    """The reader of a chart, if it has one."""
    return READERS.get(name) or next(
        (r for n, r in READERS.items() if n.endswith("*") and name.startswith(n[:-1])), None
    )


_OVER_TIME = {"acks", "class-delay", "classes", "cwnd", "delay-flows", "fairness-time", "goodput-flows", "goodput-grid",
              "goodput-total", "loss", "probes", "queue", "queue-delay", "recoveries", "rtt"}  # fmt: skip


def changed(name: str, cell: TheCell, told: list[Told]) -> list[Told]:
    """``told`` and, in a chart over time, a line and a letter at each change of a link, in every panel."""
    times = sorted({change["at_ns"] / _SECOND for change in cell.plan["changes"]}) if name in _OVER_TIME else []
    letters = [(at, "ABCDEFGH"[i]) for i, at in enumerate(t for t in times if 0 < t < cell.end_ns / _SECOND)]
    marks = []
    for panel in dict.fromkeys(t.panel for t in told):
        for at, letter in letters:
            marks.append(Told(panel, "rule", (Point(at, ..., y2=...),)))  # type: ignore[arg-type]
            marks.append(Told(panel, "text", (Point(at, ..., text=letter),)))  # type: ignore[arg-type]
    return [*told, *marks]


# ---- series of a cell ------------------------------------------------------------------------------------------------


def _total(cell: TheCell, width: int, flows: list[int]) -> list[dict[str, float]]:
    frame = cell.tested("goodput")
    if frame.is_empty():
        return []
    frame = frame.filter(pl.col("flow").is_in(flows))
    total = frame.group_by("time_ns").agg(pl.col("delivered_bytes").sum())
    return envelope(total, pl.col("delivered_bytes") * 8e9 / cell.interval("goodput"), width)


@reads("goodput-total")
def goodput_total(cell: TheCell) -> list[Told]:
    """The sum of the flows, the phases, and the rate of the link that all flows cross."""
    told: list[Told] = []
    for series, flows in cell.looks().values():
        told += banded("", _total(cell, cell.width("goodput"), flows), series)
    if not told:
        return []
    names = shown([name for name, _, _ in cell.phases], 24)
    for name, start, end in cell.phases:
        told.append(Told("", "rect", (Point(start, ..., end, ...),)))  # type: ignore[arg-type]
        told.append(Told("", "rule", (Point(start, ..., y2=...),)))  # type: ignore[arg-type]
        told.append(Told("", "text", (Point(start, ..., text=names[name]),)))  # type: ignore[arg-type]
    frame = cell.table("links")
    for way, (number, link) in cell.shared.items():
        if not frame.is_empty() and frame.filter(pl.col("link") == number)["in_bytes"].sum() > 0:
            rate = float(link["rate_bps"])
            ends = (Point(0.0, rate), Point(cell.end_ns / _SECOND, rate))
            told.append(Told("", "line", ends, cell.looks()[way][0], dashed=True))
    return told


def _flow_panels(cell: TheCell, table: str, value: pl.Expr) -> list[Told]:
    told: list[Told] = []
    for panel, own in _by_flow(cell, table):
        told += banded(panel, envelope(own, value, cell.width(table)))
    return told


def _by_flow(cell: TheCell, table: str) -> Iterator[tuple[str, pl.DataFrame]]:
    """The rows of each flow under test, with the title of its panel."""
    frame = cell.tested(table)
    names = [] if frame.is_empty() else list(dict.fromkeys(frame["name"]))
    for name, panel in shown(names, 100).items():
        yield panel, frame.filter(pl.col("name") == name)


def _stepped(own: pl.DataFrame, column: str, width: int) -> tuple[Point, ...]:
    """Of the samples in each bucket the first of the smallest and of the largest, unless it repeats the one before."""
    buckets: dict[int, list[tuple[int, float]]] = {}
    for time, value in own.select("time_ns", column).drop_nulls().sort("time_ns").iter_rows():
        buckets.setdefault((max(time, 1) - 1) // width, []).append((time, float(value)))
    kept: list[tuple[int, float]] = []
    for _, rows in sorted(buckets.items()):
        kept += sorted({min(rows, key=lambda r: r[1]), max(rows, key=lambda r: r[1])})
    steps = [row for i, row in enumerate(kept) if i in (0, len(kept) - 1) or row[1] != kept[i - 1][1]]
    return tuple(Point(time / _SECOND, value) for time, value in steps)


def _population(cell: TheCell, table: str, value: pl.Expr) -> list[Told]:
    frame = cell.tested(table)
    if frame.is_empty():
        return []
    width = cell.width(table, cell.medium.map_columns)
    bucket = (pl.max_horizontal("time_ns", pl.lit(1, pl.UInt64)) - 1) // width
    valued = frame.with_columns(value.cast(pl.Float64).alias("v"), ((bucket + 1) * width / _SECOND).alias("t"))
    means = valued.drop_nulls("v").group_by("t", "place").agg(pl.col("v").mean()).sort("place", "t")
    over = means.group_by("t").agg(
        *(pl.col("v").quantile(q / 100, "linear").alias(f"p{q}") for q in (5, 25, 50, 75, 95))
    )
    rows = over.sort("t").to_dicts()
    told = [
        Told("#0", "area", tuple(Point(r["t"], r[low], y2=r[high]) for r in rows))
        for low, high in (("p5", "p95"), ("p25", "p75"))
    ]
    told += curve("#0", rows, "p50")
    end = cell.end_ns / _SECOND
    fields = tuple(
        Point(max(0.0, r["t"] - width / _SECOND), r["place"] + 1, min(r["t"], end), r["place"], size=r["v"])
        for r in means.iter_rows(named=True)
    )
    return [*told, Told("#1", "rect", fields)]


@reads("goodput-flows")
def goodput_flows(cell: TheCell) -> list[Told]:
    """One panel per flow, or percentiles and a map."""
    value = pl.col("delivered_bytes") * 8e9 / cell.interval("goodput")
    return _flow_panels(cell, "goodput", value) if cell.few else _population(cell, "goodput", value)


@reads("cwnd")
def cwnd(cell: TheCell) -> list[Told]:
    """Samples as steps, with the slow-start threshold dashed; of many flows as goodput."""
    if not cell.few:
        return _population(cell, "samples", pl.col("cwnd"))
    told = []
    for panel, own in _by_flow(cell, "samples"):
        told.append(Told(panel, "line", _stepped(own, "cwnd", cell.width("samples"))))
        threshold = _stepped(own, "ssthresh", cell.width("samples"))
        told += [Told(panel, "line", threshold, dashed=True, may_leave=True)] if threshold else []
    return told


@reads("probes")
def probes(cell: TheCell) -> list[Told]:
    """Each value of each flow in a panel; of many, the first sixteen."""
    frame = cell.tested("probes")
    if frame.is_empty():
        return []
    pairs = frame.select("place", "name", "probe").unique().sort("place", "probe").rows()
    told = []
    for number, (_, name, probe) in enumerate(pairs[:16]):
        own = frame.filter(pl.col("name") == name, pl.col("probe") == probe)
        told.append(Told(f"#{number}", "line", _stepped(own, "value", cell.width("samples"))))
    return told


@reads("acks")
def acks(cell: TheCell) -> list[Told]:
    """The window after each row of the first six flows, below the queue of the shared link."""
    frame = cell.table("acks")
    if frame.is_empty():
        return []
    width = -(-cell.end_ns // (cell.medium.buckets * (10 if cell.medium.page else 1)))
    names = {i: f["name"] for i, f in enumerate(cell.plan["flows"])}
    first = sorted(set(frame["flow"]))[:6]
    looks = shown([names[i] for i in first], 36 if cell.medium.page else 26)
    number, _ = cell.shared["forward"]
    queue = cell.table("links").filter(pl.col("link") == number)
    told = [Told("#0", "line", _stepped(queue, "queue_bytes", width))]
    windows = {i: _stepped(frame.filter(pl.col("flow") == i), "cwnd", width) for i in first}
    return [*told, *(Told("#1", "line", window, looks[names[i]]) for i, window in windows.items())]


@reads("sequence")
def sequence(cell: TheCell) -> list[Told]:
    """The first eight thousand packets of six flows: those received above those dropped, numbered from the first."""
    file = cell.folder / "packets.csv"
    if not file.is_file():
        return []
    names = {i: f["name"] for i, f in list(enumerate(cell.plan["flows"]))[:6]}
    looks = shown(list(names.values()), 36 if cell.medium.page else 26)
    found: dict[tuple[str, int], list[tuple[float, int]]] = {}
    first: dict[int, int] = {}
    rows = [line.split(",") for line in file.read_text().splitlines()[1:]]
    kept = [r for r in rows if r[1] in ("received", "dropped") and r[4] == "sender" and int(r[3]) in names]
    for time, event, _, flow, _, _, _, number, _ in kept[:8000]:
        first.setdefault(int(flow), int(number))
        found.setdefault((event, int(flow)), []).append((int(time) / _SECOND, int(number)))
    several = any(event == "dropped" for event, _ in found)
    return [
        Told(
            {"received": "#0", "dropped": "#1"}[event] if several else "",
            "symbol",
            tuple(Point(time, number - first[flow]) for time, number in points),
            looks[names[flow]],
        )
        for (event, flow), points in found.items()
    ]


def _link_panels(cell: TheCell, values: dict[str, pl.Expr], limit: bool) -> Iterator[Told]:
    frame, shared = cell.table("links"), cell.shared
    names = shown([link["name"] for _, link in shared.values()], 44)
    for number, link in shared.values():
        panel = names[link["name"]] if len(shared) > 1 else ""
        yield from _one_link(cell, frame, number, link, values, limit, panel)


def _one_link(
    cell: TheCell, frame: pl.DataFrame, number: int, link: dict[str, Any], values: dict[str, pl.Expr], limit: bool,
    panel: str,
) -> Iterator[Told]:  # fmt: skip
    own = frame.filter(pl.col("link") == number) if not frame.is_empty() else frame
    if own.is_empty() or own["in_bytes"].sum() == 0:
        return
    rows = buckets(own, cell.width("links"), values)
    yield from banded(panel, rows)
    if limit:
        most = float(link["queue"]["limit"]["bytes"])
        yield Told(panel, "line", tuple(Point(r["t"], most) for r in rows), dashed=True)


@reads("queue")
def queue(cell: TheCell) -> list[Told]:
    """Bytes at the shared link, and its limit."""
    waiting = pl.col("queue_bytes").cast(pl.Float64)
    values = {"low": waiting.min(), "mean": waiting.mean(), "high": pl.col("queue_max_bytes").cast(pl.Float64).max()}
    frame = cell.table("links")
    high = 0.0 if frame.is_empty() else float(frame["queue_max_bytes"].max() or 0)
    return list(_link_panels(cell, values, high > 0.25 * 2e6))


@reads("queue-delay")
def queue_delay(cell: TheCell) -> list[Told]:
    """Mean over the packets sent."""
    delay, sent = pl.col("queue_delay_ns").cast(pl.Float64) / _SECOND, pl.col("out_packets").cast(pl.Float64)
    values = {"low": delay.min(), "mean": ((delay * sent).sum() / sent.sum()).fill_nan(None),
              "high": pl.col("queue_delay_max_ns").cast(pl.Float64).max() / _SECOND}  # fmt: skip
    return list(_link_panels(cell, values, limit=False))


def _class_lines(cell: TheCell, value: Callable[[dict[str, Any]], pl.Expr]) -> list[Told]:
    """A line for each class of each shared link; silent intervals count as nothing."""
    shared = {link["name"]: (number, link) for number, link in cell.shared.values() if "classes" in link["queue"]}
    frame, panels, told = cell.table("classes"), shown(list(shared), 44), list[Told]()
    step = cell.interval("links")
    ends = pl.DataFrame({"time_ns": range(step, cell.end_ns + 1, step)}, schema={"time_ns": pl.UInt64})
    for panel, (number, link) in shared.items():
        names = [one["name"] for one in link["queue"]["classes"]]
        looks = shown(names, 44)
        for of_class, name in enumerate(names):
            own = frame.filter((pl.col("link") == number) & (pl.col("class") == of_class))
            known = pl.col("queue_delay_ns").cast(pl.Float64)
            whole = ends.join(own.with_columns(delay=known), on="time_ns", how="left")
            whole = whole.with_columns(pl.col("out_bytes", "out_packets").fill_null(0))
            rows = buckets(whole, cell.width("links"), {"v": value(link)})
            told += curve(panels[panel] if len(shared) > 1 else "", rows, "v", series=looks[name])
    return told


@reads("classes")
def classes(cell: TheCell) -> list[Told]:
    """What each class sent on the wire, over what the link could have sent."""
    could, wire = cell.interval("links") / _SECOND * pl.len(), 8 * (pl.col("out_bytes") + 38 * pl.col("out_packets"))
    return _class_lines(cell, lambda link: wire.cast(pl.Float64).sum() / (link["rate_bps"] * could))


@reads("class-delay")
def class_delay(cell: TheCell) -> list[Told]:
    """Mean over the packets of each class that were sent."""
    sent = pl.col("out_packets").filter(pl.col("delay").is_not_null()).cast(pl.Float64)
    mean = (pl.col("delay").drop_nulls() * sent).sum() / sent.sum() / _SECOND
    return _class_lines(cell, lambda _: mean.fill_nan(None))


@reads("loss")
def loss(cell: TheCell) -> list[Told]:
    """Dropped over arrived; nothing if nothing was dropped."""
    dropped, came = pl.col("drop_packets").cast(pl.Float64), pl.col("in_packets").cast(pl.Float64)
    values = {"low": pl.lit(0.0), "mean": (dropped.sum() / came.sum()).fill_nan(None),
              "high": (dropped / came).fill_nan(None).max()}  # fmt: skip
    told = list(_link_panels(cell, values, limit=False))
    return told if any(p.y2 for t in told for p in t.points) else []  # type: ignore[misc]


@reads("rtt")
def rtt(cell: TheCell) -> list[Told]:
    """Median over the flows' samples, their extremes, and the minimum so far."""
    frame = cell.tested("samples")
    if frame.is_empty():
        return []
    srtt, least = pl.col("srtt_ns").cast(pl.Float64) / _SECOND, pl.col("min_rtt_ns").cast(pl.Float64).min() / _SECOND
    values = {"low": srtt.min(), "mean": srtt.median(), "high": srtt.max(), "least": least}
    rows = buckets(frame.drop_nulls("srtt_ns"), cell.width("samples"), values)
    return [*banded("", rows), *curve("", rows, "least", dashed=True)]


@reads("fairness-time")
def fairness_time(cell: TheCell) -> list[Told]:
    """Jain's index of the flows with goodput in a step."""
    frame = cell.tested("goodput")
    if frame.is_empty() or len(cell.flows) < 2:
        return []
    width = cell.width("goodput", max(1, cell.medium.buckets // 3))
    edge = ((pl.max_horizontal("time_ns", pl.lit(1, pl.UInt64)) - 1) // width + 1) * width
    got = frame.group_by(edge.alias("edge"), "flow").agg(pl.col("delivered_bytes").sum().cast(pl.Float64).alias("x"))
    x = pl.col("x")

    def index_of(part: pl.DataFrame) -> list[dict[str, Any]]:
        index = part.group_by("edge").agg(n=pl.len(), j=x.sum() ** 2 / (pl.len() * (x**2).sum()))
        return index.sort("edge").to_dicts()

    found = {}
    for way, (_, flows) in cell.looks().items():
        own = index_of(got.filter(pl.col("flow").is_in(flows)))
        rows = [{"t": r["edge"] / _SECOND, "j": r["j"]} for r in own if r["n"] > 1 and r["j"] == r["j"]]
        if rows:
            found[way] = rows
    return [t for way, rows in found.items() for t in curve("", rows, "j", series=way if len(found) > 1 else "")]


def _quantile(bins: list[tuple[float, int]], share: float) -> float | None:
    """The middle of the bin with the packet of that rank; ``None`` without a packet."""
    total, rank = sum(n for _, n in bins), 0
    for middle, number in sorted(bins):
        rank += number
        if rank >= share * total:
            return middle
    return None


@reads("delay-flows")
def delay_flows(cell: TheCell) -> list[Told]:
    """Median and 95th percentile of each flow's packets; curves break at times without packets."""
    if not cell.few:
        return _population(cell, "delays", pl.col("delay_ns") / _SECOND)
    frame = cell.tested("delay_bins")
    if frame.is_empty():
        return []
    width = cell.width("delays")
    told: list[Told] = []
    flows: dict[str, dict[int, list[tuple[float, int]]]] = {}
    for r in frame.iter_rows(named=True):
        packets = ((r["low_ns"] + r["high_ns"]) / 2 / _SECOND, r["delay_packets"])
        flows.setdefault(r["name"], {}).setdefault((r["time_ns"] - 1) // width, []).append(packets)
    for name, panel in shown(list(flows), 100).items():
        own = flows[name]
        rows = [
            {
                "t": (b + 1) * width / _SECOND,
                "p50": _quantile(own.get(b, []), 0.5),
                "p95": _quantile(own.get(b, []), 0.95),
            }
            for b in range(min(own), max(own) + 1)
        ]
        told += banded(panel, [{**r, "low": r["p50"], "mean": r["p50"], "high": r["p95"]} for r in rows])
        told += curve(panel, rows, "p95", dashed=True)
    return told


@reads("delay-distribution")
def delay_distribution(cell: TheCell) -> list[Told]:
    """A staircase per flow or, with many, per workload entry."""
    frame = cell.tested("delay_bins")
    if frame.is_empty():
        return []
    groups = {f["name"]: f["name"] if len(cell.flows) <= 12 else f["group"] for _, f in cell.flows}
    bins: dict[str, dict[float, int]] = {}
    for r in frame.iter_rows(named=True):
        own = bins.setdefault(groups[r["name"]], {})
        middle = (r["low_ns"] + r["high_ns"]) / 2 / _SECOND
        own[middle] = own.get(middle, 0) + r["delay_packets"]
    names = shown(list(dict.fromkeys(g for g in groups.values() if g in bins)), 36 if cell.medium.page else 26)
    told = []
    for name, look in names.items():
        total, rank, points, step = sum(bins[name].values()), 0, [], -1
        for place, middle in enumerate(sorted(bins[name])):
            rank += bins[name][middle]
            if rank * 300 // total > step or place == 0 or rank == total:
                points.append(Point(middle, rank / total))
            step = rank * 300 // total
        told.append(Told("", "line", tuple(points), look if len(names) > 1 else ""))
    return told


# ---- distributions and shares ----------------------------------------------------------------------------------------


def _bars(panel: str, rows: pl.DataFrame, series: str = "") -> list[Told]:
    bars = tuple(
        Point(round(r["bin_low"], 6), r["value"], round(r["bin_low"], 6) + 0.01, 0.0)
        for r in rows.filter(pl.col("value") > 0).sort("bin_low").to_dicts()
    )
    return [Told(panel, "rect", bars, series)] if bars else []


def _panelled(cell: TheCell, frame: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    """The rows of each phase that has some; a single phase needs no title."""
    names = [name for name, _, _ in cell.phases if name in set(frame["phase"])] or [None]
    parts = [(name or "", frame.filter(pl.col("phase").eq_missing(pl.lit(name, pl.String)))) for name in names]
    titles = shown([name for name, _ in parts], 44)
    return [(titles[name] if len(parts) > 1 else "", part) for name, part in parts]


@reads("goodput-distribution")
def goodput_distribution(cell: TheCell) -> list[Told]:
    """Bars of 1 %, one panel per phase."""
    if cell.table("goodput").is_empty() or cell.table("flows").is_empty():
        return []
    found = cell.metric("goodput.distribution").drop_nulls("value")
    if "direction" in found.columns:
        phase = pl.col("phase").fill_null("whole run") + pl.lit(", ") + pl.col("direction")
        panels = found.with_columns(phase=phase).partition_by("phase", maintain_order=True, as_dict=True)
        titles = shown([str(key[0]) for key in panels], 44)
        return [t for key, rows in panels.items() for t in _bars(titles[str(key[0])], rows)]
    return [t for panel, rows in _panelled(cell, found) for t in _bars(panel, rows)]


@reads("flow-shares")
def flow_shares(cell: TheCell) -> list[Told]:
    """A dot per flow, its interval, and the mean of all."""
    if cell.table("goodput").is_empty() or cell.table("flows").is_empty() or len(cell.flows) < 2:
        return []
    place = {flow["name"]: i for i, (_, flow) in enumerate(cell.flows)}
    told = []
    for panel, part in _panelled(cell, cell.metric("goodput.mean", "flow").drop_nulls("value")):
        rows = sorted(part.to_dicts(), key=lambda r: place[r["flow"]])
        for series, flows in cell.looks().values():
            names = {flow["name"] for i, flow in cell.flows if i in flows}
            told += _shares(panel, [r for r in rows if r["flow"] in names], place, series)
    return told


def _shares(panel: str, rows: list[dict[str, Any]], place: dict[str, int], series: str) -> Iterator[Told]:
    if not rows:
        return
    fair = sum(r["value"] for r in rows) / len(rows)
    yield Told(panel, "symbol", tuple(Point(place[r["flow"]], r["value"]) for r in rows), series)
    yield Told(panel, "line", tuple(Point(place[r["flow"]], fair) for r in rows), series, dashed=True)
    spans = tuple(Point(place[r["flow"]], r["ci_low"], y2=r["ci_high"]) for r in rows if r["ci_low"] is not None)
    if spans:
        yield Told(panel, "rule", spans, series, may_leave=True)


def _completed(cell: TheCell) -> dict[str, list[Point]]:
    """Share of the transfers of a group completed within a time."""
    frame = cell.tested("flows")
    if frame.is_empty() or frame["bytes"].is_null().all():
        return {}
    groups = {flow["name"]: flow["group"] for _, flow in cell.flows}
    found: dict[str, list[Point]] = {}
    took: dict[str, list[float | None]] = {}
    for row in frame.filter(pl.col("bytes").is_not_null()).to_dicts():
        end = row["end_ns"]
        took.setdefault(groups[row["name"]], []).append(None if end is None else (end - row["start_ns"]) / _SECOND)
    for group in sorted(took):
        done = sorted(t for t in took[group] if t is not None)
        found[group] = [Point(t, (i + 1) / len(took[group])) for i, t in enumerate(done)]
    return found


def _pages(cell: TheCell) -> dict[str, list[Point]]:
    """Share of the pages of a group completed within a time."""
    frame = cell.tested("flows")
    rows = {} if frame.is_empty() else {(row["flow"], row["transfer"]): row for row in frame.to_dicts()}
    objects: dict[tuple[str, int, int], list[tuple[int | None, int | None]]] = {}
    for number, flow in cell.flows:
        for transfer, planned in enumerate(flow["source"].get("transfers", ())):
            row = rows.get((number, transfer), {})
            times = (row.get("start_ns"), row.get("end_ns"))
            if "page" in planned:
                objects.setdefault((flow["group"], flow["index"], planned["page"]), []).append(times)
    took: dict[str, list[float | None]] = {}
    for (group, _, _), times_of in objects.items():
        begun = [start for start, _ in times_of if start is not None]
        ends = [end for _, end in times_of if end is not None]
        if begun:
            whole = len(ends) == len(times_of)
            took.setdefault(group, []).append((max(ends) - min(begun)) / _SECOND if whole else None)
    found = {}
    for group in sorted(took):
        done = sorted(t for t in took[group] if t is not None)
        found[group] = [Point(t, (i + 1) / len(took[group])) for i, t in enumerate(done)]
    return found


@reads("page-completion")
def page_completion(cell: TheCell) -> list[Told]:
    """As for transfers."""
    return _staircases(cell, _pages(cell))


@reads("completion")
def completion(cell: TheCell) -> list[Told]:
    """A staircase per group; with few steps each has a dot."""
    return _staircases(cell, _completed(cell))


def _staircases(cell: TheCell, curves: dict[str, list[Point]]) -> list[Told]:
    found = {group: points for group, points in curves.items() if points}
    several, few = len(found) > 1, sum(map(len, found.values())) < 30
    told = []
    names = shown(list(found), 36 if cell.medium.page else 26)
    for group, points in found.items():
        series = names[group] if several else ""
        told.append(Told("", "line", tuple(points), series))
        told += [Told("", "symbol", tuple(points), series)] if few else []
    return told


# ---- events ----------------------------------------------------------------------------------------------------------

_KINDS = {"recovery": "recovery", "rto": "timeout", "cwr": "ECN reduction", "local_congestion": "local congestion"}


@reads("recoveries")
def recoveries(cell: TheCell) -> list[Told]:
    """The number of flows that reduced together, and the reductions of each over time."""
    frame = cell.tested("events")
    if frame.is_empty():
        return []
    frame = frame.with_columns(pl.col("kind").cast(pl.String)).filter(pl.col("kind").is_in(list(_KINDS)))
    if frame.is_empty():
        return []
    columns = cell.medium.buckets if cell.few else cell.medium.map_columns
    width = max(1, -(-cell.end_ns // columns))
    binned = frame.with_columns(bin=pl.col("time_ns") // width)
    first = binned.group_by("place", "kind", "bin").agg(t=pl.col("time_ns").min() / _SECOND, n=pl.len())
    window = max(cell.end_ns / _SECOND / (cell.medium.buckets / 2), 1e-3)
    hit: dict[int, set[int]] = {}
    for row in first.to_dicts():
        hit.setdefault(int(row["t"] / window), set()).add(row["place"])
    starts = [f["start_ns"] / _SECOND for _, f in cell.flows]
    bars = tuple(
        Point(at * window, len(who) / max(1, sum(s <= (at + 1) * window for s in starts)), y2=0.0)
        for at, who in sorted(hit.items())
    )
    told = [Told("#0", "rule", bars)]
    if cell.few:
        for kind in dict.fromkeys(first["kind"]):
            own = first.filter(pl.col("kind") == kind).to_dicts()
            told.append(Told("#1", "symbol", tuple(Point(r["t"], r["place"]) for r in own), _KINDS[kind]))
        return told
    counts = first.group_by("place", "bin").agg(pl.col("n").sum()).to_dicts()
    fields = tuple(
        Point(r["bin"] * width / _SECOND, r["place"] + 1, (r["bin"] + 1) * width / _SECOND, r["place"], size=r["n"])
        for r in counts
    )
    return [*told, Told("#1", "rect", fields, may_leave=True)]


# ---- machines --------------------------------------------------------------------------------------------------------


@reads("timeline")
def timeline(cell: TheCell) -> list[Told]:
    """What weir did, and each node's times as sender and as receiver of each entry of the workload."""
    if not (cell.folder / "nodes.json").is_file() or cell.table("flows").is_empty():
        return []
    nodes, clocks = (json.loads((cell.folder / f"{name}.json").read_text()) for name in ("nodes", "clocks"))
    names = {node["host"]: node["name"] for node in nodes if node["host"] is not None}
    steps = [(name.replace("_", " "), a, b) for name, a, b in clocks["steps"] if a < b]
    ends = [(side, cell.plan["nodes"][flow[key]]["name"], number, flow)
            for number, flow in enumerate(cell.plan["flows"])
            for key, side in (("from", "sends"), ("to", "receives"))]  # fmt: skip
    used: dict[tuple[str, str, str], list[int]] = {}
    for side, host, number, flow in ends:
        if host in names:
            used.setdefault((names[host], flow["group"], side), []).append(number)
    rows = shown([*dict.fromkeys(name for name, _, _ in steps), *names.values()], 15 if cell.medium.page else 11)
    entries = shown(["preparation", *dict.fromkeys(flow["group"] for flow in cell.plan["flows"])],
                    36 if cell.medium.page else 26)  # fmt: skip
    did = tuple(Point(a / _SECOND, rows[name], b / _SECOND, ...) for name, a, b in steps)  # type: ignore[arg-type]
    told = [Told("", "rect", did, entries["preparation"])]
    for (node, entry, side), flows in used.items():
        bars = tuple(Point(a, rows[node], b, ...) for a, b in _busy(cell, flows))  # type: ignore[arg-type]
        told.append(Told("", "rect", bars, entries[entry], pale=side == "receives"))
    return told


def _busy(cell: TheCell, flows: list[int]) -> Iterator[tuple[float, float]]:
    """When one of the flows has a transfer, s; a pause of less than a step of the drawing does not count."""
    stops = [cell.end_ns if flow["stop_ns"] is None else flow["stop_ns"] for flow in cell.plan["flows"]]
    planned = pl.DataFrame(
        {"flow": range(len(stops)), "stop_ns": stops}, schema={"flow": pl.UInt32, "stop_ns": pl.Int64}
    )
    frame = cell.table("flows").filter(pl.col("flow").is_in(flows)).join(planned, on="flow").sort("start_ns")
    end = pl.min_horizontal(pl.coalesce(pl.col("end_ns").cast(pl.Int64), "stop_ns"), pl.lit(cell.end_ns))
    frame = frame.select(a=pl.col("start_ns").cast(pl.Int64), b=end)
    pause = pl.col("a") - pl.col("b").cum_max().shift() > cell.end_ns / cell.medium.buckets
    spans = frame.group_by(bar=pause.fill_null(True).cum_sum()).agg(pl.col("a").min(), pl.col("b").max())
    yield from ((row["a"] / _SECOND, row["b"] / _SECOND) for row in spans.to_dicts())


# ---- across the cells ------------------------------------------------------------------------------------------------


def _panel(run: TheRun, cell: TheCell) -> str:
    texts = run.shape.column(cell.cell.factors), run.shape.row(cell.cell.factors)
    return " | ".join(t for t in texts if t)


def _compared(run: TheRun) -> bool:
    return len(run.cells) > 1


@reads("goodput-grid")
def goodput_grid(run: TheRun) -> list[Told]:
    """The sum of the flows of each cell."""
    told: list[Told] = []
    for cell in run.cells if _compared(run) else ():
        for series, flows in cell.looks().values():
            told += banded(_panel(run, cell), _total(cell, cell.width("goodput", 90), flows), series)
    return told


@reads("isolines")
def isolines(run: TheRun) -> list[Told]:
    """Lines of equal ratio over the two rates of the sweep, with their levels; a panel for each entry and switch."""
    rates = [f for f in run.run.factors if str(run.cells[0].cell.factors[f]).endswith("bps")]
    if len(rates) != 2:
        return []
    rows = run.metric("port.ratio", "group").to_dicts()
    last = run.cells[0].plan["phases"][-1]["name"]
    panels: dict[str, dict[tuple[float, float], float]] = {}
    for row in rows:
        if row["phase"] == last:
            at = (_in_base(row[rates[0]]), _in_base(row[rates[1]]))
            panels.setdefault(f"{row['group']}, {row['switch']}", {})[at] = row["value"]
    told = []
    for panel, values in panels.items():
        x, y = (sorted({at[i] for at in values}) for i in (0, 1))
        grid = np.array([[values[one, two] for two in y] for one in x])
        for level in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99):
            for line in contours(x, y, grid, level):
                points = [Point(*at) for at in line]
                steps = np.abs(np.diff(np.array(line), axis=0)) / (x[-1] - x[0], y[-1] - y[0])
                if np.hypot(*steps.T).sum() < 0.15:  # a text would cover the line
                    told.append(Told(panel, "line", tuple(points), f"{level:g}"))
                    continue
                half = [(a + b) / 2 for a, b in zip(line[(len(line) - 1) // 2], line[len(line) // 2], strict=True)]
                points.insert(len(line) // 2 + len(line) % 2, Point(*half))
                told.append(Told(panel, "line", tuple(points), f"{level:g}"))
                told += 2 * [Told(panel, "text", (Point(*half, text=f"{level:g}"),))]
    return told


@reads("distribution-grid")
def distribution_grid(run: TheRun) -> list[Told]:
    """The distribution of each cell in the last phase."""
    told: list[Told] = []
    for cell in run.cells if _compared(run) else ():
        if not cell.table("goodput").is_empty() and not cell.table("flows").is_empty():
            found = cell.metric("goodput.distribution").drop_nulls("value")
            last = cell.phases[-1][0] if cell.phases else None
            found = found.filter(pl.col("phase").eq_missing(pl.lit(last, pl.String)))
            for way, (series, _) in cell.looks().items():
                own = found.filter(pl.col("direction") == way) if series else found
                told += _bars(_panel(run, cell), own, series)
    return told


@reads("completion-sweep")
def completion_sweep(run: TheRun) -> list[Told]:
    """Completion times: one curve per name and group, one panel per value of the axis."""
    told = []
    for cell in run.cells if _compared(run) else ():
        for points in _completed(cell).values():
            if points:
                series = run.shape.row(cell.cell.factors)
                told.append(Told(run.shape.column(cell.cell.factors), "line", tuple(points), series))
    return told


def _in_base(text: str) -> float:
    found = parse_quantity(text)
    assert found is not None
    return found.value


_USUAL = {"goodput.mean": "bit/s", "completion.mean": "s", "page.completion.mean": "s", "delay.p95": "s", "jain": "1"}


@reads("summary")
def summary(run: TheRun) -> list[Told]:
    """Without claims: the first usual metric that differs between the cells by 2 % in the last phase."""
    tables = {name: run.last(name) for name in _USUAL} if _compared(run) else {}
    several = {name: rows for name, rows in tables.items() if len(rows) > 1}

    def differs(rows: list[dict[str, Any]]) -> bool:
        values = [row["value"] for row in rows]
        return max(values) - min(values) >= 0.02 * max(values) > 0

    name = next((n for n, rows in several.items() if differs(rows)), next(iter(several), None))
    if name is None:
        return []
    rows, shape = several[name], run.shape
    factors = [f for f in run.run.factors if f in (shape.x, shape.series, *shape.further)]
    long = len({row[shape.x] for row in rows}) > 3 if shape.x else False
    first = shape.x if long else shape.series or shape.x
    others = sorted((f for f in factors if f != first), key=lambda f: -_effect(rows, f))
    if long:
        return list(_over_axis(run, "", [{**row, shape.series: row[others[0]] if others else ""} for row in rows]))
    colour = next((f for f in others if len({row[f] for row in rows}) <= 7), None)
    named = [f for f in (first, *others) if f != colour]
    return _dots(run, rows, named, colour, _USUAL[name])


def _effect(rows: list[dict[str, Any]], factor: str) -> float:
    """How much the mean differs between the values of a factor."""
    own = pl.DataFrame(rows, infer_schema_length=None).group_by(factor).agg(pl.col("value").mean())["value"]
    return float((own.max() - own.min()) / own.max())  # type: ignore[operator]  # numbers


def _dots(run: TheRun, rows: list[dict[str, Any]], named: list[str], colour: str | None, unit: str) -> list[Told]:
    """A dot for each cell beside the names of its factors, and its interval."""
    numeric = {f for f in named if all(parse_quantity(str(row[f])) for row in rows)}
    texts = [", ".join(f"{f} {row[f]}" if f in numeric else row[f] for f in named) for row in rows]
    places = shown(list(dict.fromkeys(texts)), 28)
    looks = shown(list(dict.fromkeys(row[colour] for row in rows)), 36 if run.medium.page else 26) if colour else {}
    size = unit_for(max(row["value"] for row in rows), unit)
    told: list[Told] = []
    for look in looks or {"": ""}:
        own = [(r, places[t]) for r, t in zip(rows, texts, strict=True) if not colour or r[colour] == look]
        series = looks[look] if colour else ""
        told.append(Told("", "symbol", tuple(Point(r["value"], place) for r, place in own), series))
        spans = tuple(Point(r["ci_low"], place, r["ci_high"]) for r, place in own if r["ci_low"] is not None)
        told += [Told("", "rule", spans, series, may_leave=True)] if spans else []
        if not colour and len(places) <= 10:
            told.append(Told("", "text", tuple(Point(r["value"], at, text=size.text(r["value"])) for r, at in own)))
    return told


@reads("by-*")
def by_factor(run: TheRun, metric: str) -> list[Told]:
    """A metric: lines and dots over the x axis, or dots and intervals beside names."""
    shape = run.shape
    if not _compared(run) or _told_by_the_mean(run, metric):
        return []
    entries = ["group"] if metric.startswith(_OF_ENTRIES) else []
    found = run.metric(metric, *entries).drop_nulls("value")
    several = len(set(found["group"])) > 1 if entries and not found.is_empty() else False
    panels: dict[str, list[dict[str, Any]]] = {}
    for row in found.to_dicts():
        way = f", {row['direction']}" if "direction" in row else ""
        way += f", {row['group']}" if several else ""
        title = "".join([row["phase"] or "whole run", way, *(f", {name} {row[name]}" for name in shape.further)])
        panels.setdefault(title, []).append(row)
    told: list[Told] = []
    titles = shown(list(panels), 44)
    if any(_apart(rows, shape) > 0.005 for rows in panels.values()):
        panels = {title: rows for title, rows in panels.items() if _apart(rows, shape) > 0.005}
    else:
        panels = {title: rows for title, rows in panels.items() if any(row["value"] for row in rows)}
    for title, rows in panels.items():
        panel = titles[title] if len(panels) > 1 else ""
        told += _over_axis(run, panel, rows) if shape.x else _beside_names(shape, panel, rows)
    return told


_OF_ENTRIES = ("delay.", "completion.", "page.", "goodput.mean")


def _told_by_the_mean(run: TheRun, metric: str) -> bool:
    """Whether the page draws the mean goodput only: the sum is the same multiple of it everywhere."""
    if metric != "goodput.aggregate.mean" or not run.medium.page:
        return False
    if 1 < len({flow["group"] for cell in run.cells for _, flow in cell.flows}) <= 6:
        return False  # the mean has a panel for each entry
    sums, means = (run.metric(name).drop_nulls("value").to_dicts() for name in (metric, "goodput.mean"))
    panels: dict[tuple[str, str], list[float]] = {}
    for one, other in zip(sums, means, strict=True):
        if other["value"]:
            panels.setdefault((one["phase"], one.get("direction", "")), []).append(one["value"] / other["value"])
    return bool(panels) and all(max(own) - min(own) <= 0.005 * max(own) for own in panels.values())


def _apart(rows: list[dict[str, Any]], shape: Shape) -> float:
    """How far the values at a place of the axis are apart at most, as a share of the largest there."""
    places: dict[str, list[float]] = {}
    for row in rows:
        places.setdefault(row[shape.x] if shape.x and shape.series else "", []).append(row["value"])
    return max((max(v) - min(v)) / max(map(abs, v)) if any(v) else 0.0 for v in places.values())


@reads("behind-*")
def behind(run: TheRun, metric: str) -> list[Told]:
    """The distance to the best at each place of the axis, where curves are close to each other and differ."""
    shape = run.shape
    if not _compared(run) or not shape.x or not shape.series or _told_by_the_mean(run, metric):
        return []
    less = metric.startswith(("completion", "page.", "queue."))
    panels: dict[str, list[dict[str, Any]]] = {}
    entries = ["group"] if metric.startswith(_OF_ENTRIES) else []
    values = run.metric(metric, *entries).drop_nulls("value").to_dicts()
    several = len({row["group"] for row in values}) > 1 if entries else False
    for row in values:
        way = f", {row['direction']}" if "direction" in row else ""
        way += f", {row['group']}" if several else ""
        title = "".join([row["phase"] or "whole run", way, *(f", {name} {row[name]}" for name in shape.further)])
        panels.setdefault(title, []).append(row)
    found: dict[str, list[dict[str, Any]]] = {}
    for title, rows in panels.items():
        places: dict[str, list[float]] = {}
        for row in rows:
            places.setdefault(row[shape.x], []).append(row["value"])
        most = max(abs(row["value"]) for row in rows)
        if 0.005 * most <= max(max(v) - min(v) for v in places.values()) <= 0.2 * most > 0:
            best = {x: min(v) if less else max(v) for x, v in places.items()}
            found[title] = [{**r, "value": abs(r["value"] - best[r[shape.x]]), "ci_low": None} for r in rows]
    titles = shown(list(found), 44)
    return [t for name, rows in found.items() for t in _over_axis(run, titles[name] if len(found) > 1 else "", rows)]


def _over_axis(run: TheRun, panel: str, rows: list[dict[str, Any]]) -> Iterator[Told]:
    shape = run.shape
    curves: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        curves.setdefault(row[shape.series] if shape.series else "", []).append(row)
    names = shown(list(curves), 36 if run.medium.page else 26)
    for name, own in curves.items():
        own.sort(key=lambda r: _in_base(r[shape.x]))
        points = tuple(Point(_in_base(r[shape.x]), r["value"]) for r in own)
        series = names[name]
        yield Told(panel, "line", points, series)
        yield Told(panel, "symbol", points, series)
        spans = tuple(Point(_in_base(r[shape.x]), r["ci_low"], y2=r["ci_high"]) for r in own if r["ci_low"] is not None)
        if spans:
            yield Told(panel, "area", spans, series, may_leave=True)


def _beside_names(shape: Shape, panel: str, rows: list[dict[str, Any]]) -> Iterator[Told]:
    yield Told(panel, "symbol", tuple(Point(r["value"], r[shape.series]) for r in rows))
    spans = tuple(Point(r["ci_low"], r[shape.series], r["ci_high"]) for r in rows if r["ci_low"] is not None)
    if spans:
        yield Told(panel, "rule", spans, may_leave=True)

"""Draws the figures of XCP's and RCP's papers from runs of the examples, for docs/explicit-feedback.md.

    for name in xcp-flows xcp-web xcp-links xcp-starts xcp-demand rcp-sizes; do weir run examples/$name.yaml; done
    python scripts/explicit.py

It reads the folders ``runs/NAME``, or those in the folder that it is given, and writes ``docs/images/explicit-*.svg``.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import vl_convert
from responses_page import _framed

import weir

IMAGES = Path(__file__).parent.parent / "docs" / "images"
_COLOURS = {
    "XCP": "#0072B2",
    "RCP": "#009E73",
    "Reno": "#D55E00",
    "processor sharing": "#8a8f98",
    "slow start": "#8a8f98",
}
_WIDTH, _HEIGHT = 230, 160
_RATE_BPS, _RTT_S, _LOAD, _PACKET_BITS = 2.4e8, 0.1, 0.9, 8000
"""The network of the example."""
_LEAST = 8
"""Transfers of a class of sizes that has a mean."""


def _panel(
    title: str, rows: Sequence[Mapping[str, Any]], x: Mapping[str, Any], y: Mapping[str, Any], *marks: Any
) -> Any:
    """A panel with one layer for each of ``marks``, a mark and the rows' kinds."""
    names = [name for name in _COLOURS if any(row["name"] == name for row in rows)]
    colour = {
        "field": "name",
        "type": "nominal",
        "title": None,
        "scale": {"domain": names, "range": [_COLOURS[name] for name in names]},
    }
    layers = [
        {"data": {"values": [row for row in rows if row["name"] in kinds]}, "mark": {**mark, "clip": True}}
        for mark, kinds in marks
    ]
    encoding = {"x": {"type": "quantitative", **x}, "y": {"type": "quantitative", **y}, "color": colour}
    return {"title": title, "width": _WIDTH, "height": _HEIGHT, "encoding": encoding, "layer": layers}


_LINE = {"type": "line", "strokeWidth": 1.3}
_DOTTED = {"type": "line", "strokeWidth": 1.3, "point": {"size": 28}}
_BOTH = ("XCP", "Reno")
_FIVE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9"]


_STEPS = (("utilisation.mean", 100, "Utilisation (%)"), ("queue.delay.mean", 1000, "Queueing delay (ms)"))
"""What the panels over a factor show: metric, its scale, its title."""


def _over(run: Any, factor: str, title: str, least: float) -> list[Any]:
    """Utilisation, queueing delay and losses over a factor whose values are numbers, perhaps with words behind."""
    panels = []
    for metric, scale, label in (*_STEPS, ("link.loss", 100, "Losses (%)")):
        rows = [
            {"name": _name(row["cc"]), "x": float(row[factor].split()[0]), "y": round(row["value"] * scale, 4)}
            for row in run.evaluate(f"{metric}@steady").iter_rows(named=True)
        ]
        x = {
            "field": "x",
            "title": title,
            "scale": {"domain": [0, 1050]},
            "axis": {"values": [0, 200, 400, 600, 800, 1000]},
        }
        y: dict[str, Any] = {"field": "y", "title": label, "axis": {"tickCount": 5}}
        if metric == "utilisation.mean":
            y["scale"] = {"domain": [least, 100]}
        panels.append(_panel(label.partition(" (")[0], rows, x, y, (_DOTTED, _BOTH)))
    return panels


def flows(run: Any) -> list[Any]:
    """Over the number of flows (figure 6 of XCP's paper)."""
    return _over(run, "pairs", "Long flows", 80)


def web(run: Any) -> list[Any]:
    """Over the arrival rate of short transfers (figure 7 of XCP's paper)."""
    return _over(run, "arrivals", "Arrivals a second", 80)


def links(run: Any) -> list[Any]:
    """At nine links in a row (figure 9 of XCP's paper)."""
    panels = []
    for metric, scale, label in _STEPS:
        rows = [
            {"name": _name(row["cc"]), "x": link + 1, "y": round(row["value"] * scale, 3)}
            for link in range(9)
            for row in run.evaluate(f"{metric}(bottleneck{link})@steady").iter_rows(named=True)
        ]
        x = {"field": "x", "title": "Link", "axis": {"values": [1, 3, 5, 7, 9], "format": "d"}}
        y: dict[str, Any] = {"field": "y", "title": label, "axis": {"tickCount": 5}}
        if metric == "utilisation.mean":
            y["scale"] = {"domain": [90, 100]}
        panels.append(_panel(label.partition(" (")[0], rows, x, y, (_DOTTED, _BOTH)))
    return panels


def starts(run: Any) -> list[Any]:
    """Goodput of five flows of XCP that begin two seconds apart, and the queue (figure 10 of its paper)."""
    (cell,) = [cell for cell in run.cells if cell.factors["cc"] == "xcp"]
    goodput = cell.table("goodput").collect()
    lines = [
        {
            "data": {"values": [{"x": at / 1e9, "y": round(sent * 8 / 2e5, 3)} for at, sent in one.iter_rows()]},
            "mark": {**_LINE, "color": colour, "clip": True},
        }
        for (_, part), colour in zip(goodput.sort("flow").group_by("flow", maintain_order=True), _FIVE, strict=True)
        for one in (part.select("time_ns", "delivered_bytes"),)
    ]
    time = {"field": "x", "title": "Time (s)", "scale": {"domain": [0, 10]}, "axis": {"values": [0, 2, 4, 6, 8, 10]}}
    five = {
        "title": "Goodput of each flow of XCP, in 200 ms",
        "width": 1.5 * _WIDTH,
        "height": _HEIGHT,
        "encoding": {
            "x": {"type": "quantitative", **time},
            "y": {"type": "quantitative", "field": "y", "title": "Goodput (Mb/s)", "axis": {"tickCount": 5}},
        },
        "layer": lines,
    }
    waiting = [
        {"name": _name(one.factors["cc"]), "x": at / 1e9, "y": round(most / 1000, 1)}
        for one in run.cells
        for at, most in _busiest(one).select("time_ns", "queue_max_bytes").iter_rows()
    ]
    queue = {"field": "y", "title": "Queue (packets)", "axis": {"tickCount": 5}}
    return [five, _panel("Longest queue, in 20 ms", waiting, time, queue, (_LINE, _BOTH))]


def _busiest(cell: Any) -> pl.DataFrame:
    """Rows of table ``links`` of the link that carries most bytes."""
    table: pl.DataFrame = cell.table("links").collect()
    number = table.group_by("link").agg(pl.col("out_bytes").sum()).sort("out_bytes")["link"][-1]
    return table.filter(pl.col("link") == number)


def demand(run: Any) -> list[Any]:
    """Utilisation and queue over time, while a hundred flows come and go (figure 11 of XCP's paper)."""
    busy, waiting = [], []
    for cell in run.cells:
        name = _name(cell.factors["cc"])
        one = _busiest(cell).with_columns(time=pl.col("time_ns") / 1e9)
        number_of_bin = ((pl.col("time_ns") - 1) // 100_000_000 + 1).alias("tenth")
        bins = one.group_by(number_of_bin).agg(pl.col("out_bytes").sum()).sort("tenth")
        busy += [
            {"name": name, "x": tenth / 10, "y": round(sent * 8 / 1e5 * 1038 / 1000, 1)}
            for tenth, sent in zip(bins["tenth"], bins["out_bytes"], strict=True)
        ]
        waiting += [
            {"name": name, "x": time, "y": round(most / 1000, 1)}
            for time, most in zip(one["time"], one["queue_max_bytes"], strict=True)
        ]
    time = {"field": "x", "title": "Time (s)", "scale": {"domain": [0, 12]}, "axis": {"values": [0, 4, 8, 12]}}
    return [
        _panel("Utilisation, in 100 ms", busy, time, {"field": "y", "title": "Utilisation (%)",
               "scale": {"domain": [0, 100]}, "axis": {"tickCount": 5}}, (_LINE, _BOTH)),
        _panel("Longest queue, in 20 ms", waiting, time, {"field": "y", "title": "Queue (packets)",
               "axis": {"tickCount": 5}}, (_LINE, _BOTH)),
    ]  # fmt: skip


def sizes(run: Any) -> list[Any]:
    """Mean completion time by size (figure 1 of RCP's papers), with processor sharing and slow start alone."""
    rows: list[dict[str, Any]] = []
    for cell in run.cells:
        flows = cell.table("flows")
        flows = flows.collect() if isinstance(flows, pl.LazyFrame) else flows
        done = flows.filter(pl.col("end_ns").is_not_null() & (pl.col("start_ns") > 1_000_000_000))
        done = done.with_columns(
            size=10 ** (((pl.col("bytes") / 948).log(10) * 5).round() / 5),
            time=(pl.col("end_ns") - pl.col("start_ns")) / 1e9,
        )
        means = done.group_by("size").agg(pl.col("time").mean(), pl.len()).filter(pl.col("len") >= _LEAST).sort("size")
        name = _name(cell.factors["cc"])
        rows += [{"name": name, "x": size, "y": time} for size, time, _ in means.iter_rows()]
    points = [10 ** (place / 10) for place in range(6, 41)]
    packet_s = _PACKET_BITS / _RATE_BPS
    rows += [{"name": "processor sharing", "x": n, "y": 1.5 * _RTT_S + n * packet_s / (1 - _LOAD)} for n in points]
    rows += [{"name": "slow start", "x": n, "y": (math.log2(n + 1) + 0.5) * _RTT_S + n * packet_s} for n in points]
    log = {"type": "log", "nice": False}
    return [
        _panel(
            "Mean completion time",
            rows,
            {"field": "x", "title": "Size (packets)", "scale": log, "axis": {"values": [10, 100, 1000, 10000]}},
            {"field": "y", "title": "Time (s)", "scale": log, "axis": {"values": [0.2, 0.5, 1, 2, 5]}},
            (_DOTTED, ("RCP", "XCP", "Reno")),
            ({**_LINE, "strokeDash": [4, 3]}, ("processor sharing",)),
            ({**_LINE, "strokeDash": [1, 2]}, ("slow start",)),
        )
        | {"width": 1.6 * _WIDTH, "height": 1.4 * _HEIGHT}
    ]


def _name(cc: str) -> str:
    return {"xcp": "XCP", "rcp": "RCP", "reno": "Reno"}[cc]


def main() -> int:
    """Draws all of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("runs", nargs="?", type=Path, default=Path("runs"), help="folder of the runs")
    parser.add_argument("--only", action="append", help="only the picture of this example")
    runs = parser.parse_args().runs
    drawn = {
        "xcp-flows": flows,
        "xcp-web": web,
        "xcp-links": links,
        "xcp-starts": starts,
        "xcp-demand": demand,
        "rcp-sizes": sizes,
    }
    asked = parser.parse_args().only or list(drawn)
    for example, draw in ((name, drawn[name]) for name in asked):
        svg = str(
            vl_convert.vegalite_to_svg(json.dumps(_framed(draw(weir.open(runs / example)))), allowed_base_urls=[])
        )
        (IMAGES / f"explicit-{example}.svg").write_text(svg + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

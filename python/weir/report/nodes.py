"""Tables of a cell on real machines: its nodes, and the network that weir measured before the traffic.

They come from the files that the cell keeps: ``nodes.json``, ``clocks.json``, ``calibration.json``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from weir._inside import read_plain
from weir.report._text import number
from weir.report.tables import Field, Grid, Part
from weir.report.view import CellView
from weir.run.printable import printable

__all__ = ["node_tables"]

_MOST_BYTES = 1 << 26
_MOST_ROWS = 250
_BROKEN = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)


def node_tables(cell: CellView) -> list[Grid]:
    """The tables; none if the cell did not run on real machines.

    A file that cannot be read is a problem of the cell, and costs only its table.
    """
    found = []
    for make, name in ((_nodes, "nodes.json"), (_network, "calibration.json")):
        try:
            grid = make(cell, _document(cell, name))
        except FileNotFoundError:
            continue
        except _BROKEN as error:
            cell.problems.append(f"{cell.id}: {name}: {error}")
            continue
        if grid is not None:
            found.append(grid)
    return found


def _document(cell: CellView, name: str) -> Any:
    return json.loads(read_plain(cell.cell.path / name, _MOST_BYTES))


def _nodes(cell: CellView, nodes: list[Mapping[str, Any]]) -> Grid | None:
    clocks = _clocks(cell)
    offs = {name: each["start_off_ns"] for name, each in clocks.items() if each.get("start_off_ns") is not None}
    first = min(offs.values(), default=0)
    rows = []
    for node in nodes[:_MOST_ROWS]:
        name = str(node["name"])
        off, error = offs.get(name), (clocks.get(name, {}).get("after") or {}).get("error_ns")
        controls = node.get("congestion_controls") or {}
        fields = (
            *(_word(node.get(key)) for key in ("host", "address", "device")),
            _word(", ".join(str(each) for each in controls) or None),
            Field(number(None if off is None else (off - first) / 1e6)),
            Field(number(None if error is None else error / 1e6)),
        )
        rows.append((printable(name), fields))
    if not rows:
        return None
    columns = (
        "Host of the plan",
        "Address",
        "Device",
        "Congestion controls",
        "Began after the first (ms)",
        "Clock known within (ms)",
    )
    caption = "The machines of this repeat. A node without a host is the network. " + _more(len(nodes))
    return Grid("Nodes", f"{len(nodes)}", caption.strip(), (Part("", "Node", columns, tuple(rows)),), False, True)


def _clocks(cell: CellView) -> Mapping[str, Mapping[str, Any]]:
    """What ``clocks.json`` says of each node; empty if it is not there."""
    try:
        return dict(_document(cell, "clocks.json")["nodes"])
    except FileNotFoundError:
        return {}


def _network(cell: CellView, calibration: Mapping[str, Any]) -> Grid | None:
    checks = calibration["checks"]
    rows = [
        (
            printable(f"{check['what']}, {check['pair']}"),
            (
                Field(f"{number(check['measured'], 4)} {printable(check['unit'])}"),
                Field(f"{number(check['expected'], 4)} {printable(check['unit'])}"),
                Field(f"± {number(check['tolerance'], 3)} {printable(check['unit'])}"),
                _word(check["says"]),
                _word("within" if check["holds"] else "outside"),
            ),
        )
        for check in sorted(checks, key=lambda check: bool(check["holds"]))[:_MOST_ROWS]
    ]
    if not rows:
        return None
    outside = sum(not check["holds"] for check in checks)
    note = f"{len(checks)} measurements, " + (f"{outside} outside" if outside else "all within their tolerance")
    columns = ("Measured", "Expected", "Tolerance", "Who says it", "Result")
    caption = "What weir measured between nodes before the traffic. " + _more(len(checks))
    return Grid(
        "The network", note, caption.strip(), (Part("", "Measurement", columns, tuple(rows)),), bool(outside), True
    )


def _more(there: int) -> str:
    left = there - _MOST_ROWS
    return f"{left} more are in the cell's folder." if left > 0 else ""


def _word(value: object) -> Field:
    return Field("–" if value is None else printable(str(value)), numeric=False)

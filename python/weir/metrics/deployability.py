"""Deployability: what has to change before a transport can be used.

The thesis notes that these criteria are hard to express in numbers. These metrics count what a plan and a source file
contain; they do not rank.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np

from weir.metrics.bounds import NON_NEGATIVE, SHARE
from weir.metrics.registry import Category, View, metric
from weir.metrics.results import Values
from weir.metrics.window import Window
from weir.queues import is_plain

__all__ = ["code_lines", "count_code_lines"]

_CC = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_TOKEN = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)


def count_code_lines(source: str) -> int:
    """Lines of C that contain more than white space and comments."""
    bare = _TOKEN.sub(lambda m: m.group() if m.group()[0] in "\"'" else "\n" * m.group().count("\n") + " ", source)
    return sum(1 for line in bare.splitlines() if line.strip())


def code_lines(cc: str) -> float:
    """Lines of code of the congestion control ``cc``: of all ``*.c`` in its folder; nan without sources.

    Searches the sources installed with the package, then the checkout that the package runs from.
    """
    if not _CC.fullmatch(cc):
        return math.nan  # a path or a kernel's own control (`linux:NAME`): weir has no source of it
    package = Path(__file__).resolve().parents[1]
    for root in (package / "cc", package.parents[1] / "cc"):
        files = sorted((root / cc).glob("*.c"))
        if files:
            return float(sum(count_code_lines(file.read_text(encoding="utf-8")) for file in files))
    return math.nan


@metric(
    "deployability.code_lines",
    symbol="L",
    formula="lines of code of the congestion control",
    unit="lines",
    bounds=NON_NEGATIVE,
    category=Category.DEPLOYABILITY,
    scope="flow",
    views=(View.DESIGNER,),
    source="thesis section 2.3.1 and Table 2.III (code complexity)",
    tables=(),
)
def deployability_code_lines(window: Window) -> Values:
    """Lines of C, without blanks and comments, of weir's implementation of a flow's congestion control.

    Counts the lines of one implementation. Shared headers are not counted, and fewer lines do not mean a simpler
    algorithm. Undefined for controls whose source is not weir's.
    """
    known = {cc: code_lines(cc) for cc in {flow.cc for flow in window.flows if flow.cc is not None}}
    values = [math.nan if flow.cc is None else known[flow.cc] for flow in window.flows]
    return Values("flow", window.flow_ids, np.array(values, dtype=np.float64))


@metric(
    "deployability.application",
    symbol="a",
    formula="1 if the flow is one of several parallel streams or sends datagrams, else 0",
    unit="1",
    bounds=SHARE,
    category=Category.DEPLOYABILITY,
    scope="flow",
    views=(View.END_USER,),
    source="thesis Table 2.III (application modification)",
    tables=(),
)
def deployability_application(window: Window) -> Values:
    """Share of flows that require a modified application: an ordinary one opens a single TCP connection.

    Parallel streams need an application that splits its data; datagrams need one with its own reliability.
    """
    streams: dict[tuple[str, int], int] = {}
    for flow in window.plan.flows:
        streams[flow.group, flow.index] = streams.get((flow.group, flow.index), 0) + 1
    values = [float(flow.protocol != "tcp" or streams[flow.group, flow.index] > 1) for flow in window.flows]
    return Values("flow", window.flow_ids, np.array(values, dtype=np.float64))


@metric(
    "deployability.network",
    symbol="h",
    formula="number of links on the flows' paths with a queue other than drop-tail",
    unit="count",
    bounds=NON_NEGATIVE,
    category=Category.DEPLOYABILITY,
    scope="group",
    views=(View.PROVIDER,),
    source="thesis Table 2.III (hardware upgrades)",
    tables=(),
)
def deployability_network(window: Window) -> Values:
    """Links on the flows' paths whose queue does more than drop-tail (RED, CoDel, PIE, ...)."""
    links = {link for flow in window.flows for link in flow.path}
    return Values("all", [0], np.array([float(sum(not is_plain(window.plan.links[k].queue) for k in links))]))

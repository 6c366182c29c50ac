"""The table of docs/l4s.md: which code point a control sends, its class behind DualPI2, the methods, and remarks.

Each entry is computed: code points from a packet trace of the simulator, classes from simulated packets, methods from
what they refuse, remarks from a check of the scenario. ``tests/lab/test_lab_l4s.py`` asks the kernel.
"""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

import pytest

from shared import execute
from weir import methods, scenario
from weir.inventory import parse as parse_inventory
from weir.methods.hosts._settings import obstacle
from weir.plan import typed

PAGE = Path(__file__).parents[2] / "docs" / "l4s.md"
_CODE_POINTS = {"T": "ECT(0)", "L": "ECT(1)", "": "Not-ECT"}
_DOCUMENT = """
title: A flow behind DualPI2
topology: {{dumbbell: {{pairs: 1, rtt: 10ms, access: {{rate: 100Mbps}}, bottleneck: {{rate: 10Mbps, queue: {queue}}}}}}}
transport: {{cc: {cc}, ecn: {ecn}}}
workload: [{{name: flow, kind: bulk, between: pairs}}]
measure: {{goodput: 100ms, links: 100ms{trace}}}
duration: 300ms
"""
_QUEUES = ("dualpi2", "{dualpi2: {any_ect: true}}")
_INVENTORY = "{sets: {A: {nodes: [a1]}}, network: emulated, emulator: A}"


def table() -> list[dict[str, str]]:
    """The rows of the page's first table, by column."""
    lines = PAGE.read_text(encoding="utf-8").partition("## Who lands where")[2].partition("\n## ")[0].splitlines()
    rows = [[field.strip() for field in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    head, _, *body = rows
    return [dict(zip(head, row, strict=True)) for row in body]


def parsed(row: dict[str, str], queue: str, trace: str = "") -> scenario.Scenario:
    cc = row["control"].strip("`")
    return scenario.parse(_DOCUMENT.format(queue=queue, cc=cc, ecn=row["`ecn`"].strip("`"), trace=trace))


def plan(row: dict[str, str], queue: str) -> dict[str, Any]:
    found: dict[str, Any] = parsed(row, queue).cells()[0].plan()
    return found


@pytest.fixture(scope="module", params=range(12), ids=str)
def row(request: pytest.FixtureRequest) -> dict[str, str]:
    rows = table()
    assert len(rows) == 12
    return rows[request.param]


def test_the_table_has_each_control_with_and_without_ecn() -> None:
    found = [(row["control"], row["`ecn`"]) for row in table()]
    controls = ("dctcp", "prague", "cubic", "reno", "bbr", "bbr3")
    assert found == [(f"`{cc}`", f"`{ecn}`") for cc in controls for ecn in ("true", "false")]


def test_the_code_point_is_that_of_the_simulated_packets(row: dict[str, str]) -> None:
    traced, _ = execute("sim", parsed(row, "dualpi2", trace=", trace: {}").cells()[0].plan())
    log = csv.DictReader(io.StringIO(traced.text("packets.csv")))
    data = (line for line in log if line["event"] == "sent" and line["kind"] == "data")
    sent = {line["flags"] for line in data if "R" not in line["flags"]}
    assert {_CODE_POINTS[re.sub("[^TL]", "", flags)] for flags in sent} == {row["sends, `sim`"]}


@pytest.mark.parametrize("queue", _QUEUES)
def test_the_class_is_the_one_that_counts_its_bytes(row: dict[str, str], queue: str) -> None:
    """All but those of its handshake and of retransmissions, which are Not-ECT."""
    asked = plan(row, queue)
    sink, _ = execute("sim", asked)
    columns = sink.columns("classes")
    counted = dict.fromkeys(("l4s", "classic"), 0)
    for link, number, size in zip(columns["link"], columns["class"], columns["in_bytes"], strict=True):
        if asked["links"][link]["name"] == "bottleneck":
            counted[("l4s", "classic")[number]] += size
    assert min(counted.values()) < 0.02 * max(counted.values())
    name = "class, `dualpi2`" if queue == "dualpi2" else "class, `any_ect: true`"
    assert row[name] == max(counted, key=lambda one: counted[one])


@pytest.mark.parametrize("queue", _QUEUES)
def test_methods_are_those_that_do_not_refuse(row: dict[str, str], queue: str) -> None:
    asked = plan(row, queue)
    hosts = obstacle(typed(asked), parse_inventory(_INVENTORY))
    refusals = {name: methods.get(name).unfit(asked) for name in ("sim", "lab", "emul")} | {"hosts": hosts}
    able = [name for name, why in refusals.items() if why is None]
    name = "methods, `dualpi2`" if queue == "dualpi2" else "methods, `any_ect: true`"
    assert row[name] == ("all" if len(able) == len(refusals) else ", ".join(f"`{one}`" for one in able))


_REMARKS = {
    "which `dualpi2` takes for classic traffic": "`dualpi2`: taken for classic",
    "it takes the many marks there for losses": "`any_ect: true`: takes marks for losses",
    "gets none without ECN": "gets no marks",
    "does not react to marks": "does not react to marks",
}


def test_remarks_are_those_of_a_check(row: dict[str, str]) -> None:
    found: set[str] = set()
    for queue in _QUEUES:
        for problem in parsed(row, queue).problems:
            if problem.severity == "warning":
                found |= {short for part, short in _REMARKS.items() if part in problem.message} or {problem.message}
    assert row["`weir check` warns"] == (", ".join(sorted(found)) or "–")

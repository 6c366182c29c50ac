"""Runs with classes or a switch: the default tables of ``weir show``, reports and comparisons have their metrics."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import weir as package
from shared import Weir
from weir.metrics.overview import classes_of
from weir.report.qos import qos_tables
from weir.report.view import RunView
from weir.run import open_run

_SWITCH = """
title: two inputs
topology:
  star: {hosts: 3, access: {rate: 100Mbps}, switch: fair}
workload:
  - {name: a, kind: cbr, between: [h0, h2], wire_rate: 100Mbps, until: 300ms}
  - {name: b, kind: cbr, between: [h1, h2], wire_rate: 80Mbps, start: 1us, until: 300ms}
measure: {goodput: 1ms, tcp: 0, links: 1ms, trace: {from: 0s, to: 100ms}}
"""
_CLASSES = """
title: two classes
topology:
  dumbbell:
    pairs: 2
    access: {rate: 100Mbps}
    bottleneck:
      rate: 10Mbps
      queue: {wrr: {classes: {af: {dscp: af11, weight: 75%}, be: {weight: 25%}}}}
    rtt: 10ms
workload:
  - {name: af, between: "pairs[0]", kind: cbr, rate: 10Mbps, dscp: af11, until: 2s}
  - {name: be, between: "pairs[1]", kind: cbr, rate: 10Mbps, until: 2s}
measure: {links: 100ms}
"""


def _run(folder: Path, text: str) -> Path:
    (folder / "s.yaml").write_text(text)
    package.execute(folder / "s.yaml", folder / "run", method="sim")
    return folder / "run"


@pytest.fixture(scope="module")
def switched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _run(tmp_path_factory.mktemp("switched"), _SWITCH)


@pytest.fixture(scope="module")
def classed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _run(tmp_path_factory.mktemp("classed"), _CLASSES)


def test_show_has_a_row_for_each_flow_through_a_switch(weir: Weir, switched: Path) -> None:
    lines = weir("show", str(switched)).out.splitlines()
    (head,) = [number for number, line in enumerate(lines) if "port.rate" in line]
    assert lines[head].split() == ["flow", "port.rate", "switch.loss", "switch.starvation"]
    first, second = (re.split(r"  +", line) for line in lines[head + 1 : head + 3])
    assert (first[0], second[0]) == ("a[0]", "b[0]")
    # Half of the port for each: 100 Mb/s loses a half and 80 Mb/s three eighths, less what waits in the memory.
    assert [float(row[2].split()[0]) for row in (first, second)] == pytest.approx([45, 30], abs=8)
    rows = json.loads(weir("show", str(switched), "--json").out)["metrics"]
    assert sum(row["metric"] == "switch.starvation" for row in rows) == 2


def test_show_has_a_row_for_each_class(weir: Weir, classed: Path) -> None:
    assert classes_of(open_run(classed)) == {"af": [cell := open_run(classed).cells[0].id], "be": [cell]}
    lines = weir("show", str(classed)).out.splitlines()
    (head,) = [number for number, line in enumerate(lines) if "class.throughput" in line]
    assert lines[head].split() == ["class", "class.throughput", "class.loss", "class.delay"]
    rates = {line.split()[0]: float(line.split()[1]) for line in lines[head + 1 : head + 3]}
    assert rates["af"] == pytest.approx(3 * rates["be"], rel=0.05)


def test_a_report_has_a_table_of_the_ports(switched: Path, classed: Path) -> None:
    (cell,) = RunView(open_run(switched)).combinations
    (grid,) = [grid for grid in qos_tables(cell) if grid.title == "Ports of the switch"]
    (part,) = grid.parts
    assert [column.partition(" (")[0] for column in part.columns] == [
        "Input", "Output", "Rate", "Loss", "Longest starvation",
    ]  # fmt: skip
    assert [(name, fields[0].text, fields[1].text) for name, fields in part.rows] == [
        ("a[0]", "h0", "h2"), ("b[0]", "h1", "h2"),
    ]  # fmt: skip
    assert all(float(field.text) > 0 for _, fields in part.rows for field in fields[2:])
    (other,) = RunView(open_run(classed)).combinations
    assert "Ports of the switch" not in {grid.title for grid in qos_tables(other)}


def test_a_comparison_has_classes_and_ports_of_runs_that_have_some(switched: Path, classed: Path) -> None:
    ports = package.compare([switched, switched], labels=["x", "y"]).values
    named = {(row["metric"], row["flow"]) for row in ports.iter_rows(named=True)}
    assert {("port.rate", "a[0]"), ("switch.loss", "b[0]"), ("switch.starvation", "a[0]")} <= named
    assert not any(metric.startswith("class.") for metric, _ in named)
    classes = set(package.compare([classed, classed], labels=["x", "y"]).values["metric"])
    assert {f"class.{what}[class: {name}]" for what in ("throughput", "loss", "delay") for name in ("af", "be")} <= (
        classes
    )
    assert not any(metric.startswith(("port.", "switch.")) for metric in classes)


def test_flows_on_one_line_of_the_sequence_are_both_seen(weir: Weir, tmp_path: Path) -> None:
    """All marks of the first flow come before those of the second, which are smaller."""
    folder = _run(tmp_path, _SWITCH.replace("80Mbps", "100Mbps"))
    weir("report", str(folder), "--figures", "--only", "sequence", "--format", "svg")
    (figure,) = (folder / "figures").glob("sequence*.svg")
    marks = re.findall(r'd="M([0-9.]+),0A[^"]*"[^>]*fill="(#[0-9A-F]{6})"[^>]*opacity="0.7"', figure.read_text())
    colours = list(dict.fromkeys(colour for _, colour in marks))
    assert len(colours) == 2
    assert [colour for _, colour in marks] == sorted((colour for _, colour in marks), key=colours.index)
    first, second = ({float(radius) for radius, of in marks if of == colour} for colour in colours)
    assert min(first) > 2 * max(second)

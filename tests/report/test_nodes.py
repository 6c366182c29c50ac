"""The tables of a cell on real machines: its nodes, and the network measured before the traffic."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from synthetic import Cell, Dumbbell, write_run

from shared import seal_run
from weir.report.nodes import node_tables
from weir.report.tables import Grid
from weir.report.view import CellView, RunView
from weir.run import open_run

_BELL = Dumbbell(flows=2, duration=6, every=2, step=0.5)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", [Cell(machines=True)], bell=_BELL)


def view(folder: Path) -> CellView:
    return RunView(open_run(folder)).combinations[0]


def rows(grid: Grid) -> dict[str, list[str]]:
    (part,) = grid.parts
    return {name: [field.text for field in fields] for name, fields in part.rows}


def test_nodes_with_their_hosts_and_how_late_each_began(folder: Path) -> None:
    nodes, _ = node_tables(view(folder))
    assert (nodes.title, nodes.note) == ("Nodes", "4")
    assert rows(nodes) == {
        "between": ["–"] * 6,
        "dst0.a-long-site.example": ["dst0", "10.0.0.1", "–", "–", "0", "0.0800"],
        "dst1.a-long-site.example": ["dst1", "10.0.0.1", "–", "–", "0.500", "0.0810"],
        "src0.a-long-site.example": ["src0", "10.0.0.1", "–", "–", "1.00", "0.0820"],
    }


def test_measurements_outside_their_tolerance_come_first(folder: Path) -> None:
    _, network = node_tables(view(folder))
    assert network.note == "2 measurements, 1 outside"
    assert network.open
    assert list(rows(network).items()) == [
        ("rate of TCP, dst0 to src0", ["7.250 Mb/s", "9.500 Mb/s", "± 1.50 Mb/s", "the inventory", "outside"]),
        ("round-trip time, dst0 to src0", ["20.12 ms", "20.40 ms", "± 2.50 ms", "the scenario", "within"]),
    ]


def test_a_cell_without_machines_has_none(tmp_path: Path) -> None:
    cell = view(write_run(tmp_path / "run", [Cell()], bell=_BELL))
    assert (node_tables(cell), cell.problems) == ([], [])


@pytest.mark.parametrize("text", ["[", "{}", '[{"host": 1}]', '{"checks": [{}]}', "3"])
@pytest.mark.parametrize("name", ["nodes.json", "calibration.json"])
def test_what_cannot_be_read_is_a_problem_of_the_cell(folder: Path, name: str, text: str) -> None:
    (folder / "cells" / Cell(machines=True).id / name).write_text(text)
    cell = view(seal_run(folder))
    titles = [grid.title for grid in node_tables(cell)]
    empty = name == "nodes.json" and text == "{}"
    assert titles == (["The network"] if name == "nodes.json" else ["Nodes"])
    assert empty or any(name in problem for problem in cell.problems)


def test_without_clocks_the_nodes_are_named_all_the_same(folder: Path) -> None:
    (place,) = (folder / "cells").iterdir()
    (place / "clocks.json").unlink()
    grid, _ = node_tables(view(seal_run(folder)))
    assert rows(grid)["src0.a-long-site.example"][-2:] == ["–", "–"]
    (place / "clocks.json").write_text(json.dumps({"nodes": 3}))
    assert [grid.title for grid in node_tables(view(seal_run(folder)))] == ["The network"]

"""Runs with exact and with real clocks, where a switch lets phases decide."""

from __future__ import annotations

from pathlib import Path

import pytest
from compare_support import Cell, write_run

import weir
from weir.scenario import parse

_SWITCH = """title: t
topology: {star: {hosts: 3, access: {rate: 1Gbps}, switch: SWITCH}}
workload:
  - {name: one, kind: cbr, between: [h0, h2], wire_rate: 200Mbps, until: 2s}
  - {name: two, kind: cbr, between: [h1, h2], wire_rate: 1Gbps, start: 3us, until: 2s}
"""


@pytest.mark.parametrize(
    ("switch", "methods", "told"),
    [
        ("{memory: 200kB}", ("sim", "emul"), 1),
        ("{memory: 200kB}", ("sim", "lab"), 0),
        ("{memory: 200kB}", ("emul", "emul"), 0),
        ("fair", ("sim", "emul"), 0),
    ],
)
def test_exact_and_real_clocks_are_told_apart_once(
    tmp_path: Path, switch: str, methods: tuple[str, str], told: int
) -> None:
    plan = parse(_SWITCH.replace("SWITCH", switch)).cells()[0].plan()
    changes = {key: plan[key] for key in ("nodes", "links", "flows")}
    cells = [
        Cell(goodput=((1, 1), (2, 2)), cwnd=((1, 1), (2, 2)), changes=changes, factors={"cc": value})
        for value in ("reno", "cubic")
    ]
    runs = [write_run(tmp_path / str(i), cells, method=method) for i, method in enumerate(methods)]
    notes = [note for note in weir.compare(runs).notes if "phases decide" in note]
    assert len(notes) == told
    assert all(note.startswith("`one` and `two` send up to 1200 Mb/s at constant rates") for note in notes)

"""Pages through this host's kernel: objects wait for their document, pages for each other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from emul_support import needs_emul, remains_of, weir

from shared import dumbbell
from weir.metrics import open_run

pytestmark = needs_emul()


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert remains_of({os.getpid()}) == []


def test_pages_take_as_long_as_in_the_simulator(tmp_path: Path) -> None:
    scenario = tmp_path / "web.yaml"
    scenario.write_text(
        dumbbell(
            access="rate: 50Mbps",
            bottleneck="rate: 20Mbps, queue: {droptail: {size: 1bdp}}",
            transport="cc: cubic",
            workload="name: web, between: 'pairs[0]', kind: web, start: 500ms, objects: [9, 1, 4], "
            "size: [2kB, 30kB, 700B], parse: 7ms, think: 300ms, count: 4, until: 4s",
        ),
        encoding="utf-8",
    )
    found = {}
    for method in ("sim", "emul"):
        folder = tmp_path / method
        process = weir("run", str(scenario), "--method", method, "-o", str(folder), "--no-report", "-q")
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        run = open_run(folder)
        found[method] = {name: run.metrics(name)["value"][0] for name in ("page.completion.median", "page.count")}
        (cell,) = run.cells
        rows = {(r["flow"], r["transfer"]): r for r in cell.table("flows").collect().to_dicts()}
        for flow in cell.plan.flows:
            for number, transfer in enumerate(flow.typed.source.transfers):  # type: ignore[union-attr]
                for after in transfer.after or ():
                    assert rows[flow.id, number]["start_ns"] >= rows[after.stream, after.transfer]["end_ns"]
        assert all(row["delivered_bytes"] == row["bytes"] for row in rows.values())
    assert found["sim"]["page.count"] == found["emul"]["page.count"] == 4
    # About 80 ms. The median, because a busy machine may delay one of them.
    assert found["emul"]["page.completion.median"] == pytest.approx(found["sim"]["page.completion.median"], rel=0.15)

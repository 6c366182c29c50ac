"""Cells that ended early, and tables that a method does not observe: neither is a figure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shared import seal_run
from weir.metrics import MetricError, open_run
from weir.metrics.expect import evaluate
from weir.run import RunWarning

from .synthetic import CellSpec, FlowSpec, LinkSpec, write_run


def _says(run: Path, cell: str, **facts: object) -> None:
    """Adds facts to a cell's manifest."""
    file = run / "cells" / cell / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **facts}))
    seal_run(run)


def test_links_that_the_method_does_not_see_are_no_idle_links(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", [CellSpec([FlowSpec([100.0] * 4)], [LinkSpec()], end_s=4, links_ms=1000)])
    claim = {"claim": "the link is idle", "check": "utilisation(bottleneck) <= 0.5"}
    assert evaluate(open_run(run), [claim])[0].outcome != "undecided"
    _says(run, "000", unobserved=["links"])
    with pytest.raises(MetricError, match="'links', which this cell lacks"):
        open_run(run).metrics("utilisation")
    assert evaluate(open_run(run), [claim])[0].outcome == "undecided"


def test_cells_that_ended_early_count_in_no_figure(tmp_path: Path) -> None:
    run = write_run(
        tmp_path / "run",
        [CellSpec([FlowSpec([100.0] * 4)], end_s=4), CellSpec([FlowSpec([104.0] * 4)], end_s=4, repeat=1)],
    )
    claims = [{"claim": "all", "check": "goodput.mean >= 101Mbps"}]
    assert evaluate(open_run(run), claims)[0].outcome == "undecided", "100 and 104 Mb/s"
    _says(run, "001", partial="a1 is lost")
    with pytest.warns(
        RunWarning, match=r"PARTIAL: 1 of 2 cells ended early \(001: a1 is lost\); no figure includes them"
    ):
        found = open_run(run)
    assert [cell.id for cell in found.cells] == ["000"]
    assert evaluate(found, claims)[0].outcome == "fails"
    _says(run, "000", partial="b1 is lost")
    with pytest.warns(RunWarning, match="PARTIAL: 2 of 2 cells ended early"):
        found = open_run(run)
    assert len(found.cells) == 2
    (verdict,) = evaluate(found, claims)
    assert verdict.outcome == "undecided"
    assert "cell 000 ended early: b1 is lost" in verdict.explanation

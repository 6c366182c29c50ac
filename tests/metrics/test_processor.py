"""Processor time: sums over the rows of a window, and where there are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from weir.metrics import MetricError, open_run

from .synthetic import CellSpec, FlowSpec, write_run

_ROWS = [
    *((end, part, 100, 150) for part in (0, 1) for end in (2, 4, 6, 8, 10)),
    (2, 3, 500, 500),
    (4, 3, 0, 300),
    (4, 0, 0, 50),  # of another process
]


def _run(folder: Path, **given: object) -> object:
    cell = CellSpec([FlowSpec([1.0] * 10), FlowSpec([1.0] * 10, index=1)], goodput_ms=1000, **given)  # type: ignore[arg-type]
    return open_run(write_run(folder, [cell]))


def _value(run: object, name: str, **given: object) -> object:
    return run.metrics(name, **given)["value"].to_list()  # type: ignore[attr-defined]


def test_a_share_is_the_time_of_all_processes_of_a_part_in_the_window(tmp_path: Path) -> None:
    run = _run(tmp_path / "run", processor=_ROWS, phases={"early": (0, 4)})
    assert _value(run, "processor.senders") == [pytest.approx((5 * 0.25 + 0.05) / 10)]
    assert _value(run, "processor.receivers") == [pytest.approx(5 * 0.25 / 10)]
    assert _value(run, "processor.senders", phase="early") == [pytest.approx((2 * 0.25 + 0.05) / 4)]
    assert _value(run, "processor.network", phase="early") == [pytest.approx(1.3 / 4)]


def test_a_part_without_a_process_has_no_value(tmp_path: Path) -> None:
    assert _value(_run(tmp_path / "run", processor=_ROWS[:5]), "processor.network") == [None]


def test_flows_of_one_process_cannot_be_told_apart(tmp_path: Path) -> None:
    run = _run(tmp_path / "run", processor=_ROWS)
    with pytest.raises(MetricError, match="counts the ends of all flows together"):
        run.metrics("processor.senders", flows="elephants[0]")  # type: ignore[attr-defined]
    mixed = _run(tmp_path / "mixed", processor=[*_ROWS, (2, 2, 1, 1)])
    with pytest.raises(MetricError, match="has sending and receiving ends"):
        mixed.metrics("processor.receivers")  # type: ignore[attr-defined]


def test_methods_in_virtual_time_have_none(tmp_path: Path) -> None:
    with pytest.raises(MetricError, match="only methods in real time write"):
        _run(tmp_path / "run", processor=None).metrics("processor.senders")  # type: ignore[attr-defined]

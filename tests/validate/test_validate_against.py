"""``weir revalidate``: a published validation, and a changed simulator."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from shared import dumbbell
from weir.study import How, StudyError
from weir.study.validation import Job, check, document, execute, read_stored

TINY = dumbbell(
    bottleneck="rate: 5Mbps, queue: 20packets",
    transport="cc: reno, buffers: 4MB",
    workload="name: flows, between: pairs, kind: bulk, until: 4s",
    more="""\
sweep:
  transport.cc: [reno, cubic]
  topology.dumbbell.rtt: [20ms, 100ms]
""",
)

Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published validation of the simulator against itself with exact clocks."""
    place = tmp_path_factory.mktemp("published")
    (place / "tiny.yaml").write_text(TINY)
    job = Job("tiny", place / "tiny.yaml", "sim,sim@transport.processing=0s", chance=3)
    document(execute(job, place / "runs", How(1)), place / "docs", "weir validate ...")
    return place


@pytest.fixture
def locate(folder: Path) -> Callable[[str], Path]:
    """Returns the path of the validation's scenario."""
    return lambda _name: folder / "tiny.yaml"


def _published(folder: Path, change: Change | None = None) -> Path:
    path = folder / "docs" / "tiny.json"
    if change is None:
        return path
    data = json.loads(path.read_text(encoding="utf-8"))
    change(data)
    other = folder / "changed.json"
    other.write_text(json.dumps(data), encoding="utf-8")
    return other


def test_a_simulator_that_is_what_it_was_passes(folder: Path, locate: Callable[[str], Path]) -> None:
    found = check(read_stored(_published(folder)), locate, how=How(1))
    assert found.failures == ()
    assert found.notes == ()
    assert found.same == 4
    for change in found.changes:
        assert change.now == change.before
    assert {change.name for change in found.changes} >= {"goodput_error", "queue_delay_error", "loss_error"}


@pytest.mark.parametrize(
    "sabotage",
    [
        {"transport.stack": "linux-2.6", "transport.initial_window": "1"},
        {"topology.dumbbell.bottleneck.queue": "10packets"},
        {"transport.sack": "false", "transport.ack": "every"},
    ],
)
def test_a_simulator_that_was_changed_for_the_worse_fails(
    folder: Path, locate: Callable[[str], Path], sabotage: Mapping[str, str]
) -> None:
    found = check(read_stored(_published(folder)), locate, overrides=sabotage, how=How(1))
    assert found.failures
    assert found.same < 4
    assert any("rose from" in text for text in found.failures)
    assert any("at cc " in text for text in found.failures), "it says where"


def test_some_of_the_cells_will_do(folder: Path, locate: Callable[[str], Path]) -> None:
    stored = read_stored(_published(folder))
    some = stored.some(2, 1)
    assert len(some.cells) == 2
    assert some.cells == stored.some(2, 1).cells
    assert stored.some(99, 1) is stored
    assert check(some, locate, how=How(1)).same == 2


def test_a_reference_that_has_moved_is_noted(folder: Path, locate: Callable[[str], Path]) -> None:
    def move(data: dict[str, Any]) -> None:
        data["cells"][0]["values"]["goodput.aggregate.mean"][1] *= 1.1

    stored = read_stored(_published(folder, move))
    found = check(stored, locate, methods=stored.methods, how=How(1))
    (note,) = found.notes
    assert "the reference has moved by more than 1% in 1 cells" in note
    assert "goodput.aggregate.mean" in note


def test_plans_that_are_not_those_measured_are_noted(folder: Path, locate: Callable[[str], Path]) -> None:
    def other(data: dict[str, Any]) -> None:
        data["cells"][1]["plans"] = ["sha256:0"]

    found = check(read_stored(_published(folder, other)), locate, how=How(1))
    assert found.failures == ()
    (note,) = found.notes
    assert "the plans of 1 cells are not those measured" in note


def test_an_error_larger_than_the_margin_in_one_cell_fails(folder: Path, locate: Callable[[str], Path]) -> None:
    def farther(data: dict[str, Any]) -> None:
        cell = data["cells"][2]
        cell["values"]["goodput.aggregate.mean"][1] *= 1.5
        cell["chance"] = {}

    (text,) = [t for t in check(read_stored(_published(folder, farther)), locate, how=How(1)).failures if " at " in t]
    assert text.startswith("goodput_error: from 0")


def test_an_error_within_chance_does_not(folder: Path, locate: Callable[[str], Path]) -> None:
    def chancy(data: dict[str, Any]) -> None:
        cell = data["cells"][2]
        cell["values"]["goodput.aggregate.mean"][1] *= 1.5
        cell["chance"] = {"goodput_error": 0.5}

    failures = check(read_stored(_published(folder, chancy)), locate, how=How(1)).failures
    assert [t for t in failures if " at " in t] == []


def test_cells_that_do_not_exist_any_more_are_an_error(folder: Path, locate: Callable[[str], Path]) -> None:
    def gone(data: dict[str, Any]) -> None:
        data["cells"][0]["factors"]["cc"] = "vegas"

    with pytest.raises(StudyError, match="1 of its cells do not exist"):
        check(read_stored(_published(folder, gone)), locate, how=How(1))


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 1, "cells": []}', '{"format": 1, "cells": [{}]}'])
def test_what_is_no_document_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(StudyError, match=r"x\.json"):
        read_stored(path)
    with pytest.raises(StudyError, match="No such file"):
        read_stored(tmp_path / "none.json")

"""Trials that an interrupted characterisation of a real switch leaves, and the next call that continues after them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weir.study.switches import BetweenRig, KeptTrials, Stream, Trial

A, B = {"end_ns": 1, "token": 0}, {"end_ns": 2, "token": 0}


def seen(number: int) -> Callable[[], dict[str, Any]]:
    return lambda: {"sent": [[number]]}


def not_again() -> dict[str, Any]:
    raise AssertionError("it was executed before")


def test_each_execution_of_a_trial_is_kept_by_itself_and_in_order(tmp_path: Path) -> None:
    first = KeptTrials(tmp_path / "trials")
    assert (first.left, first.until) == (0, None)
    assert [first.execution(trial, seen(n))["sent"] for n, trial in enumerate((A, B, A))] == [[[0]], [[1]], [[2]]]
    second = KeptTrials(tmp_path / "trials")
    assert second.left == 3
    assert second.until is not None
    assert [second.execution(trial, not_again)["sent"] for trial in (B, A, A)] == [[[1]], [[0]], [[2]]]
    assert second.execution(A, seen(3)) == {"sent": [[3]]}, "a third execution is new"


def test_a_file_that_says_nothing_is_no_trial(tmp_path: Path) -> None:
    KeptTrials(tmp_path).execution(A, seen(0))
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-9])
    assert KeptTrials(tmp_path).execution(A, seen(1)) == {"sent": [[1]]}
    assert KeptTrials(tmp_path).execution(A, not_again) == {"sent": [[1]]}


def test_an_interrupted_execution_leaves_nothing_and_anew_removes_all(tmp_path: Path) -> None:
    kept = KeptTrials(tmp_path / "trials")
    kept.execution(A, seen(0))

    def interrupted() -> dict[str, Any]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kept.execution(B, interrupted)
    assert KeptTrials(tmp_path / "trials").left == 1
    assert KeptTrials(tmp_path / "trials", anew=True).left == 0
    assert not (tmp_path / "trials").exists()


class Counting(BetweenRig):
    """Ports of no switch, whose testers count their trials; their clocks are apart by their number."""

    def __init__(self, kept: KeptTrials) -> None:
        self.rate_bps, self.overhead_bytes, self.retries, self.inputs = 1e9, 38, 0, 3
        self.accuracy, self.trials, self.repeated, self.late = [], 0, 0, 0
        self.interfaces, self.clock_error_ns, self.kept, self.executed = [], 0, kept, 0

    def _run(self, trial: Trial) -> dict[str, Any]:
        self.executed += 1
        self.clock_error_ns = 7 * self.executed
        return {"sent": [[0, 10]], "due": [[0, 10]], "refused": [[]], "received": [[[1, 20 + self.executed]]]}


def test_a_rig_takes_kept_executions_for_its_own(tmp_path: Path) -> None:
    trials = [Trial((Stream(0, 0, 1e9, 1500, 0, 20),), end) for end in (50, 60, 50)]
    first, second = Counting(KeptTrials(tmp_path)), Counting(KeptTrials(tmp_path))
    whole = [first.observe(trial).received[0].tolist() for trial in trials]
    assert whole == [[-1, 21], [-1, 22], [-1, 23]]
    assert [second.observe(trial).received[0].tolist() for trial in trials] == whole
    assert (first.executed, second.executed) == (3, 0)
    assert second.summary == first.summary
    assert second.clock_error_ns == 21

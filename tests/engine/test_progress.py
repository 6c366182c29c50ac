"""Progress: what is counted, what is estimated, and what is said."""

from __future__ import annotations

from pathlib import Path

import fake
import pytest

from weir import engine
from weir.engine._display import Lines, display, span
from weir.engine._tally import Tally, Work

S = 1_000_000_000


def test_time_left_goes_by_work_and_not_by_cells() -> None:
    tally = Tally({"big": Work(900, 10 * S), "small": Work(100, 10 * S)}, begin_s=100.0)
    assert tally.left_s(101.0) is None
    tally.progress("small", 10 * S)
    tally.finish("small", ok=True)
    assert tally.left_s(102.0) == pytest.approx(2.0 * 9)
    tally.progress("big", 5 * S)
    assert tally.fraction == pytest.approx(0.55)
    assert tally.left_s(111.0) == pytest.approx(11 * 0.45 / 0.55)
    assert tally.simulated_s == 15
    assert tally.real_time_factor(105.0) == pytest.approx(3.0)
    tally.finish("big", ok=False)
    assert (tally.done, tally.failed, tally.left_s(120.0)) == (1, 1, 0)


@pytest.mark.parametrize(("seconds", "text"), [(None, "-:--"), (0.4, "0:00"), (61, "1:01"), (3725.2, "1:02:05")])
def test_spans(seconds: float | None, text: str) -> None:
    assert span(seconds) == text


def test_without_a_terminal_there_are_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = display(verbose=True)
    assert isinstance(chosen, Lines)
    monkeypatch.setattr("weir.engine._display._LINE_EVERY_S", 0.0)
    tally = Tally({"a": Work(10, 10 * S)}, begin_s=0.0)
    tally.progress("a", 5 * S)
    chosen.update(tally)
    chosen.ended("a", 2.0, tally)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("0/1 cells, 5 s simulated, ")
    assert second == "a: done in 0:02"


def test_quiet_shows_nothing_but_notes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = display(quiet=True)
    engine.run(fake.scenario("rows=10", "refuse"), tmp_path / "r", method=fake.METHOD, display=shown)
    assert capsys.readouterr().err == "cell c1 (n = 1) failed: flows[0]: no such congestion control\n"


def test_the_longest_cell_goes_first(tmp_path: Path) -> None:
    ended: list[str] = []

    class Recorder(Lines):
        def ended(self, cell: str, wall_s: float | None, tally: Tally) -> None:
            ended.append(cell)

    titles = ("seconds=10", "seconds=30", "seconds=20")
    engine.run(fake.scenario(*titles), tmp_path / "r", method=fake.METHOD, workers=1, display=Recorder())
    assert ended == ["c1", "c2", "c0"]

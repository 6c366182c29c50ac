"""Progress: counts, estimates and messages."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path

import fake
import pytest
from rich.console import Console

from shared import dumbbell
from weir import engine
from weir._duration import clock_text
from weir.cli.run import command
from weir.engine import _live
from weir.engine._display import Lines, display
from weir.engine._tally import Tally, Work
from weir.methods import Live, LiveFlow, LiveLink, Upcoming

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
    assert tally.reached_s == 15
    assert tally.real_time_factor(105.0) == pytest.approx(3.0)
    tally.finish("big", ok=False)
    assert (tally.done, tally.failed, tally.left_s(120.0)) == (1, 1, 0)


@pytest.mark.parametrize(("seconds", "text"), [(None, "-:--"), (0.4, "0:00"), (61, "1:01"), (3725.2, "1:02:05")])
def test_spans(seconds: float | None, text: str) -> None:
    assert clock_text(seconds) == text


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


def test_what_takes_long_after_the_last_cell_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny.yaml").write_text(dumbbell("duration: 1s\n", workload="name: a, between: pairs, kind: bulk"))
    monkeypatch.setattr("weir.cli.run._LONG_S", 0.05)
    monkeypatch.setattr("weir.cli.run.verdicts_of", lambda *_: time.sleep(0.5) or [])
    monkeypatch.setattr("weir.report.build", lambda *_, **__: None)
    command.main([str(tmp_path / "tiny.yaml"), "--method", "sim", "-o", str(tmp_path / "run")], standalone_mode=False)
    assert capsys.readouterr().err == "judging the claims\n", "and not of the report, which is quick"


def test_on_a_real_clock_nothing_is_simulated(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weir.engine._display._LINE_EVERY_S", 0.0)
    tally = Tally({"a": Work(10, 10 * S)}, begin_s=0.0, real=True)
    tally.progress("a", 5 * S)
    Lines().update(tally)
    said = capsys.readouterr().err
    assert said.startswith("0/1 cells, 5 s measured, ")
    assert "simulated" not in said
    assert "real time" not in said


LIVE = Live(
    now_ns=12 * S,
    end_ns=60 * S,
    flows=(LiveFlow("a", 94.1e6, 40, 21_500_000, 3), LiveFlow("b")),
    more_flows=5,
    total_goodput_bps=188e6,
    links=(LiveLink("bottleneck", 120_000, 200e6, 7),),
    upcoming=(Upcoming(15 * S, "c starts"), Upcoming(60 * S, "end")),
)


def test_a_run_in_real_time_tells_what_goes_on_and_what_comes_next(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weir.engine._display._LINE_EVERY_S", 0.0)
    tally = Tally({"a": Work(10, 60 * S)}, begin_s=0.0)
    tally.progress("a", 12 * S, LIVE)
    Lines().update(tally)
    said = capsys.readouterr().err.strip()
    assert said == (
        "0/1 cells, 12.0 of 60 s, 7 flows 188 Mb/s, bottleneck: queue 120 kB, next: c starts in 3 s; end in 48 s"
    )
    tally.finish("a", ok=True)
    assert tally.live is None


def test_on_a_terminal_there_is_a_table() -> None:
    console = Console(width=100, file=io.StringIO())
    console.print(_live.screen(LIVE, rows=1))
    assert isinstance(console.file, io.StringIO)
    lines = [" ".join(line.split()) for line in console.file.getvalue().splitlines()]
    assert lines == [
        "flow goodput cwnd RTT retransmitted",
        "a 94.1 Mb/s 40 21.5 ms 3",
        "all, 6 not shown 188 Mb/s",
        "link bottleneck 200 Mb/s queue 120 kB 7 dropped",
        "next: c starts in 3 s; end in 48 s",
    ]


def test_what_comes_next_may_be_wider_than_the_table() -> None:
    upcoming = (Upcoming(15 * S, "phase with-a-long-name begins"), Upcoming(60 * S, "four flows stop"))
    live = Live(12 * S, 60 * S, (LiveFlow("a"),), 0, 0.0, upcoming=upcoming)
    console = Console(width=100, file=io.StringIO())
    console.print(_live.screen(live, rows=5))
    assert isinstance(console.file, io.StringIO)
    last = console.file.getvalue().splitlines()[-1]
    assert last == "next: phase with-a-long-name begins in 3 s; four flows stop in 48 s"


def test_more_flows_than_lines_are_shown_by_entry_of_the_workload() -> None:
    streams = [LiveFlow(f"streams[0].{n}", 1e6, 10 + n, (20 + n) * 1_000_000, 1) for n in range(40)]
    udp = [LiveFlow(f"udp[{n}]", 50e6) for n in range(2)]
    live = Live(12 * S, 60 * S, (LiveFlow("one[0]", 2e6, 7, 30_000_000, 4), *streams, *udp), 3, 142e6)
    console = Console(width=100, file=io.StringIO())
    console.print(_live.screen(live, rows=5))
    console.print(_live.screen(live, rows=1))
    assert isinstance(console.file, io.StringIO)
    lines = [" ".join(line.split()) for line in console.file.getvalue().splitlines()]
    assert lines[1:5] == [
        "one[0] 2 Mb/s 7 30.0 ms 4",
        "streams x 40 40 Mb/s 30 39.5 ms 40",
        "udp x 2 100 Mb/s - - -",
        "all, 3 not shown 142 Mb/s",
    ]
    assert lines[-1] == "all, 45 not shown 142 Mb/s"


def test_what_there_is_to_see_survives_the_way_to_the_parent() -> None:
    assert Live.from_json(json.loads(json.dumps(LIVE.to_json()))) == LIVE


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

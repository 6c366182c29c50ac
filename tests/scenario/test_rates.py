"""Traces of rates: CSV files and packet-delivery traces become changes of a link."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from weir.scenario import ScenarioError, load
from weir.scenario._rates import RateError, Step, steps_of

SCENARIO = """
title: A trace drives a link
topology:
  dumbbell: {pairs: 1, access: {rate: 1Gbps}, bottleneck: {rate: 12Mbps, queue: 200ms}, rtt: 40ms}
transport: {cc: reno}
workload: [{name: flow, kind: bulk, between: pairs, until: 10s}]
measure: {goodput: 500ms, tcp: 100ms, links: 500ms}
changes:
"""

MS = 1_000_000
S = 1000 * MS


def plan(folder: Path, changes: str, trace: str = "", name: str = "trace") -> dict[str, Any]:
    if trace:
        (folder / name).write_text(trace)
    (folder / "s.yaml").write_text(f"{SCENARIO}  - {changes}\n")
    (cell,) = load(folder / "s.yaml").cells()
    return dict(cell.plan())


def rates(folder: Path, changes: str, trace: str) -> list[tuple[int, int]]:
    found = plan(folder, changes, trace)
    assert all(change["change"]["kind"] == "rate" for change in found["changes"])
    return [(change["at_ns"], change["change"]["rate_bps"]) for change in found["changes"]]


def problem(folder: Path, changes: str, trace: str = "") -> str:
    with pytest.raises(ScenarioError) as error:
        plan(folder, changes, trace)
    return str(error.value)


def test_a_csv_file_has_instants_and_rates(tmp_path: Path) -> None:
    text = "time,rate\n# a comment\n0, 12Mbps\n1.5, 3000000\n2500ms, 0\n4, 12.5Mbps\n"
    once = "{at: 1s, link: bottleneck, rates: {file: trace, repeat: false}}"
    assert rates(tmp_path, once, text) == [
        (1 * S, 12_000_000), (2500 * MS, 3_000_000), (3500 * MS, 0), (5 * S, 12_500_000),
    ]  # fmt: skip


def test_a_trace_begins_again_at_its_end(tmp_path: Path) -> None:
    # The last rate holds as long as the one before it, two seconds: a trace of four.
    again = rates(tmp_path, "{at: 0s, link: bottleneck, rates: trace}", "0,8e6\n2,4e6\n")
    assert again == [(0, 8_000_000), (2 * S, 4_000_000), (4 * S, 8_000_000), (6 * S, 4_000_000), (8 * S, 8_000_000)]


def test_packets_of_an_interval_give_its_rate(tmp_path: Path) -> None:
    # Ten packets in the first 100 ms, one in the second, none in the third, three in the last 50 ms.
    instants = [0, *range(10, 91, 10), 150, 310, 320, 350]
    text = "\n".join(map(str, instants))
    bits = (1500 + 38) * 8
    found = rates(tmp_path, "{at: 0s, link: bottleneck, rates: {file: trace, repeat: false}}", text)
    assert found == [(0, bits * 100), (100 * MS, bits * 10), (200 * MS, 0), (300 * MS, bits * 60)]
    every = rates(tmp_path, "{at: 0s, link: bottleneck, rates: {file: trace, every: 350ms, repeat: false}}", text)
    assert every == [(0, round(len(instants) * bits / 0.35))]


def test_a_repeated_packet_trace_delivers_as_many_packets_as_it_has(tmp_path: Path) -> None:
    text = "\n".join(str(7 * i * i % 23 + 23 * i) for i in range(1, 60))
    last = int(text.rsplit("\n", 1)[1])
    (tmp_path / "trace").write_text(text)
    found = steps_of(
        tmp_path / "trace", every_ns=50 * MS, packet_bytes=1538, until_ns=10 * last * MS, repeat=True, most=10**6
    )
    ends = [*(step.at_ns for step in found[1:]), 10 * last * MS]
    bits = sum(step.rate_bps * (end - step.at_ns) / S for step, end in zip(found, ends, strict=True))
    assert bits == pytest.approx(10 * 59 * 1538 * 8, rel=1e-6)


def test_the_simulated_link_delivers_what_the_trace_allows(tmp_path: Path) -> None:
    import weir

    (tmp_path / "trace").write_text("0,10Mbps\n2,2Mbps\n4,0\n5,10Mbps\n8,10Mbps\n")
    (tmp_path / "s.yaml").write_text(
        f"{SCENARIO}  - {{at: 0s, link: bottleneck, rates: {{file: trace, repeat: false}}}}\n"
    )
    run = weir.execute(tmp_path / "s.yaml", tmp_path / "run", method="sim")
    rows = run.table("links").select("time_ns", "link", "out_bytes", "out_packets").collect()
    link = next(i for i, one in enumerate(run.cells[0].plan.links) if one.name == "bottleneck")
    sent = {t: 8 * (b + 38 * p) / 0.5 for t, n, b, p in rows.iter_rows() if n == link}
    for second, rate in ((1.5, 10e6), (3.0, 2e6), (4.0, 2e6), (7.0, 10e6), (10.0, 10e6)):
        assert sent[int(second * S)] == pytest.approx(rate, rel=0.02)
    assert sent.get(5 * S, 0) == 0


def test_other_changes_keep_their_order(tmp_path: Path) -> None:
    (tmp_path / "trace").write_text("0,10Mbps\n2,2Mbps\n4,10Mbps\n")
    more = "{at: 3s, link: bottleneck, loss: 1%}\n  - {at: 0s, link: bottleneck, rates: {file: trace, repeat: false}}"
    kinds = [(c["at_ns"] // S, c["change"]["kind"]) for c in plan(tmp_path, more)["changes"]]
    assert kinds == [(0, "rate"), (2, "rate"), (3, "loss"), (4, "rate")]


TRACE = "{at: 0s, link: bottleneck, rates: trace}"


@pytest.mark.parametrize(
    ("trace", "said"),
    [
        ("0,fast\n", "trace, line 1: expected a rate such as 12500000 (bit/s) or 12.5Mbps, found 'fast'"),
        ("0,1Mbps\n1s,2Mbps\n1,3Mbps\n", "line 3: the instant 1 is not after"),
        ("0,1Mbps,9\n", "line 1: expected an instant and a rate, found 3"),
        ("0,-5\n", "line 1: expected a rate"),
        ("0,12.5\n1,8\n", "no rate is above 12 bit/s; a bare number is in bit/s, others have units: 12.5Mbps"),
        ("1\n2\nx\n", "line 3: expected an instant in whole milliseconds"),
        ("5\n3\n", "line 2: the instant 3 is before"),
        ("0\n0\n", "ends at 0 ms"),
        ("# nothing\n", "has no line"),
        ("0,1Mbps\n0.00001,2Mbps\n", "more than 100000 times"),
    ],
)
def test_mistakes_in_a_trace_say_where_they_are(tmp_path: Path, trace: str, said: str) -> None:
    text = problem(tmp_path, TRACE, trace)
    assert said in text
    assert "s.yaml:" in text


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ("{at: 0s, link: bottleneck, rates: none}", "there is no file"),
        ("{at: [0s, 1s], link: bottleneck, rates: trace}", "begins at one instant"),
        ("{at: 0s, link: bottleneck, rate: 1Mbps, rates: trace}", "begins at one instant"),
        ("{at: 0s, link: bottleneck, rates: {file: trace, every: 10us}}", "1 ms at least"),
        ("{at: 0s, link: bottleneck, rates: {file: trace, every: 10ms}}", "trace has instants of its own"),
    ],
)
def test_mistakes_in_a_scenario_say_where_they_are(tmp_path: Path, changes: str, said: str) -> None:
    text = problem(tmp_path, changes, "0,1Mbps\n")
    assert said in text
    assert "s.yaml:" in text


def test_files_that_are_no_text_or_no_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    given = {"every_ns": MS, "packet_bytes": 1538, "until_ns": S, "repeat": True, "most": 9}
    for path, said in ((tmp_path / "binary", "no text"), (tmp_path, "is not a file")):
        with pytest.raises(RateError, match=said):
            steps_of(path, **given)
    (tmp_path / "one").write_text("0.5,1Mbps\n")
    assert steps_of(tmp_path / "one", **given) == [Step(500 * MS, 10**6)]

"""Untrusted programs in the lab: counted like any traffic, with the same results each time."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from shared import Memory, execute
from weir import scenario
from weir.lab import Kernel
from weir.run.tables import TABLES

_SCENARIO = """\
title: Programs
seed: 1
topology:
  dumbbell:
    pairs: 2
    access: {rate: 100Mbps}
    bottleneck: {rate: 5Mbps, queue: {droptail: {size: 1bdp}}}
    rtt: 20ms
transport: {cc: cubic, buffers: 500kB}
workload:
  - {name: probe, kind: iperf3, between: "pairs[0]", until: 3s}
  - {name: voice, kind: iperf3, between: "pairs[1]", udp: true, rate: 500kbps, packet: 528B, until: 3s}
duration: 3s
measure: {goodput: 500ms, tcp: 50ms, links: 50ms}
"""


def run() -> tuple[Memory, tuple[str, ...]]:
    plan = scenario.parse(_SCENARIO).cells()[0].plan()
    sink, outcome = execute("lab", plan)
    assert outcome.warnings == ()
    return sink, outcome.notes


@pytest.mark.skipif(shutil.which("iperf3") is None, reason="iperf3 is not installed")
def test_iperf3_runs_in_the_lab(kernel: Kernel, tmp_path: Path) -> None:
    sink, notes = run()
    assert len(notes) == 1
    assert "wake-ups" in notes[0], "the price of programs is said"
    flows = sink.columns("flows")
    probe, voice = flows["flow"].index(0), flows["flow"].index(1)
    assert flows["lost_packets"][probe] == flows["retransmitted_packets"][probe]
    # TCP's remainder of 5 Mb/s beside 0.5 Mb/s of datagrams, except for the beginning.
    assert 1_200_000 < flows["delivered_bytes"][probe] < 1_690_000
    assert 100_000 < flows["delivered_bytes"][voice] <= flows["sent_bytes"][voice] + 5_000
    goodput = sink.columns("goodput")
    # iperf3 takes some round trips to agree with its server; from then on its datagrams come at their rate.
    steady = [
        size
        for at, flow, size in zip(goodput["time_ns"], goodput["flow"], goodput["delivered_bytes"], strict=True)
        if flow == 1 and 1_000_000_000 <= at <= 2_500_000_000
    ]
    assert len(steady) == 4
    assert all(abs(size - 500_000 / 528 * 500 / 16) < 4_000 for size in steady), steady
    ended = json.loads(sink.files["commands.json"].getvalue())
    assert [(fact["flow"], fact["peer"]) for fact in ended] == [
        *(("probe[0]", False), ("probe[0]", True), ("voice[0]", False), ("voice[0]", True))
    ]
    report = json.loads(sink.files["commands/probe[0].json"].getvalue())
    assert report["end"]["sender_tcp_congestion"] == "weir_cubic", "weir's own, by the name that the kernel knows"
    again, _ = run()
    for name in (name for name, table in TABLES.items() if not table.optional):
        assert again.table(name).equals(sink.table(name)), name

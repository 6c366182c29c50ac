"""ECN in the lab: both ends agree on a flow's ECN setting, or the cell fails."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from lab_support import plan

from shared import Memory, execute
from weir.lab import Kernel
from weir.methods import MethodError

_TARGET_BYTES = 20e6 / 8 * 2e-3
"""Bytes that wait in 2 ms at 20 Mb/s, the queue's marking threshold."""
_MARKING = "topology.dumbbell.bottleneck.queue={codel: {size: 1bdp, target: 2ms, interval: 4ms, ecn: true}}"


def marking(folder: Path, *changes: str, cc: str = "linux:dctcp", ecn: str = "true") -> dict[str, Any]:
    """Two flows through a queue that marks from two milliseconds on."""
    return plan(folder, f"transport.cc={cc}", f"transport.ecn={ecn}", _MARKING, *changes)


def totals(sink: Memory, *columns: str) -> list[int]:
    return [sum(sink.columns("flows")[column]) for column in columns]


def mean_queue(sink: Memory) -> float:
    links = sink.columns("links")
    rows = zip(links["time_ns"], links["link"], links["queue_bytes"], strict=True)
    waiting = [size for at, link, size in rows if link == 0 and at > 2_000_000_000]
    return sum(waiting) / len(waiting)


def test_dctcp_is_marked_and_loses_nothing(kernel: Kernel, tmp_path: Path) -> None:
    """Its listener uses DCTCP too: others refuse a request that is itself ECN-capable, and echo marks differently."""
    sink, outcome = execute("lab", marking(tmp_path))
    marked, lost, again = totals(sink, "marked_packets", "lost_packets", "retransmitted_packets")
    assert (lost, again, outcome.warnings) == (0, 0, ())
    assert marked > 100
    # Each mark takes a share of the window, not half of it: the queue stays at the threshold, and the link busy.
    assert 0.5 * _TARGET_BYTES < mean_queue(sink) < 3 * _TARGET_BYTES
    assert sum(sink.columns("flows")["delivered_bytes"]) > 0.9 * 6 * 20e6 / 8 * 1448 / 1538


def test_without_ecn_the_kernel_has_another_congestion_control_and_says_so(kernel: Kernel, tmp_path: Path) -> None:
    with pytest.raises(MethodError, match=r"flow a\[0\]: .* replaced the congestion control dctcp by dctcp-reno"):
        execute("lab", marking(tmp_path, ecn="false"))


@pytest.mark.parametrize("cc", ["linux:cubic", "cubic"])
def test_others_are_marked_too(kernel: Kernel, tmp_path: Path, cc: str) -> None:
    sink, outcome = execute("lab", marking(tmp_path, cc=cc))
    marked, lost = totals(sink, "marked_packets", "lost_packets")
    assert (lost, outcome.warnings) == (0, ())
    assert marked > 10


@pytest.mark.skipif(shutil.which("iperf3") is None, reason="iperf3 is not installed")
def test_a_program_of_others_is_marked(kernel: Kernel, tmp_path: Path) -> None:
    iperf3 = "workload.a={name: a, kind: iperf3, between: pairs, until: 2s}"
    sink, _ = execute("lab", marking(tmp_path, iperf3, "duration=2s"))
    marked, lost = totals(sink, "marked_packets", "lost_packets")
    assert lost == 0
    assert marked > 30

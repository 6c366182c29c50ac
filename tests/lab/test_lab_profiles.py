"""Rate profiles in the lab: Linux sends by the profile as the simulator does."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared import execute
from weir.cli._scenarios import load
from weir.lab import Kernel

_PACKET_NS = 1500 * 8 * 1_000_000_000 // 1_200_000
"""Ten milliseconds: a packet at the first rate."""

_SCENARIO = """
title: A step of a profile
seed: 1
topology: {{dumbbell: {{pairs: 1, access: {{rate: 100Mbps}}, bottleneck: {{rate: 20Mbps, queue: 20kB}}, rtt: 20ms}}}}
transport: {{cc: {cc}, buffers: 1.3MB}}
workload:
  - name: file
    kind: transfer
    between: pairs
    start: 100ms
    size: {size}
    profile: [{{rate: 1.2Mbps}}, {{at: 1s, rate: 12Mbps}}, {{at: 2s, rate: 6Mbps}}]
duration: 6s
measure: {{goodput: 100ms, tcp: 10ms, links: 100ms}}
"""


def rows(method: str, tmp_path: Path, **values: str) -> tuple[dict[str, int], dict[int, int], list[int]]:
    """The transfer, the bytes acknowledged at each instant of `measure.tcp`, and the pacing rates, by ``method``."""
    path = tmp_path / "scenario.yaml"
    path.write_text(_SCENARIO.format(**values), encoding="utf-8")
    sink, _ = execute(method, load(str(path), quiet=True).cells()[0].plan())
    samples = sink.table("samples")
    (transfer,) = sink.table("flows").to_pylist()
    acked = dict(zip(samples["time_ns"].to_pylist(), samples["acked_bytes"].to_pylist(), strict=True))
    return transfer, acked, samples["pacing_rate_bps"].to_pylist()


@pytest.mark.parametrize("cc", ["constant", "reno"])
def test_a_transfer_ends_when_its_profile_says(kernel: Kernel, tmp_path: Path, cc: str) -> None:
    # 100 packets until the first step, 1000 until the second, and 500 more.
    size = f"{1600 * 1448}B"
    (simulated, _, _), (real, _, rates) = (rows(method, tmp_path, cc=cc, size=size) for method in ("sim", "lab"))
    assert real["retransmitted_packets"] == simulated["retransmitted_packets"] == 0
    # A step up takes effect at an acknowledgement, which comes after two packets of the lower rate.
    late = real["end_ns"] - simulated["end_ns"]
    assert -_PACKET_NS <= late <= 2 * _PACKET_NS * 2, late
    told = {round(rate / 1e5) for rate in rates}
    # The payload of the profile; after the step, Linux paces by Reno's window until it has grown.
    assert told >= {12, 116, 58}
    assert max(told) == 116
    assert cc == "reno" or len(told) == 3


def test_the_first_ten_segments_are_spaced_too(kernel: Kernel, tmp_path: Path) -> None:
    (_, simulated, _), (transfer, acked, _) = (
        rows(method, tmp_path, cc="constant", size=f"{30 * 1448}B") for method in ("sim", "lab")
    )
    # Linux alone would send them at once: after 20 ms, 14 kB were acknowledged.
    both = simulated.keys() & acked.keys()
    assert len(both) > 25
    assert max(abs(simulated[at] - acked[at]) for at in both) <= 2 * 1448
    assert transfer["end_ns"] - transfer["start_ns"] >= 28 * _PACKET_NS


_FIRST = """
title: Two transfers over one connection
seed: 1
topology: {{dumbbell: {{pairs: 1, access: {{rate: 100Mbps}}, bottleneck: {{rate: 100Mbps, queue: 1MB}}, rtt: 100ms}}}}
transport: {{cc: {{name: constant, window: 600}}, buffers: 2MB}}
workload:
  - name: file
    kind: transfer
    between: pairs
    size: 500kB
    count: 2
    wait: 1s
    keep_connection: true
    profile: {rate}
duration: 7s
measure: {{goodput: 100ms, tcp: 100ms, links: 100ms}}
"""


def test_a_sender_waits_once_for_an_acknowledgement_of_its_first_64_kb(kernel: Kernel, tmp_path: Path) -> None:
    """In both methods, if it is fast enough to send more than that in a round trip."""
    longer = {}
    for mbps in (3, 20):
        path = tmp_path / "scenario.yaml"
        path.write_text(_FIRST.format(rate=f"{mbps}Mbps"), encoding="utf-8")
        plan = load(str(path), quiet=True).cells()[0].plan()
        took = [[row["end_ns"] - row["start_ns"] for row in execute(method, plan)[0].table("flows").to_pylist()]
                for method in ("sim", "lab")]  # fmt: skip
        assert took[0] == pytest.approx(took[1], abs=4e6)
        longer[mbps] = took[0][0] - took[0][1]
    # The round-trip time, less the time of 65535 bytes of payload, in packets with 1448 of 1500.
    wait = (0.1 - 65_535 * 8 * 1500 / 1448 / 20e6) * 1e9
    assert longer[20] - longer[3] == pytest.approx(wait, abs=4e6)

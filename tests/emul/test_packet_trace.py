"""A link that a trace of packet deliveries drives, through this host's kernel and the emulator."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from emul_support import needs_emul, remains_of

from shared import execute
from weir import scenario

pytestmark = needs_emul()

_SCENARIO = """
title: A trace drives the bottleneck
seed: 1
topology:
  dumbbell: {pairs: 1, access: {rate: 100Mbps}, bottleneck: {rate: 6Mbps, queue: 2bdp}, rtt: 40ms}
transport: {cc: cubic}
workload: [{name: flows, between: pairs, kind: bulk, until: 4s}]
changes:
  - {at: 0s, link: bottleneck, rates: down.trace}
"""


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert remains_of({os.getpid()}) == []


def test_the_check_of_the_network_precedes_the_trace(tmp_path: Path) -> None:
    """The trace has 12 Mb/s for 2 s and 3 Mb/s for 2 s; the network's check expects the link's rate, 6 Mb/s."""
    instants = [*range(1, 2001), *range(2004, 4001, 4)]
    (tmp_path / "down.trace").write_text("".join(f"{instant}\n" for instant in instants), encoding="ascii")
    (tmp_path / "scenario.yaml").write_text(_SCENARIO, encoding="utf-8")
    plan = scenario.load(tmp_path / "scenario.yaml").cells()[0].plan()
    delivered = [execute(method, plan)[0].columns("flows")["delivered_bytes"][0] for method in ("sim", "emul")]
    assert delivered[1] == pytest.approx(delivered[0], rel=0.1)
    # 15 Mb/s for a second; the rate before the trace would be 12.
    assert delivered[0] > 0.8 * 30e6 / 8

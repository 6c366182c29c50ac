"""Rates of token buckets that change, through this host's kernel and the emulator, at a few Mb/s."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from emul_support import needs_emul, remains_of

from shared import changing, execute, plan_of

pytestmark = needs_emul()

_HTB = "{htb: {classes: {af: {dscp: af11, rate: 8Mbps, queue: 9packets}, be: {rate: 4Mbps, queue: 9packets}}}}"


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert remains_of({os.getpid()}) == []


def wire_mbps(method: str, plan: dict[str, Any]) -> list[float]:
    """Of each class, before and after the change, without the half second after the begin and the change."""
    rows = execute(method, plan)[0].columns("classes")
    sent = [0, 0, 0, 0]
    columns = (rows[name] for name in ("time_ns", "link", "class", "out_bytes", "out_packets"))
    for time, link, number, size, packets in zip(*columns, strict=True):
        if link == 0 and time % 2_000_000_000 > 500_000_000:
            sent[2 * number + (time > 2_000_000_000)] += 8 * (size + 38 * packets)
    return [bits / 1.5e6 for bits in sent]


def test_classes_have_their_new_rates_as_in_the_simulator() -> None:
    """A busy machine starves a sender for a time, which a tenth allows for; no class passes its ceiling."""
    made = plan_of(
        changing(
            queue=_HTB,
            change="class_rates: {af: 2Mbps, be: {rate: 4Mbps, ceil: 9Mbps}}",
            access="50Mbps",
            each="15Mbps",
        )
    )
    expected = [8, 2, 4, 9]
    assert wire_mbps("sim", made) == pytest.approx(expected, rel=0.07)
    assert wire_mbps("emul", made) == pytest.approx(expected, rel=0.12)


def test_a_shaper_passes_the_checks_of_the_network_and_gets_its_new_rate() -> None:
    """The network's check sends trains of packets, which a shaper holds back; it says that it did not."""
    made = plan_of(
        changing(
            queue="{tbf: {rate: 8Mbps, queue: 9packets}}", change="queue_rate: 3Mbps", access="50Mbps", each="15Mbps"
        )
    )
    run, _ = execute("emul", made)
    rows = run.columns("links")
    sent = [0, 0]
    columns = (rows[name] for name in ("time_ns", "link", "out_bytes", "out_packets"))
    for time, link, size, packets in zip(*columns, strict=True):
        if link == 0 and time % 2_000_000_000 > 500_000_000:
            sent[time > 2_000_000_000] += 8 * (size + 38 * packets)
    assert [bits / 1.5e6 for bits in sent] == pytest.approx([8, 3], rel=0.12)
    assert "tbf may pass less than the link transmits" in run.text("selfcheck.json")

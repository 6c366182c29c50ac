"""The self-check's expectations of probes, against values computed by hand."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from shared import plan_of
from weir.hosts.expectation import Probe, arrivals, delay_ns, jitter_ns, links_seen, loss_of, slack_ns
from weir.plan import Link, typed

MS = 1_000_000


def link(rate: int = 8_000_000, delay_ns: int = 10 * MS, **other: Any) -> Link:
    """A link that sends a byte per microsecond."""
    document = {
        "name": "a->b",
        "from": 0,
        "to": 1,
        "rate_bps": rate,
        "mtu_bytes": 1500,
        "overhead_bytes": 0,
        "delay": {"kind": "fixed", "delay_ns": delay_ns},
        "queue": {"kind": "droptail", "limit": {"bytes": None, "packets": 2}},
        **other,
    }
    return msgspec.convert(document, Link)


def test_one_packet_takes_transmission_and_delay() -> None:
    assert delay_ns([link()], [0], 1000) == 11 * MS
    assert delay_ns([link(overhead_bytes=38)], [0], 1000) == 11 * MS + 38_000
    assert delay_ns([link(), link(rate=4_000_000, delay_ns=MS)], [0, 1], 1000) == 11 * MS + 2 * MS + MS


def test_packets_queue_and_what_does_not_fit_is_dropped() -> None:
    probes = [Probe(0, (0,), 1000)] * 5
    # One is in transmission, two wait, and the limit does not count the first.
    assert arrivals([link()], probes) == [11 * MS, 12 * MS, 13 * MS, None, None]


def test_a_queue_empties_meanwhile() -> None:
    probes = [Probe(0, (0,), 1000)] * 3 + [Probe(1_000_000, (0,), 1000), Probe(1_000_001, (0,), 1000)]
    assert arrivals([link()], probes)[3:] == [14 * MS, None]


def test_a_limit_in_bytes_counts_the_wire() -> None:
    limit = {"kind": "droptail", "limit": {"bytes": 2100, "packets": None}}
    probes = [Probe(0, (0,), 1000)] * 4
    assert arrivals([link(queue=limit, overhead_bytes=50)], probes)[3] is None
    assert arrivals([link(queue=limit, overhead_bytes=51)], probes)[2] is None


def test_paths_meet_in_a_link() -> None:
    links = [link(delay_ns=0), link(delay_ns=0), link(delay_ns=0)]
    found = arrivals(links, [Probe(0, (0, 2), 1000), Probe(0, (1, 2), 1000)])
    assert found == [2 * MS, 3 * MS]


def test_slack_is_what_delays_may_deviate() -> None:
    varying = {"kind": "jitter", "delay_ns": MS, "reorder": False}
    jitter = link(delay={**varying, "jitter_ns": 5, "normal": True})
    uniform = link(delay={**varying, "jitter_ns": 7, "normal": False})
    reorder = link(delay={"kind": "reorder", "delay_ns": MS, "extra_ns": 100, "probability": 0.1})
    assert slack_ns([link(), jitter, uniform, reorder], [0, 1, 2, 3]) == 4 * 5 + 7 + 100


@pytest.mark.parametrize(
    ("memory", "pause", "kept"),
    [
        ({"kind": "shared", "bytes": 9000, "alpha": None}, None, 9000),
        ({"kind": "shared", "bytes": 9000, "alpha": 2.0}, None, 6000),
        ({"kind": "partitioned", "bytes": 5000}, None, 5000),
        ({"kind": "mixed", "reserved_bytes": 1000, "shared_bytes": 9000, "alpha": 0.5}, None, 4000),
        ({"kind": "mixed", "reserved_bytes": 1000, "shared_bytes": 9000, "alpha": None}, (2500, 2000), 2500),
    ],
)
def test_a_switch_keeps_what_its_memory_allows_one_queue(
    memory: dict[str, Any], pause: tuple[int, int] | None, kept: int
) -> None:
    """The longest queue with a threshold is ``alpha`` times what it leaves free (Choudhury and Hahne, equation 1)."""
    text = """
title: t
topology: {star: {hosts: 2, access: {rate: 8Mbps}, switch: fair}}
workload: [{name: f, kind: cbr, between: [h0, h1], rate: 1Mbps, until: 1s}]
"""
    document = plan_of(text)
    (switch,) = [node["switch"] for node in document["nodes"] if "switch" in node]
    switch["memory"], switch["jitter_ns"] = memory, 7
    switch["pause"] = pause and dict(zip(("high_bytes", "low_bytes"), pause, strict=True))
    plan = typed(document)
    path = plan.flows[0].path
    assert [links_seen(plan)[number].queue.limit.bytes for number in path] == [None, kept]
    assert jitter_ns(plan, path) == 7


def test_losses_of_a_path() -> None:
    half = link(loss={"kind": "bernoulli", "p": 0.5})
    found = loss_of([half, half], [0, 1])
    assert found is not None
    assert (found.probability, found.inflation) == (0.75, 1.0)
    gilbert = link(loss={"kind": "gilbert_elliott", "p": 0.01, "r": 0.09, "good": 0.0, "bad": 0.5})
    found = loss_of([gilbert], [0])
    assert found is not None
    assert found.probability == pytest.approx(0.05)
    assert found.inflation == pytest.approx(1.9 / 0.1)
    assert loss_of([link(loss={"kind": "list", "packets": [3]})], [0]) is None

"""Cells whose metrics can be computed on paper; ``test_values.py`` has the answers.

Packets are 1448 B of payload, 1500 B of IP, 1538 B on the wire. The base RTT of the default link (1 Gb/s, 5 ms each
way) is 10 ms + (1538 + 52 + 38) · 8 ns = 10.013024 ms.
"""

from __future__ import annotations

from collections.abc import Sequence

from .synthetic import MS, CellSpec, FlowSpec, LinkSpec, nested_classes, two_classes

FAST = 10**12
"""A rate at which transmission takes negligible time."""
CODEL = {
    "kind": "codel",
    "limit": {"packets": 1000},
    "codel": {"target_ns": 5 * MS, "interval_ns": 100 * MS, "mark": "drop"},
}

RED = {
    "kind": "red",
    "limit": {"packets": 1000},
    "curves": [{"dscp_from": 0, "dscp_to": 63, "min_bytes": 15_380, "max_bytes": 169_180, "max_p": 0.1}],
    "weight": 0.002,
    "gentle": True,
    "mark": "drop",
}
"""A slope of 0.001 a packet of 1538 B."""


def _counter(*per_sample: tuple[int, float]) -> list[int]:
    """A cumulative counter: (number of samples, growth in each) one after another."""
    found, total = [], 0.0
    for number, growth in per_sample:
        for _ in range(number):
            total += growth
            found.append(round(total))
    return found


_PAIR = CellSpec([FlowSpec([100.0] * 10), FlowSpec([300.0] * 10, index=1)], phases={"early": (0, 5)})

_STEPS = CellSpec(
    [FlowSpec([100, 200, 300, 400], sent_mbps=[110, 220, 330, 440], start_s=2, stop_s=6)],
    phases={"late": (3.5, 6), "nothing": (7, 9)},
)

_SETTLE = CellSpec([FlowSpec([100.0] + [200.0] * 9)])

_ALTERNATE = CellSpec(
    [FlowSpec([100.0, 300.0, 0.0, 0.0]), FlowSpec([300.0, 100.0, 0.0, 200.0], index=1)],
    end_s=4,
    phases={"idle": (2, 3)},
)

_STREAMS = CellSpec(
    [FlowSpec([100.0] * 4, index=0), FlowSpec([100.0] * 4, index=1), FlowSpec([100.0] * 4, index=1, stream=1)],
    end_s=4,
)

_TRANSFERS = CellSpec(
    [
        FlowSpec(transfers=[(0, 2, 1_000_000), (2, 6, 1_000_000)]),
        FlowSpec(index=1, transfers=[(0, 1, 250_000), (4, None, 1_000_000)]),
    ],
    phases={"first": (0, 3)},
)

_PROFILE = CellSpec(
    [
        # 1000 packets of 1500 B: 6 Mbit in the first second, and the others in half a second.
        FlowSpec(transfers=[(0, 2, 1_448_000)], profile=[(0, 6_000_000), (1, 12_000_000)]),
        FlowSpec(index=1, transfers=[(0, 3, 1_448_000)]),
    ]
)

_PAGES = CellSpec(
    [
        # Page 0 from 0 to 3 s, over both connections; page 1 from 5 s on, whose second object did not end.
        FlowSpec(group="web", transfers=[(0, 1, 1000), (1, 2, 1000), (5, 6, 1000)], pages=[0, 0, 1]),
        FlowSpec(group="web", stream=1, transfers=[(1, 3, 1000), (6, None, 1000)], pages=[0, 1]),
        # Another user: 2 to 4 s, 9 to 9.5 s, and a page whose object was never requested.
        FlowSpec(
            group="web",
            index=1,
            transfers=[(2, 4, 1000), (9, 9.5, 1000), (9.6, 9.8, 1000), (9.8, None, 1000)],
            pages=[0, 1, 2, 2],
            unbegun=1,
        ),
        FlowSpec(transfers=[(0, 8, 1000)]),
    ],
    phases={"first": (0, 4)},
)

_FINISHED = CellSpec([FlowSpec(start_s=1, transfers=[(1, 2, 1000), (2, 6, 1000)])])

_LINK = CellSpec(
    [FlowSpec([1.0, 1.0])],
    [
        LinkSpec(
            rows={
                "in_packets": [100, 100],
                "out_packets": [80, 100],
                "out_bytes": [120_000, 150_000],
                "drop_packets": [20, 0],
                "mark_packets": [5, 5],
                "queue_bytes": [1500, 4500],
                "queue_delay_ns": [1 * MS, 3 * MS],
                "queue_delay_max_ns": [2 * MS, 5 * MS],
            }
        )
    ],
    links_ms=1000,
    end_s=2,
)

_CLASSES = CellSpec(
    [FlowSpec([1.0, 1.0])],
    [
        LinkSpec(
            rate_bps=1_000_000,
            overhead_bytes=100,
            queue=two_classes(800_000),
            rows={"out_packets": [100, 0], "out_bytes": [90_000, 0]},
            classes=[
                {
                    "in_packets": [100, 0],
                    "out_packets": [75, 0],
                    "out_bytes": [67_500, 0],
                    "drop_packets": [25, 0],
                    "queue_delay_ns": [2 * MS, None],
                },
                {"in_packets": [25, 0], "out_packets": [25, 0], "out_bytes": [22_500, 0]},
            ],
        )
    ],
    links_ms=1000,
    end_s=2,
)

_NESTED = CellSpec(
    [FlowSpec([1.0, 1.0])],
    [
        LinkSpec(
            rate_bps=1_000_000,
            overhead_bytes=100,
            queue=nested_classes(),
            rows={"out_packets": [100, 60], "out_bytes": [90_000, 54_000]},
            classes=[
                {
                    "in_packets": [70, 30],
                    "out_packets": [60, 30],
                    "out_bytes": [54_000, 27_000],
                    "drop_packets": [10, 0],
                    "queue_delay_ns": [2 * MS, 3 * MS],
                },
                {
                    "in_packets": [30, 0],
                    "out_packets": [20, 0],
                    "out_bytes": [18_000, 0],
                    "drop_packets": [10, 0],
                    "queue_delay_ns": [6 * MS, None],
                },
                {"in_packets": [20, 30], "out_packets": [20, 30], "out_bytes": [18_000, 27_000]},
            ],
        )
    ],
    links_ms=1000,
    end_s=2,
)

_PORTS = CellSpec(
    [FlowSpec([1.0, 1.0], sent_mbps=[3.0, 1.0], protocol="udp", links=(0, 1))],
    [LinkSpec("in"), LinkSpec("out")],
    links_ms=1000,
    end_s=2,
    ports=[
        {"time_ns": 1000 * MS, "node": 1, "output": 1, "input": 0, "in_packets": 9, "out_packets": 3, "drop_packets": 6,
         "loss_runs": 2, "loss_run_max": 5, "service_runs": 1, "service_run_max": 3, "starved_max_ns": 40 * MS},
        {"time_ns": 1000 * MS, "node": 1, "output": 1, "input": 7, "out_packets": 9, "drop_packets": 9, "loss_runs": 1,
         "service_runs": 9, "loss_run_max": 9, "starved_max_ns": 90 * MS},
        {"time_ns": 2000 * MS, "node": 1, "output": 1, "input": 0, "in_packets": 7, "out_packets": 5, "drop_packets": 2,
         "loss_runs": 2, "loss_run_max": 1, "service_runs": 3, "service_run_max": 2, "starved_max_ns": 10 * MS},
    ],
)  # fmt: skip

_SLOWER = CellSpec(
    _LINK.flows,
    _LINK.links,
    links_ms=1000,
    end_s=2,
    changes=[{"at_ns": 1000 * MS, "link": 0, "change": {"kind": "rate", "rate_bps": 500_000_000}}],
)


def _rates(*steps: tuple[int, int]) -> list[dict[str, object]]:
    """Changes of the first link's rate, as instants (ms) and Mb/s."""
    changes = [(at * MS, {"kind": "rate", "rate_bps": mbps * 1_000_000}) for at, mbps in steps]
    return [{"at_ns": at_ns, "link": 0, "change": change} for at_ns, change in changes]


_ALTERNATING = CellSpec(
    # In the first 100 ms the link can send 70 ms · 20 Mb/s + 10 ms · 2 Mb/s + 10 ms · 10 Mb/s, nothing from 80 ms to
    # 90 ms; then 30 ms · 10 Mb/s + 70 ms · 4 Mb/s; then nothing; then 100 ms · 4 Mb/s.
    [FlowSpec([3.8, 2.9, 0, 1.0])],
    [
        LinkSpec(
            rate_bps=20_000_000,
            overhead_bytes=100,
            queue=two_classes(800_000),
            rows={"out_packets": [50, 10, 0, 10], "out_bytes": [45_000, 9_000, 0, 9_000]},
            classes=[
                {"out_packets": [38, 10, 0, 0], "out_bytes": [34_200, 9_000, 0, 0]},
                {"out_packets": [12, 0, 0, 10], "out_bytes": [10_800, 0, 0, 9_000]},
            ],
        )
    ],
    goodput_ms=100,
    links_ms=100,
    end_s=0.4,
    phases={"first": (0, 0.1), "second": (0.1, 0.2), "stopped": (0.2, 0.3), "last": (0.3, 0.4)},
    changes=[
        *_rates((70, 2), (80, 0), (90, 10), (130, 4), (200, 0), (300, 4)),
        {"at_ns": 320 * MS, "link": 0, "change": {"kind": "shares", "shares": [500_000, 500_000]}},
    ],
)

_TCP = CellSpec(
    [
        FlowSpec(
            [1.0],
            samples={
                "cwnd": [100 * (k + 1) for k in range(10)],
                "ssthresh": [None, None, None, *[50] * 7],
                "in_flight": [90 * (k + 1) for k in range(10)],
                "srtt_ns": [None, 20 * MS, 30 * MS, *[25 * MS] * 7],
                "min_rtt_ns": [None, *[10 * MS] * 9],
                "acked_bytes": _counter((3, 1000), (7, 1000)),
                "retransmitted_packets": _counter((5, 0), (5, 4)),
                "timeouts": _counter((9, 0), (1, 2)),
            },
            counters={
                "sent_packets": 200,
                "lost_packets": 10,
                "marked_packets": 20,
                "retransmitted_packets": 12,
                "timeouts": 3,
            },
        )
    ],
    tcp_ms=100,
    end_s=1,
    phases={"half": (0.5, 1)},
)

_SILENT = CellSpec(
    [
        FlowSpec(
            [1.0],
            samples={
                # Nothing is sent in three, two and one of the samples in between.
                "sent_bytes": _counter((5, 1000), (3, 0), (2, 1000), (2, 0), (5, 1000), (1, 0), (2, 1000)),
                # Slow start; a timeout at 0.5 s; a fast recovery at 1.1 s; a restart after a pause at 1.4 s.
                "cwnd": [10, 20, 40, 50, 1, 2, 4, 25, 30, 40, 15, 20, 21, 10, 20, 21, 22, 23, 24, 25],
                "ssthresh": [None, None, None, 50, *[25] * 6, *[20] * 10],
                "ca_state": [0, 0, 0, 0, 4, 4, 4, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            },
        )
    ],
    tcp_ms=100,
    end_s=2,
    phases={"later": (1, 2)},
)

_REACT = CellSpec(
    [
        # 100 kB in each 100 ms (8 Mb/s) up to 1.2 s, half of that in the next sample, a quarter from 1.3 s on
        FlowSpec([1.0], samples={"sent_bytes": _counter((12, 100_000), (1, 62_500), (7, 25_000))}),
        # 2 Mb/s up to 1.4 s, 6 Mb/s in the next sample, then 7 Mb/s
        FlowSpec([1.0], index=1, samples={"sent_bytes": _counter((14, 25_000), (1, 75_000), (5, 87_500))}),
    ],
    [LinkSpec(rate_bps=FAST, delay_ms=50)],
    tcp_ms=100,
    end_s=2,
    phases={"after": (1, 2)},
)

_RISE = CellSpec(
    # 2 Mb/s up to 1.06 s, then 6 Mb/s: no boundary of a grid of round trips
    [FlowSpec([1.0], samples={"sent_bytes": _counter((53, 5_000), (47, 15_000))})],
    [LinkSpec(rate_bps=FAST, delay_ms=50)],
    tcp_ms=20,
    end_s=2,
    phases={"after": (1, 2)},
)

_EVENTS = CellSpec(
    [FlowSpec([1.0] * 10, index=k) for k in range(3)],
    events=[
        (1.0, "recovery", 0, 100),
        (1.005, "recovery", 1, 100),
        (3.0, "recovery", 0, 100),
        (5.0, "rto", 2, 100),
        (7.0, "recovery", 0, 100),
        (7.5, "rto", 0, 100),
        (8.0, "recovery", 0, 100),
        (9.0, "cwr", 1, 100),
        (9.0, "tlp", 1, 0),
    ],
    phases={"start": (0, 4)},
)

_SHARES = CellSpec(
    [FlowSpec([900.0, 700.0, 520.0, 500.0]), FlowSpec([100.0, 300.0, 480.0, 500.0], index=1)],
    end_s=4,
    phases={"before": (0, 2), "after": (2, 4)},
)

_KS = CellSpec([FlowSpec([1, 2, 3, 4, 3, 4, 5, 6])], end_s=8, phases={"calm": (0, 4), "storm": (4, 8)})

_QOS = CellSpec(
    [FlowSpec([50.0, 100.0, 100.0, 100.0], group="af", protocol="udp")],
    end_s=4,
    phases={"steady": (1, 4)},
)

_STARVED = CellSpec([FlowSpec([200.0] * 6), FlowSpec([200.0, 0.5, 1.0, 200.0, 0.0, 200.0], index=1)], end_s=6)

_QUEUES = CellSpec(
    [FlowSpec([1.0] * 10, links=(0, 1))],
    [LinkSpec("access"), LinkSpec("bottleneck", queue=CODEL)],
)

_LOOP = CellSpec([FlowSpec([1.0] * 4), FlowSpec([1.0] * 4, index=1)], [LinkSpec(queue=RED)], end_s=4)

_PARKING = CellSpec(
    # two links of 1 and 2 Gb/s: flow 0 crosses both, flow 1 the first, flow 2 the second
    [
        FlowSpec([200.0] * 4, links=(0, 1)),
        FlowSpec([500.0] * 4, index=1, links=(0,)),
        FlowSpec([600.0] * 4, index=2, links=(1,)),
    ],
    [LinkSpec("one", overhead_bytes=0), LinkSpec("two", rate_bps=2_000_000_000, overhead_bytes=0)],
    end_s=4,
)


def _uif(cc: str, legacy: float, new: float) -> CellSpec:
    flows = [FlowSpec([legacy] * 4, "vanilla", k) for k in range(2)]
    return CellSpec([*flows, FlowSpec([new] * 4, "challenger")], factors={"cc": cc}, end_s=4)


def _lossy(loss: str, rates: Sequence[float]) -> CellSpec:
    return CellSpec([FlowSpec(rates)], factors={"loss": loss}, end_s=4)


_DELAYS = CellSpec(
    [
        FlowSpec(group="call", delays_ns=[[100, 100, 130], [], [90, 190], [100] * 5], protocol="udp"),
        FlowSpec(group="bulk", delays_ns=[[200], [200, 200]], stop_s=1.0),
        FlowSpec(group="lost", delays_ns=[]),
    ],
    end_s=4,
    delay_ms=1000,
    phases={"early": (0, 3), "between": (0.5, 3.5), "nothing": (1, 1.9)},
)

RUNS: dict[str, list[CellSpec]] = {
    "pair": [_PAIR],
    "steps": [_STEPS],
    "settle": [_SETTLE],
    "alternate": [_ALTERNATE],
    "streams": [_STREAMS],
    "transfers": [_TRANSFERS],
    "profile": [_PROFILE],
    "pages": [_PAGES],
    "finished": [_FINISHED],
    "link": [_LINK],
    "classes": [_CLASSES],
    "nested": [_NESTED],
    "ports": [_PORTS],
    "slower": [_SLOWER],
    "alternating": [_ALTERNATING],
    "tcp": [_TCP],
    "silent": [_SILENT],
    "react": [_REACT],
    "rise": [_RISE],
    "events": [_EVENTS],
    "shares": [_SHARES],
    "ks": [_KS],
    "qos": [_QOS],
    "starved": [_STARVED],
    "queues": [_QUEUES],
    "parking": [_PARKING],
    "loop": [_LOOP],
    "delays": [_DELAYS],
    "uif": [_uif("reno", 300.0, 400.0), _uif("scalable", 100.0, 800.0)],
    "lossy": [_lossy("0%", [1, 2, 3, 4]), _lossy("1%", [3, 4, 5, 6])],
}

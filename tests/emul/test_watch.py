"""The progress of a run, from its tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emul_support import text

from shared import plan_of
from weir.hosts.messages import Frame
from weir.methods._watch import Watcher, timeline
from weir.plan import typed

MS = 1_000_000
S = 1000 * MS
NULL = np.iinfo(np.uint64).max


@pytest.fixture
def plan() -> dict[str, Any]:
    return plan_of(text(pairs=20, until="10s"))


def samples(*rows: tuple[int, int, int]) -> Frame:
    """Time, flow and cwnd of each row."""
    time_ns, flow, cwnd = (list(column) for column in zip(*rows, strict=True))
    return Frame(
        "samples",
        {
            "time_ns": np.array(time_ns, np.uint64),
            "flow": np.array(flow, np.uint32),
            "cwnd": np.array(cwnd, np.uint32),
            "srtt_ns": np.full(len(rows), NULL, np.uint64),
            "retransmitted_packets": np.zeros(len(rows), np.uint64),
        },
    )


def delivered(*rows: tuple[int, int, int, int]) -> Frame:
    """Time, flow, transfer and bytes of each row."""
    names = ("time_ns", "flow", "transfer", "delivered_bytes")
    return Frame("delivered", {n: np.array(c, np.uint64) for n, c in zip(names, zip(*rows, strict=True), strict=True)})


def test_the_last_word_of_each_flow_counts(plan: dict[str, Any]) -> None:
    watcher = Watcher(typed(plan))
    watcher.take(samples((20 * MS, 0, 10), (20 * MS, 1, 11), (40 * MS, 0, 12)))
    watcher.take(delivered((200 * MS, 0, 0, 1000), (200 * MS, 0, 1, 500), (200 * MS, 1, 0, 25_000)))
    live = watcher.now(210 * MS)
    assert [(flow.name, flow.cwnd, flow.goodput_bps) for flow in live.flows] == [
        ("flow[0]", 12, 1500 * 8 / 0.2),
        ("flow[1]", 11, 1e6),
    ]
    assert live.flows[0].srtt_ns is None
    assert live.total_goodput_bps == pytest.approx(1.06e6)


def test_a_flow_that_is_silent_is_not_shown(plan: dict[str, Any]) -> None:
    watcher = Watcher(typed(plan))
    watcher.take(samples((20 * MS, 0, 10)))
    assert watcher.now(5 * S).flows == ()


def test_some_of_many_flows_are_listed(plan: dict[str, Any]) -> None:
    watcher = Watcher(typed(plan | {"flows": [{**plan["flows"][0], "name": f"flow[{n}]"} for n in range(260)]}))
    watcher.take(samples(*((20 * MS, flow, 10) for flow in range(260))))
    live = watcher.now(30 * MS)
    assert (len(live.flows), live.more_flows) == (256, 4)


def test_what_happens_is_in_the_order_of_time(plan: dict[str, Any]) -> None:
    plan["flows"] = plan["flows"][:3]
    plan["flows"][1] |= {"start_ns": 2 * S, "stop_ns": 5 * S}
    plan["flows"][2] |= {"start_ns": 2 * S}
    plan["changes"] = [{"at_ns": 3 * S, "link": 0, "change": {"kind": "rate", "rate_bps": 1}}]
    plan["phases"] = [{"name": "late", "from_ns": 4 * S, "to_ns": 9 * S}]
    assert [(event.at_ns // S, event.what) for event in timeline(typed(plan))] == [
        (0, "flow[0] starts"),
        (2, "2 flows start"),
        (3, f"{plan['links'][0]['name']}: another rate"),
        (4, "phase late begins"),
        (5, "flow[1] stops"),
        (10, "end"),
    ]


def test_a_window_that_cannot_be_is_told(plan: dict[str, Any]) -> None:
    watcher = Watcher(typed(plan))
    watcher.take(samples((20 * MS, 0, 1 << 20)))
    assert watcher.warnings == []
    watcher.take(samples((40 * MS, 3, 1_623_994_572), (60 * MS, 3, 1_966_030_024), (60 * MS, 4, 1_966_030_024)))
    (warning,) = watcher.warnings
    assert warning.startswith("flow[3] and 1 more: a congestion window of 1623994572 packets at 0.04 s")

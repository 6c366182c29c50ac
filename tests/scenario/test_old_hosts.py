"""Keys of hosts of old kernels: what they add to a plan, and what they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import weir
from shared import ROOT
from weir import scenario
from weir.scenario import ScenarioError

_TEXT = """
title: t
topology: {{dumbbell: {{pairs: 1, access: {{rate: 1Gbps}}, bottleneck: {{rate: 1Gbps, queue: 1MB}}, rtt: 10ms}}}}
transport: {{cc: reno, buffers: 50MB, {more}}}
workload: [{{name: f, kind: bulk, between: pairs, until: 1s}}]
"""


def tcp(more: str) -> dict[str, Any]:
    """The TCP settings of a flow with these keys."""
    (flow,) = scenario.parse(_TEXT.format(more=more)).cells()[0].plan()["flows"]
    return dict(flow["transport"])


def test_a_cost_brings_the_backlog_of_its_kernel() -> None:
    old = tcp("stack: linux-2.4, sack_cost: 20ns")
    assert (old["stack"], old["sack_cost_ns"], old["backlog_packets"]) == ("linux-2.4", 20, 300)
    assert tcp("stack: linux-2.6, sack_cost: 20ns")["backlog_packets"] == 1000
    assert tcp("stack: linux-2.4, sack_cost: 20ns, backlog: 7")["backlog_packets"] == 7


def test_without_them_a_plan_is_as_before() -> None:
    for more in ("stack: linux", "stack: linux-2.6", "stack: linux-2.6, sack_cost: 0ns, backlog: 9, moderation: true"):
        assert not {"sack_cost_ns", "backlog_packets", "unmoderated"} & set(tcp(more))
    assert tcp("stack: linux-2.4, moderation: false")["unmoderated"] is True


def queues(text: str) -> dict[str, int]:
    """Packets in the transmit queues of hosts, by link."""
    plan = scenario.parse(text).cells()[0].plan()
    return {link["name"]: link["queue"]["limit"]["packets"] for link in plan["links"] if link["host_nic"]}


def test_the_transmit_queue_of_senders_is_that_of_their_kernel_unless_it_is_given() -> None:
    def of(more: str) -> list[int]:
        return list(queues(_TEXT.format(more=more)).values())

    assert of("stack: linux-2.6") == [1000, 1000]
    assert of("stack: linux-2.4") == [100, 1000], "that of the receiver sends acknowledgements"
    assert of("stack: linux-2.4, txqueuelen: 50000") == [50000, 1000]
    assert of("stack: linux, txqueuelen: 7") == [7, 1000]
    given = _TEXT.replace("access: {{rate: 1Gbps}}", "access: {{rate: 1Gbps, queue: 30packets}}")
    assert list(queues(given.format(more="stack: linux-2.4")).values()) == [30, 30]
    assert list(queues(given.format(more="stack: linux-2.4, txqueuelen: 9")).values()) == [9, 30]


def test_a_host_has_one_transmit_queue() -> None:
    entry = "{name: NAME, kind: bulk, between: pairs, until: 1s, transport: {txqueuelen: LENGTH}}"
    two = entry.replace("NAME", "g").replace("LENGTH", "5") + ", " + entry.replace("NAME", "h").replace("LENGTH", "6")
    text = _TEXT.format(more="stack: linux").replace("workload: [", f"workload: [{two}, ")
    with pytest.raises(ScenarioError, match="one transmit queue, and other flows give it `txqueuelen: 5`"):
        scenario.parse(text).cells()[0].plan()
    assert list(queues(text.replace("txqueuelen: 6", "txqueuelen: 5")).values()) == [5, 1000]


def test_a_threshold_is_in_the_plan_if_it_is_given() -> None:
    assert tcp("initial_ssthresh: 1000")["initial_ssthresh"] == 1000
    for none in ("stack: linux", "initial_ssthresh: 0"):
        assert "initial_ssthresh" not in tcp(none)


def test_a_beginning_without_slow_start_is_in_the_plan_if_it_is_given() -> None:
    begun = {"jump_start", "quick_start_bps"}
    assert tcp("jump_start: true")["jump_start"] is True
    assert tcp("quick_start: 20Mbps")["quick_start_bps"] == 20_000_000
    for none in ("stack: linux", "jump_start: false", "quick_start: 0bps", "quick_start: none"):
        assert not begun & set(tcp(none))


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ("jump_start: 3", "`true` or `false`"),
        ("quick_start: fast", "a rate"),
        ("quick_start: None", "a rate"),
        ("quick_start: 79kbps", "a Quick-Start request is for at least 80 kb/s, not 79000 b/s"),
        ("jump_start: true, quick_start: 20Mbps", "begins in one way; keep `jump_start` or `quick_start`"),
        ("initial_ssthresh: none", "a number of segments, or 0 for none"),
        ("sack_cost: 20ns", "`sack_cost` belongs to hosts of old kernels; set `stack: linux-2.6` or `linux-2.4`"),
        ("moderation: false", "`moderation` belongs to hosts of old kernels"),
        ("stack: linux-2.4, backlog: 9", "nothing waits for the host without a `sack_cost`"),
        ("stack: linux-2.4, sack: false, sack_cost: 9ns", "leaves no SACK that could cost time"),
        ("stack: linux-2.4, sack_cost: 9ns, backlog: 0", "a number of packets"),
        ("txqueuelen: 0", "a number of packets"),
    ],
)
def test_keys_that_mean_nothing_are_refused(more: str, text: str) -> None:
    with pytest.raises(ScenarioError, match=text):
        tcp(more)


def test_moderation_takes_the_burst_away_that_follows_an_undone_reduction(tmp_path: Path) -> None:
    text = (ROOT / "examples" / "moderation.yaml").read_text().split("expect:")[0]
    changes = {"until: 40s": "until: 20s", "to: 40s": "to: 20s", "repeat: 5": "repeat: 1"}
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "late.yaml").write_text(text)
    run = weir.execute(tmp_path / "late.yaml", tmp_path / "run", method="sim")
    longest = {
        (row["case"], row["moderation"]): row["value"]
        for row in run.evaluate("queue.delay.max@steady").iter_rows(named=True)
    }
    assert longest["late", "true"] < 0.7 * longest["late", "false"], "the window is restored at once without moderation"
    assert longest["wide", "true"] == longest["wide", "false"], "no acknowledgement is unusual"

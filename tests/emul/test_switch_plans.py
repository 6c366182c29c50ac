"""Plans with a switch through this host's kernel: ports share as in the simulator, at 20 Mb/s."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from emul_support import needs_emul, remains_of

from shared import Memory, execute, plan_of

pytestmark = needs_emul()

_TEXT = """
title: Two hosts ask for more than the port of a third one has
topology:
  star:
    hosts: 3
    access: {{rate: 20Mbps, delay: 5ms}}
    switch: {{memory: {{shared: {{size: 64KiB, alpha: 1}}}}, arbiter: {arbiter}{more}}}
transport: {{cc: "linux:reno", buffers: 2MB}}
workload:
  - {{name: one, kind: cbr, between: [h0, h2], wire_rate: 20Mbps, until: 2s}}
  - {{name: two, kind: cbr, between: [h1, h2], wire_rate: 16Mbps, start: 3us, until: 2s}}
{entries}
measure: {{goodput: 100ms, tcp: 100ms, links: 100ms}}
"""


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert remains_of({os.getpid()}) == []


def plan(arbiter: str, more: str = "", entries: str = "") -> dict[str, Any]:
    return plan_of(_TEXT.format(arbiter=arbiter, more=more, entries=entries))


def table(run: Memory, name: str) -> pl.DataFrame:
    found = pl.from_arrow(run.table(name))
    assert isinstance(found, pl.DataFrame)
    return found


def share(run: Memory) -> float:
    """The part of the contended port that the first flow has."""
    delivered = table(run, "flows").sort("flow")["delivered_bytes"].to_list()[:2]
    return float(delivered[0] / sum(delivered))


@pytest.mark.parametrize(("arbiter", "expected"), [("round_robin", 0.5), ("{weighted: {weights: {h0: 3}}}", 0.75)])
def test_inputs_share_a_port_as_in_the_simulator(arbiter: str, expected: float) -> None:
    """The shares are decided in logical time. A busy machine only starves a sender, which a twentieth allows for."""
    made = plan(arbiter)
    assert share(execute("sim", made)[0]) == pytest.approx(expected, abs=0.01)
    assert share(execute("emul", made)[0]) == pytest.approx(expected, abs=0.05)


def test_the_table_of_ports_agrees_with_that_of_links() -> None:
    bulk = "  - {name: bulk, kind: bulk, between: [h2, h0], until: 2s}"
    made = plan("islip", ", jitter: 20us, forwarding: cut_through", bulk)
    run = execute("emul", made)[0]
    ports, links = table(run, "ports"), table(run, "links")
    assert set(ports["node"]) == {number for number, node in enumerate(made["nodes"]) if node.get("switch")}
    for output in ports["output"].unique():
        of_port, of_link = ports.filter(pl.col("output") == output), links.filter(pl.col("link") == output)
        assert of_port["drop_packets"].sum() == of_link["drop_packets"].sum()
        assert abs(of_port["out_packets"].sum() - of_link["out_packets"].sum()) <= 1, (
            "one may be on the wire at the end"
        )
    up = {made["flows"][0]["path"][0], made["flows"][1]["path"][0]}
    assert up < set(ports["input"]), "and that of the bulk flow"
    assert ports["drop_packets"].sum() > 0
    assert table(run, "flows").sort("flow")["delivered_bytes"].to_list()[2] > 0


def test_the_self_check_says_why_it_does_not_fill_the_memory() -> None:
    text = _TEXT.format(arbiter="fifo", more=", pause: {high: 20kB, low: 10kB}", entries="")
    run = execute("emul", plan_of(text.replace("size: 64KiB, alpha: 1", "size: 256KiB")))[0]
    assert "its packets wait in the memory of a switch" in run.text("selfcheck.json")
    kinds = table(run, "events")["kind"].cast(pl.String).to_list()
    assert {"pause", "resume"} <= set(kinds), "senders are stopped instead of dropped"
    assert table(run, "ports")["drop_packets"].sum() == 0

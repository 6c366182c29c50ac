"""QUIC, TFRC and UDT on nodes: transports over UDP, whose ends weir has itself; DCCP, which kernels may lack."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from nodes_support import Nodes

from shared import Memory, dumbbell, has_dccp, plan_of
from weir.methods import MethodError, Outcome
from weir.methods.hosts import Hosts

_QUIC, _TFRC = 0, 1
_UDT = _TFRC


@pytest.fixture
def method(nodes: Nodes) -> Iterator[Hosts]:
    found = Hosts(nodes.connect).on(str(nodes.inventory()))
    yield found
    found.close()


def _scenario(until: str) -> str:
    return dumbbell(
        title="Datagrams",
        pairs=2,
        access="rate: 50Mbps",
        bottleneck="rate: 20Mbps, queue: {droptail: {size: 40kB}}",
        rtt="1ms",
        transport="cc: linux:reno, stack: linux, buffers: 1MB",
        workload=f'name: quic, between: "pairs[0]", kind: bulk, until: {until}, '
        "transport: {protocol: quic, cc: cubic}}\n"
        f'  - {{name: tfrc, between: "pairs[1]", kind: bulk, until: {until}, transport: {{protocol: tfrc}}',
        measure="goodput: 200ms, tcp: 50ms, links: 0",
    )


def _execute(method: Hosts, scenario: str) -> tuple[Memory, Outcome]:
    plan, sink = plan_of(scenario), Memory()
    assert method.obstacle(plan) is None
    return sink, method.execute(json.dumps(plan), sink, lambda *_: None)


def _of(sink: Memory, table: str, column: str, flow: int) -> list[int]:
    columns = sink.columns(table)
    return [value for number, value in zip(columns["flow"], columns[column], strict=True) if number == flow]


def test_quic_and_tfrc_use_their_paths_and_nothing_is_left(nodes: Nodes, method: Hosts) -> None:
    sink, outcome = _execute(method, _scenario("4s"))
    assert outcome.partial is None
    assert {name for name, rows in sink.batches.items() if rows} <= method.tables
    for flow in (_QUIC, _TFRC):
        rate = sum(_of(sink, "goodput", "delivered_bytes", flow)) * 8 / 4
        assert 4e6 < rate < 20e6, f"{rate:.0f} b/s of flow {flow}: each has 20 Mb/s of its own"
        (lost,) = _of(sink, "flows", "lost_packets", flow)
        assert lost > 0, "a queue of 40 kB overflows"
    # QUIC's own statistics are samples, TFRC's are probes.
    windows = _of(sink, "samples", "cwnd", _QUIC)
    assert len(windows) > 40
    assert min(windows) >= 2
    assert _of(sink, "flows", "retransmitted_packets", _QUIC) == _of(sink, "flows", "lost_packets", _QUIC)
    probes = sink.columns("probes")
    assert set(probes["probe"]) == {"allowed_bps", "loss_event_ppm", "rtt_ns"}
    assert set(probes["flow"]) == {_TFRC}
    assert _of(sink, "flows", "retransmitted_packets", _TFRC) == [0]
    method.close()
    assert nodes.journals() == []
    assert nodes.processes() == []


def test_udt_is_that_of_other_methods_and_processor_time_is_recorded(nodes: Nodes, method: Hosts) -> None:
    sink, _ = _execute(method, _scenario("3s").replace("protocol: tfrc", "protocol: udt"))
    assert sum(_of(sink, "goodput", "delivered_bytes", _UDT)) * 8 / 3 > 4e6
    (lost,) = _of(sink, "flows", "lost_packets", _UDT)
    assert _of(sink, "flows", "retransmitted_packets", _UDT) == [lost]
    assert lost > 0, "a queue of 40 kB overflows"
    assert set(sink.columns("probes")["probe"]) == {"send_bps", "window", "rtt_ns"}
    assert set(sink.columns("processor")["part"]) == {0, 1}
    assert sum(sink.columns("processor")["system_ns"]) > 0
    method.close()
    assert nodes.processes() == []


@pytest.mark.skipif(has_dccp(), reason="this kernel has DCCP")
def test_nodes_without_dccp_are_named_before_anything_changes(nodes: Nodes, method: Hosts) -> None:
    scenario = _scenario("4s").replace("protocol: tfrc", "protocol: dccp")
    with pytest.raises(MethodError) as raised:
        _execute(method, scenario)
    why = "protocol: dccp: this kernel has no DCCP"
    assert str(raised.value) == f"a2: {why}; b2: {why}", "the flow of DCCP is from a2 to b2"
    method.close()
    assert nodes.processes() == []

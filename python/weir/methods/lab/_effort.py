"""What a plan takes of the machine in the lab: wall time and memory, orders of magnitude."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from weir._duration import estimate_text
from weir.cc import no_kernel
from weir.hosts.messages import FILE_BYTES
from weir.hosts.rates import packets_per_s
from weir.methods import MethodError
from weir.methods._intervals import too_fine
from weir.methods.lab._links import choose, finest
from weir.methods.lab._script import Network
from weir.plan import CommandSource, Plan, line_bytes, recorded_links, tcp_flows

__all__ = ["foreseen_s", "memory_mb", "output_bytes", "processes", "remarks", "trace_bytes", "wall_s"]

_START_S = 2.0
_SPEED = {"kernel": 1e5, "trains": 8e5, "netem": 5e4, "weir-emu": 3e3}
"""Data packets a second of wall time by what the links are (``benches/lab.py`` measures those of the kernel; those of
weir-emu follow from the processor time of plans of 5 to 80 Mb/s over either kind of links).
"""
_FOREIGN = 0.02
"""Share of the speed that is left where programs of others make the traffic: they wake up for every few segments."""
_LOOK_S = 5e-5
"""Wall time of one look at the state of all senders."""
_BASE_MB = 384
_MAX_MB = 16_384
_BEAT_NS = 250_000_000
"""Rows are handed over at least this often; until then the guest holds them."""
_ROW_BYTES = 400
"""Memory for a row of a table, with what it is copied to on its way."""
_ACK_ROW_BYTES = 2 * 112
"""Memory for a row of table ``acks``, which is copied once."""
_ACK_ROWS = 2
"""Such rows for a data packet: it is sent, and it is acknowledged."""
_TRACED_BYTES = 4 * 2 * 112
"""Memory for a data packet of a trace: it and an acknowledgement have two rows each, and are copied once."""
_USUAL_ROWS_MB = 64
"""What the base has room for: the memory of a plan with usual intervals does not depend on them."""
_MIN_WALL_S, _MAX_TIMES = 1800.0, 100.0
_MIN_TRACE, _TRACE_BYTES = 1 << 22, 4096
_MIN_OUTPUT, _SPARE = 1 << 30, 4.0
_MIN_PROCESSES, _PROCESSES_OF_PROGRAM = 512, 16
_BINS = 64
"""Bins of a histogram of delays that hold something, at most, as a rule."""
_FILES_OF_PROGRAM = 4
"""Two streams of the command and two of its peer."""
_MUCH_SLOWER = 3.0
"""A plan that takes this many times what it would take over the kernel's links deserves a remark."""


def foreseen_s(plan: Plan, packets: int) -> float:
    """Wall time of ``plan`` with so many data packets.

    Raises:
        MethodError: the plan's options ask for links that there are not.
    """
    return _over(plan, choose(plan, None)[0], packets)


def _over(plan: Plan, network: Network, packets: int) -> float:
    whole = network.links == "kernel" and network.offload == "trains"
    speed = _SPEED["trains" if whole else network.links]
    if _has_programs(plan):
        speed *= _FOREIGN
    measure = plan.measure
    intervals = (measure.tcp_ns, measure.goodput_ns, measure.links_ns)
    looks: float = sum(plan.end_ns / interval for interval in intervals if interval)
    return _START_S + packets / speed + looks * _LOOK_S


def remarks(plan: Plan, packets: int) -> Iterator[str]:
    """What makes the lab much slower than it could be, and what it cannot look at as often as asked, for people."""
    if no_kernel(plan) is not None:  # the lab refuses the plan
        return
    try:
        network, why = choose(plan, None)
    except MethodError:
        return
    if (unserved := too_fine(plan, finest(network))) is not None:
        yield unserved
    if network.links == "kernel":
        return
    kernel = replace(network, module=Path(), netem=None)
    slow, fast = _over(plan, network, packets), _over(plan, kernel, packets)
    if slow > _MUCH_SLOWER * fast:
        name = "the program weir-emu" if network.links == "weir-emu" else "disciplines"
        times = f"about {estimate_text(slow)} a cell instead of {estimate_text(fast)}"
        yield f"its links are {name} here, which takes {times}: {why}"


def wall_s(plan: Plan) -> float:
    """Wall time after which ``plan`` hangs, whatever the guest says: many times what its packets take at full rate."""
    packets = packets_per_s(plan)[0] * plan.end_ns / 1e9
    return _MIN_WALL_S + _MAX_TIMES * foreseen_s(plan, round(packets))


def output_bytes(plan: Plan) -> int:
    """More than ``plan`` can have the guest write: rows, a trace, what programs print."""
    rows = _rows(plan) * max(1.0, plan.end_ns / _BEAT_NS)
    if plan.measure.delay_ns:
        rows += plan.end_ns / plan.measure.delay_ns * len(plan.flows) * _BINS
    packets = packets_per_s(plan)[0] * plan.end_ns / 1e9  # each may be a row of what was dropped or marked
    trace, acks = plan.measure.trace, plan.measure.acks
    traced = _TRACED_BYTES * min(packets, trace.max_packets) if trace is not None else 0.0
    if acks is not None:
        traced += _ACK_ROW_BYTES * min(_ACK_ROWS * packets, acks.max_rows)
    programs = sum(isinstance(flow.source, CommandSource) for flow in plan.flows)
    spare = _SPARE * (_ROW_BYTES * (rows + packets) + traced)
    return _MIN_OUTPUT + round(spare) + programs * _FILES_OF_PROGRAM * FILE_BYTES


def trace_bytes(plan: Plan) -> int:
    """More than a file of the trace of ``plan`` can have."""
    packets = packets_per_s(plan)[0] * plan.end_ns / 1e9
    traced = min(packets, plan.measure.trace.max_packets) if plan.measure.trace is not None else 0.0
    return _MIN_TRACE + round(_SPARE * _TRACE_BYTES * traced)


def processes(plan: Plan) -> int:
    """How many processes the guest may have: those of weir, and of each program some that it starts."""
    programs = sum(isinstance(flow.source, CommandSource) for flow in plan.flows)
    return _MIN_PROCESSES + _PROCESSES_OF_PROGRAM * programs


def _has_programs(plan: Plan) -> bool:
    return any(isinstance(flow.source, CommandSource) for flow in plan.flows)


def memory_mb(plan: Plan) -> int:
    """Memory of the guest: what buffers, delay lines and rows may hold, with what the kernel adds to each packet."""
    buffers = sum(tcp.send_buffer_bytes + tcp.receive_buffer_bytes for _, tcp in tcp_flows(plan))
    lines = sum(map(line_bytes, plan.links))
    held = _ROW_BYTES * _rows(plan) + _TRACED_BYTES * _traced(plan) + _ACK_ROW_BYTES * _acks(plan)
    rows_mb = max(0.0, held / 1e6 - _USUAL_ROWS_MB)
    need: float = _BASE_MB + (2 * buffers + 2 * lines) / 1e6 + rows_mb
    return min(_MAX_MB, round(need))


def _rows(plan: Plan) -> float:
    """Rows that the guest holds before it hands them over."""
    measure, beat = plan.measure, min(_BEAT_NS, plan.end_ns)
    flows, links = len(plan.flows), len(recorded_links(plan))
    asked = ((measure.tcp_ns, flows), (measure.goodput_ns, 2 * flows), (measure.links_ns, links))
    return float(sum(beat / interval * count for interval, count in asked if interval))


def _traced(plan: Plan) -> float:
    """Data packets of a trace that the guest holds before it hands them over."""
    trace = plan.measure.trace
    return 0.0 if trace is None else min(_packets_held(plan), trace.max_packets)


def _acks(plan: Plan) -> float:
    """Rows of table ``acks`` that the guest holds before it hands them over."""
    acks = plan.measure.acks
    return 0.0 if acks is None else min(_ACK_ROWS * _packets_held(plan), acks.max_rows)


def _packets_held(plan: Plan) -> float:
    """Data packets that the hosts can send before the guest hands over its rows."""
    first = [plan.links[number] for number in {flow.path[0] for flow in plan.flows}]
    per_s = sum(link.rate_bps / (8.0 * link.mtu_bytes) for link in first)
    return per_s * min(_BEAT_NS, plan.end_ns) / 1e9

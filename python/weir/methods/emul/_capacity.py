"""The demands of a plan on this machine, and the machine's capacity: packets per second, processors, memory.

The emulator is one thread, and the kernel handles the packets that it delivers on its time. So it can carry a certain
number of packets per second, more if they come in trains of segments. The cost of a packet is measured: datagrams pass
an emulator for a quarter of a second. Without privilege, or for a plan that any machine can carry, a known cost is
used.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import time
from typing import Any

from weir import _owner
from weir._programs import find
from weir.hosts.jobs import job
from weir.hosts.local import Local
from weir.hosts.network import Network, environment
from weir.hosts.probes import Endpoint, Probes, Train
from weir.hosts.processes import PRIORITY
from weir.hosts.rates import packets_alone, packets_per_s
from weir.hosts.session import Session
from weir.hosts.wiring import Wiring, wire
from weir.methods import Capacity, MethodError, Need
from weir.plan import Plan, line_bytes, queue_bytes, tcp_flows, typed
from weir.queues import DEFAULT

__all__ = ["capacity", "capacity_of_disciplines"]

_KNOWN_NS = 1200
_KNOWN_TRAIN_NS = 8000
"""Processor time of the emulator for a packet, and for a train of packets, on a server's processor of 2020."""
_KNOWN_LINK_NS = 2000
"""Processor time of the kernel for a packet on a link of disciplines: two pairs of devices, three queues, a route."""
_HOST_SHARE = 0.3
"""Processor time of agents and senders per packet, relative to the emulator's: the kernel receives packets on the time
of the emulator that delivers them.
"""
_SAFE = 0.8
"""Share of a processor above which waiting decides the results."""
_OBVIOUS = 0.25
"""A plan that needs less than this share by the known cost is not measured."""
_MEMORY_BYTES = 1 << 30
"""The emulator's memory for packets in flight (its option ``--memory``)."""
_CALIBRATE_S = 0.25
_CALIBRATE_BPS = 20_000_000_000
_TRAIN_NS = 50_000
_TOGETHER_S = 1e-4
_MAX_TRAIN = 32


def capacity(plan: Plan) -> Capacity:
    """The demands of ``plan`` on this machine at its busiest instant, and the machine's capacity.

    Raises:
        MethodError: the measurement failed.
    """
    packets, flows = packets_per_s(plan)
    train = 1 if packets_alone(plan, packets) else _train(packets / max(flows, 1))
    cost_ns, measured = _KNOWN_NS + _KNOWN_TRAIN_NS / train, False
    if packets * cost_ns / 1e9 > _OBVIOUS and os.geteuid() == 0:
        cost_ns, measured = _measured_ns(train), True
    processors = len(os.sched_getaffinity(0))
    emulator = packets * cost_ns / 1e9
    needs = (
        Need("packets a second", packets, _SAFE * 1e9 / cost_ns, "1/s"),
        Need("processors", emulator * (1 + _HOST_SHARE), _SAFE * processors, ""),
        Need("memory for packets in flight", _under_way_bytes(plan), _MEMORY_BYTES, "B"),
    )
    how = "measured here" if measured else "not measured here"
    trains = "alone" if train == 1 else f"in trains of {train}"
    return Capacity(needs, f"a packet costs the emulator {cost_ns / 1000:.1f} us ({trains}; {how})")


def capacity_of_disciplines(plan: Plan) -> Capacity:
    """The demands and the capacity for links from the kernel's disciplines, which pass each packet separately."""
    packets, _ = packets_per_s(plan)
    links = sum(len(flow.path) for flow in plan.flows) / max(len(plan.flows), 1)
    cost_ns = max(links, 1.0) * _KNOWN_LINK_NS
    kernel = packets * cost_ns / 1e9
    needs = (
        # Packets of one direction are on one processor: the kernel forwards them where they came in.
        Need("packets a second", packets, _SAFE * 1e9 / cost_ns, "1/s"),
        Need("processors", kernel * (1 + _HOST_SHARE), _SAFE * len(os.sched_getaffinity(0)), ""),
    )
    return Capacity(needs, f"a packet costs the kernel {cost_ns / 1000:.1f} us over {links:.3g} links; not measured")


def _train(packets_per_s: float) -> int:
    """Packets of a flow that pass as one frame: those within a tenth of a millisecond, as a power of two."""
    together = min(max(packets_per_s * _TOGETHER_S, 1.0), float(_MAX_TRAIN))
    return 1 << int(math.log2(together))


def _under_way_bytes(plan: Plan) -> float:
    """Bytes in the queues and delay lines if all are full and no window limits them."""
    crossed = {link for flow in plan.flows for link in flow.path}
    held = 0.0
    for link in (plan.links[number] for number in crossed):
        held += (queue_bytes(link.queue, link.mtu_bytes) or 0) + line_bytes(link)
    windows = [min(tcp.send_buffer_bytes, tcp.receive_buffer_bytes) for _, tcp in tcp_flows(plan)]
    return held if len(windows) < len(plan.flows) else min(held, float(sum(windows)))


@functools.cache
def _measured_ns(train: int) -> float:
    """Processor time of the emulator for a packet of a train of ``train``, measured."""
    plan = _calibration_plan()
    tag = _owner.new()
    wiring = wire(typed(plan), str(tag))
    with contextlib.ExitStack() as stack:
        network = stack.enter_context(Network(wiring, tag))
        here = stack.enter_context(Local(environment=environment(tag), take=network.take, priority=PRIORITY))
        session = stack.enter_context(Session())
        told = job(plan, (host.to_job() for host in wiring.hosts), wiring.first_port)
        emulator = session.start("emulator", here, [str(find("weir-emu"))], told)
        session.await_ready([emulator])
        session.begin(time.monotonic_ns() + 50_000_000)
        time.sleep(0.06)
        _load(wiring, train)
        session.tell({"command": "stop"})
        for _ in session.frames(time.monotonic() + 10.0, lambda: None):
            pass
    packets = session.heard.stats.get("emulator.packets", 0.0)
    seconds = session.heard.stats.get("emulator.busy_share", 0.0) * (_CALIBRATE_S + 0.06)
    if packets < 100 or seconds <= 0:
        raise MethodError("the cost of a packet could not be measured: the emulator saw none")
    return max(seconds / packets * 1e9, 100.0)


def _load(wiring: Wiring, train: int) -> None:
    """Sends trains of ``train`` datagrams from the first host to the second."""
    source = Endpoint(wiring.host(0), wiring.first_port - 1)
    target = Endpoint(wiring.host(1), wiring.first_port)
    count = round(_CALIBRATE_S * 1e9 / _TRAIN_NS)
    trains = [Train(n * _TRAIN_NS, source, target, 0, train, 1500) for n in range(count)]
    with Probes(listen=False) as probes:
        probes.open(source)
        probes.open(target)
        probes.send(trains)


def _calibration_plan() -> dict[str, Any]:
    link = {
        "rate_bps": _CALIBRATE_BPS,
        "overhead_bytes": 38,
        "mtu_bytes": 1500,
        "delay": {"kind": "fixed", "delay_ns": 1_000_000},
        "queue": {"kind": DEFAULT, "limit": {"bytes": None, "packets": 10_000}},
    }
    flow = {
        "name": "load",
        "group": "load",
        "index": 0,
        "stream": 0,
        "role": "test",
        "from": 0,
        "to": 1,
        "path": [0, 2],
        "reverse_path": [],
        "start_ns": 0,
        "stop_ns": None,
        "transport": {"protocol": "udp", "payload_bytes": 1472},
        "source": {"kind": "cbr", "rate_bps": 1_000_000},
    }
    return {
        "version": 1,
        "title": "What a packet costs",
        "seed": 1,
        "end_ns": 10_000_000_000,
        "nodes": [{"name": "a", "kind": "host"}, {"name": "b", "kind": "host"}, {"name": "r", "kind": "router"}],
        "links": [
            {**link, "name": "a->r", "from": 0, "to": 2},
            {**link, "name": "r->a", "from": 2, "to": 0},
            {**link, "name": "r->b", "from": 2, "to": 1},
        ],
        "flows": [flow],
        "changes": [],
        "measure": {"goodput_ns": 0, "tcp_ns": 0, "links_ns": 0},
        "phases": [],
    }

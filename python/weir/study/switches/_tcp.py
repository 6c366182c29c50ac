"""Two TCP flows through a switch, with and without SACK (LIP 2006-38, section 5.2.1): simulated, or of this kernel.

A real switch gets the kernel's TCP from a host behind each interface: a network namespace with a device of its own
(macvlan), which has its own Ethernet address. The interfaces keep theirs, and their settings.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from weir import _owner
from weir._interfaces import Interface
from weir._programs import find
from weir.hosts.checks import Checks
from weir.hosts.congestion import kernel_names, renamed
from weir.hosts.jobs import job
from weir.hosts.local import Local
from weir.hosts.merge import Merger
from weir.hosts.needs import require
from weir.hosts.network import Network, environment
from weir.hosts.processes import PRIORITY
from weir.hosts.session import Heard, Session
from weir.hosts.wiring import Command, Wiring, wire
from weir.plan import Plan, typed
from weir.scenario import load
from weir.study.switches._between import BetweenRig
from weir.study.switches._model import ModelRig

__all__ = ["Tcp", "tcp_between", "tcp_of"]

_SCENARIO = Path(__file__).with_name("assets") / "tcp.yaml"
_COLUMNS = ("flow", "delivered_bytes", "retransmitted_packets", "timeouts")
_AHEAD_S = 0.4
_GRACE_S = 20.0
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Tcp:
    """Two TCP flows to one output port."""

    control: str
    sack: bool
    goodput_mbps: tuple[float, float]
    retransmissions_ps: tuple[float, float]
    timeouts: tuple[int, int]

    @property
    def name(self) -> str:
        """Control and SACK, in words."""
        return f"{self.control} {'with' if self.sack else 'without'} SACK"


def tcp_of(rig: ModelRig, tell: Tell, stack: str = "linux-2.6") -> tuple[Tcp, ...]:
    """The flows through a model, with hosts of ``stack``."""
    wanted = {"topology.star.switch": rig.yaml, "seed": str(rig.seed), "transport.stack": stack}
    return tuple(_simulated(cell, plan) for cell, plan in _cells(wanted | _ports(rig), tell))


def tcp_between(rig: BetweenRig, tell: Tell, overrides: Mapping[str, str] | None = None) -> tuple[Tcp, ...]:
    """The flows through a real switch, from the first two interfaces to the last one, all of this host.

    Args:
        rig: The switch.
        tell: Gets the next step.
        overrides: Other values of the scenario.

    Raises:
        UnavailableError: this host cannot have such hosts.
        MethodError: this kernel lacks a congestion control, or something failed.
    """
    require("TCP through a switch", ("ip", "sysctl", "nsenter"), ("weir-agent",), tun=False)
    interfaces = {"h0": rig.interfaces[0], "h1": rig.interfaces[1], "h4": rig.interfaces[-1]}
    wanted = {"transport.stack": "linux"} | _ports(rig) | dict(overrides or {})
    return tuple(_real(cell, plan, interfaces) for cell, plan in _cells(wanted, tell))


def _ports(rig: ModelRig | BetweenRig) -> dict[str, str]:
    return {
        "topology.star.overhead": f"{rig.overhead_bytes}B",
        "topology.star.access.rate": f"{rig.rate_bps:.0f}bps",
        "topology.star.port.rate": f"{rig.out_bps:.0f}bps",
    }


def _cells(overrides: Mapping[str, str], tell: Tell) -> Iterator[tuple[Tcp, dict[str, Any]]]:
    """Cells of the scenario: flows without results, and the plan."""
    for cell in load(_SCENARIO, overrides=dict(overrides)).cells():
        control, sack = (str(cell.factors[name]) for name in ("cc", "sack"))
        flows = Tcp(control, sack == "true", (0, 0), (0, 0), (0, 0))
        tell(f"two flows of {flows.name}")
        yield flows, cell.plan()


def _simulated(flows: Tcp, plan: Mapping[str, Any]) -> Tcp:
    from weir import _weir

    simulator = _weir.Simulator(json.dumps(plan))
    while not simulator.advance(simulator.now_ns + 1_000_000_000):
        pass
    rows = {name: np.asarray(memoryview(column)) for name, column in simulator.drain()["flows"].items()}
    return _counted(flows, plan, rows)


def _counted(flows: Tcp, plan: Mapping[str, Any], rows: Mapping[str, Any]) -> Tcp:
    """``flows`` with the results of the table of flows."""
    first, second = (int(np.flatnonzero(rows["flow"] == flow)[-1]) for flow in (0, 1))

    def rates(column: str, factor: float) -> tuple[float, float]:
        seconds = [(flow["stop_ns"] - flow["start_ns"]) / 1e9 for flow in plan["flows"]]
        return tuple(float(rows[column][row]) * factor / s for row, s in zip((first, second), seconds, strict=True))

    return replace(
        flows,
        goodput_mbps=rates("delivered_bytes", 8e-6),
        retransmissions_ps=rates("retransmitted_packets", 1.0),
        timeouts=(int(rows["timeouts"][first]), int(rows["timeouts"][second])),
    )


def _real(flows: Tcp, document: dict[str, Any], interfaces: Mapping[str, Interface]) -> Tcp:
    from weir import _weir

    plan, tag = typed(document), _owner.new()
    merger = Merger(pa.array(_weir.event_kinds(), pa.string()))
    with contextlib.ExitStack() as stack:
        network = stack.enter_context(Network(_behind(plan, str(tag), interfaces), tag))
        names = stack.enter_context(kernel_names(plan, environment(tag)))
        here = stack.enter_context(Local(environment=environment(tag), take=network.take, priority=PRIORITY))
        checks = Checks(len(plan.flows), len(plan.links), len(_weir.event_kinds()))
        session = stack.enter_context(Session(checks, Heard()))
        hosts = [host.to_job() for host in network.wiring.hosts]
        for name, end in (("receivers", "to"), ("senders", "from")):
            ends = [{end: flow} for flow in range(len(plan.flows))]
            told = job(renamed(document, plan), hosts, network.wiring.first_port, ends, names)
            session.await_ready([session.start(name, here, [str(find("weir-agent"))], told)])
        begin = time.monotonic() + _AHEAD_S
        session.begin(round(begin * 1e9))
        for frame in session.frames(begin + plan.end_ns / 1e9 + _GRACE_S, network.watch):
            for _ in merger.take(frame):
                pass
        (rows,) = [found for table, found in merger.finish() if table == "flows"]
    return _counted(flows, document, {name: np.array(rows[name].to_pylist()) for name in _COLUMNS})


def _behind(plan: Plan, tag: str, interfaces: Mapping[str, Interface]) -> Wiring:
    """Hosts whose devices are on ``interfaces`` instead of an emulator's; they send packets one by one."""
    wiring = wire(plan, tag, alone=True)
    devices = {host.namespace: _device(interfaces[host.name], host.namespace, host.device) for host in wiring.hosts}
    up = tuple(devices[command[2]] if "tuntap" in command else command for command in wiring.up)
    return replace(wiring, up=up)


def _device(interface: Interface, namespace: str, device: str) -> Command:
    where = ("-n", interface.netns) if interface.netns is not None else ()
    on = ("link", "add", "link", interface.name, "name", device, "netns", namespace)
    return ("ip", *where, *on, "type", "macvlan", "mode", "private")

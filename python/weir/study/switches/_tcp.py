"""Two TCP flows through a switch, with and without SACK (LIP 2006-38, section 5.2.1): simulated, or of this kernel.

A real switch gets the kernel's TCP from a host behind each interface: a network namespace with a device of its own
(macvlan), which has its own Ethernet address. The interfaces keep theirs.
"""

from __future__ import annotations

import contextlib
import functools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from weir import _owner
from weir._interfaces import Interface
from weir._programs import find
from weir.deploy import deploy, host
from weir.hosts.checks import Checks
from weir.hosts.congestion import FOREIGN, kernel_names, renamed
from weir.hosts.congestion import wanted as wanted_by
from weir.hosts.jobs import job
from weir.hosts.local import Local
from weir.hosts.merge import Merger
from weir.hosts.needs import require
from weir.hosts.network import Network, environment
from weir.hosts.place import Place
from weir.hosts.processes import PRIORITY, Process
from weir.hosts.session import Heard, Session
from weir.hosts.wiring import Command, Host, Wiring, wire
from weir.plan import Plan, typed
from weir.scenario import load
from weir.study.switches._between import BetweenRig
from weir.study.switches._model import ModelRig
from weir.study.switches._over import OverRig

__all__ = ["Course", "Tcp", "tcp_between", "tcp_of"]

_SCENARIO = Path(__file__).with_name("assets") / "tcp.yaml"
_AVAILABLE = "/proc/sys/net/ipv4/tcp_available_congestion_control"
_COLUMNS = ("flow", "delivered_bytes", "retransmitted_packets", "timeouts")
_SENDERS = {"h0": 0, "h1": 1}
"""Hosts of the scenario that send, with their interfaces."""
_DELAYED = 1_000_000
"""Packets on their way back at a time, at most: more than a window has."""
_AHEAD_S = 0.4
_GRACE_S = 20.0
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Course:
    """When two TCP flows send, and how far they go."""

    until_ns: int = 4_000_000_000
    second_ns: int = 200_000_000
    """When the second one begins."""
    rtt_ns: int = 0
    """Round-trip time without the queues."""

    @property
    def overrides(self) -> dict[str, str]:
        """In the scenario."""
        until = {f"workload.{name}.until": f"{self.until_ns}ns" for name in ("first", "second")}
        far = {"topology.star.rtt": f"{self.rtt_ns}ns"} if self.rtt_ns else {}
        return until | far | {"workload.second.start": f"{self.second_ns}ns"}


_USUAL = Course()


@dataclass(frozen=True)
class Tcp:
    """Two TCP flows to one output port."""

    control: str
    sack: bool
    goodput_mbps: tuple[float, float]
    retransmissions_ps: tuple[float, float]
    timeouts: tuple[int, int]
    rtt_ns: int = 0

    @property
    def name(self) -> str:
        """Control, SACK and round-trip time, in words."""
        far = f" at {self.rtt_ns / 1e6:g} ms" if self.rtt_ns else ""
        return f"{self.control} {'with' if self.sack else 'without'} SACK{far}"

    @property
    def faster_first(self) -> Tcp:
        """The same with the faster flow first: which of the two that is, is chance."""
        if self.goodput_mbps[0] >= self.goodput_mbps[1]:
            return self
        return replace(
            self, goodput_mbps=self.goodput_mbps[::-1], retransmissions_ps=self.retransmissions_ps[::-1],
            timeouts=self.timeouts[::-1],
        )  # fmt: skip


def tcp_of(
    rig: ModelRig,
    tell: Tell,
    course: Course = _USUAL,
    stack: str = "linux-2.6",
    controls: Sequence[str] | None = None,
) -> tuple[Tcp, ...]:
    """The flows through a model, with hosts of ``stack``, and with ``controls`` instead of the scenario's."""
    wanted = {"topology.star.switch": rig.yaml, "seed": str(rig.seed), "transport.stack": stack}
    if controls is not None:
        wanted["sweep.transport.cc"] = json.dumps(list(controls))
    return tuple(_simulated(cell, plan) for cell, plan in _cells(course, wanted | _ports(rig), tell))


def tcp_between(
    rig: BetweenRig, tell: Tell, overrides: Mapping[str, str] | None = None, course: Course = _USUAL
) -> tuple[Tcp, ...]:
    """The flows through a real switch, from the first two interfaces to the last one.

    Args:
        rig: The switch.
        tell: Gets the next step.
        overrides: Other values of the scenario.
        course: When they send. netem gives the receiver's host the round-trip time.

    Raises:
        UnavailableError: this host cannot have such hosts.
        MethodError: a kernel lacks a congestion control, or something failed.
    """
    wanted = {"transport.stack": "linux"} | _ports(rig)
    if isinstance(rig, OverRig):
        wanted |= {"sweep.transport.cc": json.dumps(_kernels_own(rig))}
        cells = _cells(course, wanted | dict(overrides or {}), tell)
        return tuple(_real(cell, plan, functools.partial(_on_nodes, rig, course.rtt_ns)) for cell, plan in cells)
    require("TCP through a switch", ("ip", "sysctl", "nsenter", "ethtool"), ("weir-agent",), tun=False)
    if course.rtt_ns:
        require("TCP at a distance", ("tc",), (), tun=False)
    cells = _cells(course, wanted | dict(overrides or {}), tell)
    return tuple(_real(cell, plan, functools.partial(_here, rig, course.rtt_ns)) for cell, plan in cells)


def _kernels_own(rig: OverRig) -> list[str]:
    """Congestion controls of the scenario that the kernels of all nodes have."""
    known = [set(keeper.place.require(("cat", _AVAILABLE)).decode().split()) for keeper in rig.keepers.values()]
    controls = dict.fromkeys(str(cell.factors["cc"]) for cell in load(_SCENARIO).cells())
    return [FOREIGN + name for name in controls if all(name in names for names in known)]


def _ports(rig: ModelRig | BetweenRig) -> dict[str, str]:
    return {
        "topology.star.overhead": f"{rig.overhead_bytes}B",
        "topology.star.access.rate": f"{rig.rate_bps:.0f}bps",
        "topology.star.port.rate": f"{rig.out_bps:.0f}bps",
    }


def _cells(course: Course, overrides: Mapping[str, str], tell: Tell) -> Iterator[tuple[Tcp, dict[str, Any]]]:
    """Cells of the scenario: flows without results, and the plan."""
    for cell in load(_SCENARIO, overrides=course.overrides | dict(overrides)).cells():
        control, sack = (str(cell.factors[name]) for name in ("cc", "sack"))
        flows = Tcp(control.removeprefix(FOREIGN), sack == "true", (0, 0), (0, 0), (0, 0), course.rtt_ns)
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


@dataclass(frozen=True)
class _Ends:
    """Processes that serve ends of flows at a place."""

    place: Place
    command: tuple[str, ...]
    nodes: frozenset[int]
    """Hosts of the plan that are there."""


@dataclass(frozen=True)
class _Hosts:
    """Hosts of a plan that exist, and who serves them."""

    wiring: Wiring
    names: Mapping[str, str]
    """The kernels' names of congestion controls, by label."""
    ends: Sequence[_Ends]
    watch: Callable[[], None]


Made = Callable[[Plan, contextlib.ExitStack], _Hosts]
"""Makes the hosts of a plan until the stack is left."""


def _here(rig: BetweenRig, rtt_ns: int, plan: Plan, stack: contextlib.ExitStack) -> _Hosts:
    """Hosts behind interfaces of this host."""
    tag = _owner.new()
    network = stack.enter_context(Network(_behind(plan, str(tag), rig, rtt_ns), tag))
    names = stack.enter_context(kernel_names(plan, environment(tag)))
    here = stack.enter_context(Local(environment=environment(tag), take=network.take, priority=PRIORITY))
    nodes = frozenset(one.node for one in network.wiring.hosts)
    return _Hosts(network.wiring, names, [_Ends(here, (str(find("weir-agent")),), nodes)], network.watch)


def _on_nodes(rig: OverRig, rtt_ns: int, plan: Plan, stack: contextlib.ExitStack) -> _Hosts:
    """Hosts behind interfaces of nodes. Each node's journal has its hosts, and removes them when it is restored."""
    tag = _owner.new()
    wiring = wire(plan, str(tag), alone=True)
    at = {one.namespace: rig.nodes[_port(rig, one.name)] for one in wiring.hosts}
    for one in wiring.hosts:
        keeper, interface = rig.keepers[at[one.namespace]], rig.interfaces[_port(rig, one.name)]
        keeper.apply([host(one.namespace, interface.name, one.device, interface.netns)])
        stack.callback(keeper.place.run, (*keeper.prefix, "ip", "netns", "del", one.namespace))
        own = [command for command in wiring.up if _is_of(command, one) and not _makes(command)]
        own += _delay(one, rtt_ns)
        for command in own:
            keeper.place.require((*keeper.prefix, *command))
    ends = [
        _Ends(
            keeper.place,
            (*keeper.prefix, deploy(keeper, "weir-agent")),
            frozenset(one.node for one in wiring.hosts if at[one.namespace] == name),
        )
        for name, keeper in rig.keepers.items()
    ]
    names = {cc.label: cc.name.removeprefix(FOREIGN) for cc in wanted_by(plan)}
    return _Hosts(wiring, names, [one for one in ends if one.nodes], lambda: None)


def _port(rig: BetweenRig, name: str) -> int:
    """The interface of a host of the scenario."""
    return _SENDERS.get(name, len(rig.interfaces) - 1)


def _is_of(command: Command, one: Host) -> bool:
    return one.namespace in command or f"--net={one.path}" in command


def _makes(command: Command) -> bool:
    return "tuntap" in command or command[:3] == ("ip", "netns", "add")


def _real(flows: Tcp, document: dict[str, Any], made: Made) -> Tcp:
    """``flows`` of the kernels of hosts."""
    from weir import _weir

    plan = typed(document)
    merger = Merger(pa.array(_weir.event_kinds(), pa.string()))
    with contextlib.ExitStack() as stack:
        hosts = made(plan, stack)
        checks = Checks(len(plan.flows), len(plan.links), len(_weir.event_kinds()))
        session = stack.enter_context(Session(checks, Heard()))
        for which in ("to", "from"):
            started = [_started(session, one, which, document, hosts) for one in hosts.ends]
            session.await_ready([process for process in started if process is not None])
        begin = time.monotonic() + _AHEAD_S
        session.begin(round(begin * 1e9))
        for frame in session.frames(begin + plan.end_ns / 1e9 + _GRACE_S, hosts.watch):
            for _ in merger.take(frame):
                pass
        (rows,) = [found for table, found in merger.finish() if table == "flows"]
    return _counted(flows, document, {name: np.array(rows[name].to_pylist()) for name in _COLUMNS})


def _started(
    session: Session, ends: _Ends, which: Literal["to", "from"], document: dict[str, Any], hosts: _Hosts
) -> Process | None:
    """The process of the receivers (``to``) or of the senders (``from``) at a place that has any."""
    plan = typed(document)
    of = [flow.to if which == "to" else flow.from_ for flow in plan.flows]
    own: list[Mapping[str, int]] = [{which: number} for number, node in enumerate(of) if node in ends.nodes]
    if not own:
        return None
    told = [{**one.to_job(), "netns": one.path if one.node in ends.nodes else None} for one in hosts.wiring.hosts]
    task = job(renamed(document, plan), told, hosts.wiring.first_port, own, hosts.names)
    name = {"to": "receivers", "from": "senders"}[which]
    return session.start(f"{name} at {ends.place.name}", ends.place, ends.command, task)


def _behind(plan: Plan, tag: str, rig: BetweenRig, rtt_ns: int) -> Wiring:
    """Hosts whose devices are on interfaces instead of an emulator's; they send packets one by one."""
    wiring = wire(plan, tag, alone=True)
    devices = {
        one.namespace: _device(rig.interfaces[_port(rig, one.name)], one.namespace, one.device) for one in wiring.hosts
    }
    up = tuple(devices[command[2]] if "tuntap" in command else command for command in wiring.up)
    without = [one for one in {one.word: one for one in rig.interfaces}.values() if _leaves_checksums_out(one)]
    off = tuple(_checksums(one, "off") for one in without)
    on = tuple(_checksums(one, "on") for one in without)
    delays = [command for one in wiring.hosts for command in _delay(one, rtt_ns)]
    return replace(wiring, up=(*up, *off, *delays), down=(*wiring.down, *on))


def _delay(one: Host, rtt_ns: int) -> list[Command]:
    """Delays what the receiver's host sends: acknowledgements take the round-trip time, the data pass the switch."""
    if not rtt_ns or one.name in _SENDERS:
        return []
    netem = ("root", "netem", "delay", f"{rtt_ns // 1000}us", "limit", str(_DELAYED))
    return [("tc", "-n", one.namespace, "qdisc", "add", "dev", one.device, *netem)]


def _checksums(interface: Interface, state: Literal["on", "off"]) -> Command:
    """Says who writes checksums of TCP: the kernel (``off``), or nobody between virtual interfaces (``on``).

    A switch in a process, as Open vSwitch may be, passes packets without checksums, which receivers refuse.
    """
    enter = () if interface.path is None else ("nsenter", f"--net={interface.path}")
    return (*enter, "ethtool", "-K", interface.name, "tx", state)


def _leaves_checksums_out(interface: Interface) -> bool:
    """Whether it is virtual, and passes packets without checksums."""
    enter = () if interface.path is None else ("nsenter", f"--net={interface.path}")
    ran = Local().run((*enter, "ethtool", "-k", interface.name))
    return interface.virtual and b"tx-checksumming: on" in ran.out


def _device(interface: Interface, namespace: str, device: str) -> Command:
    where = ("-n", interface.netns) if interface.netns is not None else ()
    on = ("link", "add", "link", interface.name, "name", device, "netns", namespace)
    return ("ip", *where, *on, "type", "macvlan", "mode", "private")

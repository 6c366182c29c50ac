"""What the nodes of an inventory lack: in general, and for a scenario. Pure: it judges facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from weir.hosts.congestion import FOREIGN
from weir.hosts.distances import PORT, Distance, tolerance_ns
from weir.hosts.facts import Facts, Interface
from weir.hosts.place import PlaceError
from weir.hosts.ssh import ConnectError
from weir.inventory import Connection, Inventory, InventoryError, Node, used_hosts
from weir.language import show_duration, show_rate
from weir.plan import CommandSource, Flow, Plan, base_rtt_ns, bottleneck, tcp_flows

__all__ = ["Finding", "Wish", "for_scenario", "in_general", "of_distances", "tools_of"]

Severity = Literal["missing", "note"]
_LEAST_DISK = 1 << 29
_LEAST_MEMORY = 1 << 29
_MOST_OFFSET_S = 1.0
_ALIKE = 0.1
"""Rates and times that differ by less than this share are taken as those that were asked for."""


@dataclass(frozen=True)
class Finding:
    """Something that an experiment lacks, or that its reader should know."""

    severity: Severity
    text: str
    node: str = ""
    """Name of the node; empty: all of them, or what is between them."""

    def __str__(self) -> str:
        return f"{self.node}: {self.text}" if self.node else self.text


@dataclass(frozen=True)
class Wish:
    """A change of a node that an experiment makes."""

    command: str
    """As a command, for people."""
    parameter: str | None = None
    """The kernel's parameter, if it is one."""
    value: str = ""
    """Its value to be, with single spaces."""


def tools_of(plan: Plan) -> set[str]:
    """The programs that flows of ``plan`` execute."""
    commands = [flow.source for flow in plan.flows if isinstance(flow.source, CommandSource)]
    return {words[0] for one in commands for words in (one.command, one.peer) if words}


def in_general(inventory: Inventory, facts: Mapping[str, Facts], failed: Mapping[str, PlaceError]) -> Iterator[Finding]:
    """Judges nodes by what the inventory says of them, and by each other; ``facts`` and ``failed`` are by name."""
    for alias in inventory.unreserved:
        yield Finding("note", f"set {alias.alias} is not reserved: its {alias.size} nodes are not known yet")
    for node in inventory.nodes:
        if node.name in failed:
            error = failed[node.name]
            text = error.text if isinstance(error, ConnectError) else str(error).removeprefix(f"{node.name}: ")
            yield Finding("missing", text, node.name)
        elif node.name in facts:
            for finding in _of_node(node, facts[node.name]):
                yield replace(finding, node=node.name)
    yield from _unlike(inventory, facts)


def _of_node(node: Node, facts: Facts) -> Iterator[Finding]:
    yield from _of_interface(node, facts.interface(node.interface, node.experiment_address))
    if facts.synchronised is False:
        yield Finding("note", "nothing keeps its clock in time (no NTP); starts are agreed over SSH all the same")
    if abs(facts.clock_offset_s) > _MOST_OFFSET_S + facts.asked_error_s:
        yield Finding(
            "note", f"its wall clock is {facts.clock_offset_s:+.1f} s from this machine's, and so are its logs"
        )
    if facts.governor not in {None, "performance"}:
        yield Finding("note", f"its processors run at changing speeds (governor {facts.governor})")
    if facts.load is not None and facts.load > max(1, facts.processors):
        yield Finding("note", f"others use it: load {facts.load:.0f} on {facts.processors} processors")
    if facts.disk_free_bytes is not None and facts.disk_free_bytes < _LEAST_DISK:
        yield Finding("note", f"only {facts.disk_free_bytes / 1e6:.0f} MB are free on its disk")
    if facts.memory_free_bytes is not None and facts.memory_free_bytes < _LEAST_MEMORY:
        yield Finding("note", f"only {facts.memory_free_bytes / 1e6:.0f} MB of its memory are free")
    absent = [tool for tool in ("ip", "tc") if tool in facts.tools and facts.tools[tool] is None]
    if absent:
        yield Finding("missing", f"it has no {' and no '.join(absent)}: install iproute2 there")
    if not facts.rights.everything:
        yield Finding("note", _without_root(facts))


def _without_root(facts: Facts) -> str:
    """What the user cannot do, and what ``sudo -n`` would be needed for."""
    rights = facts.rights
    lacks = [
        *([] if rights.network else ["disciplines, offloads and routes"]),
        *([] if rights.writes_parameters else ["kernel parameters"]),
        *([] if rights.bpf else ["weir's congestion controls (BPF)"]),
        "modules",
    ]
    allowed = f"; `sudo -n` is allowed for {', '.join(rights.sudo)}" if rights.sudo else ""
    return f"user {facts.user} is not root: without `sudo -n` no change of {', '.join(lacks)}{allowed}"


def _of_interface(node: Node, interface: Interface | None) -> Iterator[Finding]:
    if interface is None:
        if node.interface is not None:
            yield Finding("missing", f"it has no interface {node.interface}, which the inventory names")
        elif node.experiment_address is not None:
            yield Finding("missing", f"none of its interfaces has the address {node.experiment_address}")
        return
    if not interface.up:
        yield Finding("missing", f"its interface {interface.name} is down")
    if node.experiment_address is not None and node.experiment_address not in interface.addresses:
        has = ", ".join(interface.addresses) or "none"
        yield Finding("missing", f"{interface.name} has not the address {node.experiment_address}, but {has}")
    if node.rate_bps is not None and interface.speed_bps is not None and interface.speed_bps < node.rate_bps:
        has, wanted = show_rate(interface.speed_bps), show_rate(node.rate_bps)
        yield Finding("missing", f"{interface.name} runs at {has}; the inventory says {wanted}")


def _unlike(inventory: Inventory, facts: Mapping[str, Facts]) -> Iterator[Finding]:
    """What differs between nodes of one experiment."""
    known = [node for node in inventory.nodes if node.name in facts]
    mtus = {
        node.name: interface.mtu_bytes
        for node in known
        if (interface := facts[node.name].interface(node.interface, node.experiment_address)) is not None
    }
    for what, values in (
        ("MTU", mtus),
        ("kernel", {node.name: facts[node.name].kernel for node in known}),
        ("architecture", {node.name: facts[node.name].machine for node in known}),
    ):
        counts = Counter(values.values())
        if len(counts) > 1:
            most = counts.most_common(1)[0][0]
            others = [f"{name} ({value})" for name, value in values.items() if value != most]
            shown = ", ".join(others[:8]) + (f" and {len(others) - 8} more" if len(others) > 8 else "")
            yield Finding("note", f"nodes differ in {what}: most have {most}, not {shown}")


def of_distances(distances: Iterable[Distance]) -> Iterator[Finding]:
    """Judges round-trip times that were measured by what the inventory says of them."""
    for each in distances:
        name, (one, other) = " - ".join(each.between), each.nodes
        if each.rtt_ns is None:
            text = f"{other} answers {one} neither yes nor no at port {PORT}: is there a way, or a firewall?"
            yield Finding("note", f"{name}: the round-trip time is not known: {text}")
        elif not each.holds:
            tolerated = show_duration(round(tolerance_ns(each.said_ns)))
            text = f"an RTT of {each.rtt_ns / 1e6:.3g} ms from {one} to {other}; the inventory says"
            yield Finding("missing", f"{name} has {text} {show_duration(each.said_ns)} (tolerance {tolerated})")


def for_scenario(
    inventory: Inventory, plan: Plan, facts: Mapping[str, Facts], wishes: Mapping[int, Sequence[Wish]] | None = None
) -> Iterator[Finding]:
    """Judges the nodes by what ``plan`` asks of them. Nodes without facts are judged by the inventory alone.

    ``wishes`` are what the experiment changes on the nodes, by the index of the host.
    """
    try:
        bound = _with_places(inventory).bind(plan)
    except InventoryError as error:
        yield from (Finding("missing", str(problem)) for problem in error.problems)
        return
    for host in sorted(used_hosts(plan)):
        node = bound[host]
        about = facts.get(node.name)
        for finding in _of_host(inventory, plan, host, node, about):
            yield replace(finding, node=node.name)
        if about is not None:
            for finding in _of_wishes(about, (wishes or {}).get(host, ())):
                yield replace(finding, node=node.name)
    yield from _between(inventory, plan, bound)


def _with_places(inventory: Inventory) -> Inventory:
    """``inventory`` with nodes in place of those that are not reserved, to see whether there will be enough."""
    for each in inventory.unreserved:
        nodes = [each.node(f"{each.alias}[{number}]") for number in range(1, each.size + 1)]
        inventory = inventory.with_nodes(each.alias, nodes)
    return inventory


def _of_host(inventory: Inventory, plan: Plan, host: int, node: Node, facts: Facts | None) -> Iterator[Finding]:
    interface = None if facts is None else facts.interface(node.interface, node.experiment_address)
    yield from _of_link(inventory, plan, host, node, interface)
    if facts is None:
        return
    yield from _of_controls(plan, host, facts)
    programs = {
        words[0]
        for flow in plan.flows
        if isinstance(flow.source, CommandSource)
        for at, words in zip(_ends(flow), (flow.source.command, flow.source.peer), strict=True)
        if words and at == host
    }
    for program in sorted(programs):
        if program in facts.tools and facts.tools[program] is None:
            yield Finding("missing", f"it has no program {program}, which the scenario executes")
    if inventory.network == "emulated" and not facts.rights.network:
        yield Finding("missing", "`network: emulated` needs root, CAP_NET_ADMIN, or `sudo -n`")


def _of_wishes(facts: Facts, wishes: Sequence[Wish]) -> Iterator[Finding]:
    """Names what needs root; what is as it shall be needs nothing."""
    refused = []
    for wish in wishes:
        so = wish.parameter is not None and facts.parameters.get(wish.parameter) == wish.value
        if not so and not facts.rights.root and not (wish.parameter is not None and facts.rights.writes_parameters):
            refused.append(wish.command)
    if refused and facts.rights.everything:
        yield Finding("note", f"`sudo -n` is used for: {'; '.join(refused)}")
    elif refused:
        yield Finding("missing", f"this needs root, or `sudo -n`: {'; '.join(refused)}")


def _ends(flow: Flow) -> tuple[int, int]:
    """The hosts of a program and of its peer."""
    assert isinstance(flow.source, CommandSource)
    return (flow.from_, flow.to) if flow.source.sender == "command" else (flow.to, flow.from_)


def _of_link(inventory: Inventory, plan: Plan, host: int, node: Node, interface: Interface | None) -> Iterator[Finding]:
    links = [plan.links[number] for flow in plan.flows for number in flow.path[:1] if flow.from_ == host]
    if not links:
        links = [link for link in plan.links if link.from_ == host]
    rate_bps = max((link.rate_bps for link in links), default=0)
    mtu_bytes = max((link.mtu_bytes for link in links), default=0)
    has_bps = min((bps for bps in (node.rate_bps, interface and interface.speed_bps) if bps), default=None)
    if has_bps is not None and has_bps < rate_bps:
        yield Finding("missing", f"its link has {show_rate(has_bps)}; the scenario's host has {show_rate(rate_bps)}")
    elif has_bps is not None and inventory.network == "existing" and not _alike(has_bps, rate_bps):
        text = f"its link has {show_rate(has_bps)}, the scenario's host only {show_rate(rate_bps)}"
        yield Finding("note", f"{text}; an existing network is taken as it is")
    if interface is not None and interface.mtu_bytes is not None and interface.mtu_bytes < mtu_bytes:
        yield Finding("missing", f"the MTU of {interface.name} is {interface.mtu_bytes}; the scenario's is {mtu_bytes}")


def _of_controls(plan: Plan, host: int, facts: Facts) -> Iterator[Finding]:
    names = sorted({tcp.cc for flow, tcp in tcp_flows(plan) if flow.from_ == host})
    ours = [name for name in names if not name.startswith(FOREIGN)]
    for name in (name.removeprefix(FOREIGN) for name in names if name.startswith(FOREIGN)):
        if name in facts.controls:
            if not facts.rights.network and name not in facts.allowed_controls:
                text = f"congestion control {name} is not allowed for user {facts.user}"
                yield Finding("missing", f"{text}: add it to net.ipv4.tcp_allowed_congestion_control")
        elif name not in facts.loadable_controls:
            yield Finding("missing", f"its kernel has no congestion control {name}; it has {', '.join(facts.controls)}")
        elif not facts.rights.everything:
            yield Finding(
                "missing", f"congestion control {name} is not loaded: `sudo -n modprobe tcp_{name}` is needed"
            )
    loaded = f"congestion control {', '.join(ours)}"
    if ours and not facts.rights.bpf:
        yield Finding("missing", f"{loaded} needs root, or CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN")
    if ours and not facts.btf:
        yield Finding("missing", f"{loaded} needs a kernel with BTF (/sys/kernel/btf/vmlinux)")


def _between(inventory: Inventory, plan: Plan, bound: Mapping[int, Node]) -> Iterator[Finding]:
    """Judges what is between the sets; one finding for each pair of sets."""
    flows: dict[tuple[str, str], list[Flow]] = {}
    for flow in plan.flows:
        one, other = sorted((bound[flow.from_].set, bound[flow.to].set))
        flows.setdefault((one, other), []).append(flow)
    for (one, other), several in flows.items():
        connection = inventory.connection(one, other)
        if connection is not None:
            yield from _of_connection(inventory, connection, plan, several)


def _of_connection(
    inventory: Inventory, connection: Connection, plan: Plan, flows: Iterable[Flow]
) -> Iterator[Finding]:
    name = " - ".join(connection.between)
    several = list(flows)
    rate_bps = max(bottleneck(plan, flow.path).rate_bps for flow in several)
    if connection.rate_bps is not None and connection.rate_bps < rate_bps:
        has, wanted = show_rate(connection.rate_bps), show_rate(rate_bps)
        yield Finding("missing", f"{name} has {has}; the scenario's bottleneck has {wanted}")
    elif connection.rate_bps and inventory.network == "existing" and not _alike(connection.rate_bps, rate_bps):
        text = f"{name} has {show_rate(connection.rate_bps)}, the scenario's bottleneck only {show_rate(rate_bps)}"
        yield Finding("note", f"{text}; an existing network is taken as it is")
    if connection.rtt_ns is None:
        return
    rtts = [base_rtt_ns(plan, flow) for flow in several]
    if inventory.network == "emulated" and connection.rtt_ns > min(rtts):
        has, wanted = show_duration(connection.rtt_ns), show_duration(min(rtts))
        yield Finding("missing", f"{name} has an RTT of {has}; nothing emulated can make it {wanted}")
    elif inventory.network == "existing" and not all(_alike(connection.rtt_ns, rtt) for rtt in rtts):
        least, most = show_duration(min(rtts)), show_duration(max(rtts))
        wanted = least if least == most else f"{least} to {most}"
        text = f"{name} has an RTT of {show_duration(connection.rtt_ns)}; the scenario's flows have {wanted}"
        yield Finding("note", f"{text}; an existing network is taken as it is")


def _alike(one: float, other: float) -> bool:
    return abs(one - other) <= _ALIKE * max(one, other)

"""The node between the others, on which weir's emulator is the network (``network: emulated``).

Each host of the plan has a TUN device there. What a host's node sends to another host goes to the node between, by a
route; there, a rule leads it to the host's device, where the emulator reads it. What the emulator writes to the device
of its destination, the kernel forwards to the node of that host. So the emulator sees what it sees in ``emul``: every
packet of a host at the host's device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weir.deploy import Change, deploy, entry, qdisc, route, rule, segments, sysctl, tun
from weir.hosts.jobs import job
from weir.hosts.processes import Process
from weir.hosts.rates import packets_alone, packets_per_s
from weir.hosts.session import Session
from weir.hosts.wiring import FIRST_PORT, card, wire
from weir.inventory import EmulatorNode
from weir.methods import MethodError
from weir.methods.hosts._fleet import Member
from weir.methods.hosts._settings import peers
from weir.plan import Plan

__all__ = ["FIRST", "LOOSE", "PROGRAM", "QUEUE", "Between", "device"]

PROGRAM = "weir-emu"
FIRST = 10_000
"""Of the routing tables, one for each host, and the order of the rules that lead to them."""
QUEUE = 10_000
"""Packets that wait in a device for the emulator, which takes all at once (:mod:`weir.hosts.wiring`)."""
_FEW = 3
LOOSE = "2"
"""Value of ``rp_filter`` with which a device passes packets whose source is reached by another one."""


@dataclass(frozen=True)
class _Way:
    """Between the node of the emulator and that of a host."""

    interface: str
    """Of the former."""
    gateway: str
    """Its address there, to which the latter sends."""
    is_present: bool
    """Whether packets to the host leave by that interface already."""


class Between:
    """The emulator's node, for one cell."""

    def __init__(self, plan: Plan, told: EmulatorNode, member: Member, members: Mapping[int, Member]) -> None:
        """Asks it how it reaches the nodes of hosts.

        Raises:
            MethodError: one is behind a router, so it cannot send to it directly.
        """
        self.member = member
        self._plan = plan
        self._members = members
        per_s, _ = packets_per_s(plan)
        self._alone = packets_alone(plan, per_s)
        self._ways = dict(zip(members, _ways(told, member, list(members.values())), strict=True))

    @property
    def name(self) -> str:
        """Of the node."""
        return self.member.name

    @property
    def ways(self) -> dict[int, dict[str, str]]:
        """How the node of each host sends what is for others: to the address of this node there."""
        return {host: {"via": way.gateway} for host, way in self._ways.items()}

    def changes(self) -> list[Change]:
        """What has to be changed at its node: devices, routing tables and rules; forwarding only of their devices."""
        found: list[Change] = []
        mtus = {host.node: host.mtu_bytes for host in wire(self._plan, "").hosts}
        for host, way in self._ways.items():
            if not way.is_present:
                found.append(route(self._members[host].address, [], by=way.interface))
            name = device(host)
            found += [
                tun(name, mtus[host], QUEUE),
                sysctl(f"net/ipv4/conf/{name}/rp_filter", LOOSE),
                sysctl(f"net/ipv4/conf/{name}/forwarding", "1"),
            ]
        found += [
            sysctl(f"net/ipv4/conf/{name}/forwarding", "1")
            for name in sorted({way.interface for way in self._ways.values()})
        ]
        for host, others in peers(self._plan).items():
            table = FIRST + host
            found += [entry(table, self._members[peer].address, device(host)) for peer in others]
            found.append(rule(self._members[host].address, self._ways[host].interface, table, table))
        return found

    def cards(self) -> dict[int, list[Change]]:
        """What makes the interface of each host's node the host's card: its queue (:func:`weir.hosts.wiring.card`),
        and whether trains of segments leave it (``methods.emul.offload``).

        Only an interface that the inventory names as that of the experiment is changed: control must stay fast.
        """
        found: dict[int, list[Change]] = {}
        for host, member in self._members.items():
            if _is_apart(member) and member.device is not None:
                alone = [segments(member.device, 1)] if self._alone else []
                words = card(self._plan, host, member.header_bytes)
                found[host] = alone + ([qdisc(member.device, words)] if words else [])
        return found

    def warnings(self) -> list[str]:
        """What the hosts' nodes cannot do as the hosts of the scenario would."""
        senders = {flow.from_ for flow in self._plan.flows}
        without = [
            member.name
            for host, member in self._members.items()
            if host in senders and not _is_apart(member) and card(self._plan, host)
        ]
        if not without:
            return []
        names = ", ".join(without[:_FEW]) + (", ..." if len(without) > _FEW else "")
        return [
            f"{names}: the card of a host is at {self.name}, so a sender does not feel that it is full (TCP small "
            "queues), may fill the queue behind it, and sends trains of segments. With `interface` in the inventory, "
            "weir makes that interface the card"
        ]

    def deploy(self) -> str:
        """Brings the emulator to the node; its path there."""
        if PROGRAM not in self.member.programs:
            self.member.programs[PROGRAM] = deploy(self.member.keeper, PROGRAM)
        return self.member.programs[PROGRAM]

    def start(self, session: Session, document: Mapping[str, Any]) -> tuple[Process, dict[str, Any]]:
        """Starts the emulator, and waits until packets pass; its process and job."""
        hosts = [
            {"node": host, "netns": None, "address": member.address, "device": device(host)}
            for host, member in self._members.items()
        ]
        told = job(document, hosts, FIRST_PORT)
        command = (*self.member.keeper.prefix, self.deploy())
        process = session.start(self.name, self.member.place, command, told)
        session.await_ready([process])
        return process, told


def _is_apart(member: Member) -> bool:
    """Whether the inventory names an interface of the experiment, which is then not that of control."""
    return member.node.interface is not None


def device(host: int) -> str:
    """The TUN device of the host at a node of the plan."""
    return f"weirh{host}"


def _ways(told: EmulatorNode, member: Member, nodes: Sequence[Member]) -> list[_Way]:
    """How ``member`` reaches ``nodes``."""
    wanted = [[node.address, told.interfaces.get(node.node.set)] for node in nodes]
    plain = [[node.address, None] for node in nodes]
    asked = [member.keeper.ask("ways", hosts=hosts)["ways"] for hosts in (wanted, plain)]
    found = []
    for node, way, present in zip(nodes, *asked, strict=True):
        if way["router"] is not None:
            raise MethodError(
                f"{member.name} reaches {node.name} ({node.address}) by a router ({way['router']}): the emulator's "
                "node needs an interface in the network of each node, which `emulator.interfaces` may name"
            )
        if way["device"] is None or way["source"] is None or way["source"] == node.address:
            raise MethodError(f"{member.name} has no way to {node.name} ({node.address})")
        found.append(_Way(way["device"], way["source"], present["device"] == way["device"]))
    return found

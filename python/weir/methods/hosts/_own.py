"""``network: emulated`` without a node between: weir's emulator on the node of each host, for what that host sends.

A route leads what the host sends to a TUN device, where the emulator reads it. What the emulator writes to the device
of the destination, the kernel takes for a packet that came from there, and a rule leads it to the destination by the
way that it would have taken without weir. What a host receives was emulated where it was sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weir.deploy import Change, deploy, entry, qdisc, rule, segments, sysctl, tun
from weir.hosts import ends
from weir.hosts.jobs import job
from weir.hosts.processes import Process
from weir.hosts.rates import packets_alone, packets_per_s
from weir.hosts.session import Session
from weir.hosts.wiring import FIRST_PORT, card, mtu
from weir.methods import MethodError
from weir.methods.hosts._emulator import FIRST, LOOSE, PROGRAM, QUEUE, device
from weir.methods.hosts._fleet import Member, together
from weir.methods.hosts._settings import peers
from weir.plan import Plan

__all__ = ["Own"]

_DUMMY = "192.0.0.8"
"""Address of devices of destinations (RFC 7600). Nobody sends to it, but without any address, a device passes no packet
whose source is reached by another one, whatever ``rp_filter`` is.
"""


class Own:
    """The emulators at the hosts, for one cell."""

    def __init__(self, plan: Plan, members: Mapping[int, Member]) -> None:
        """Asks each node how it reaches the others, unless it was asked before it was changed.

        Raises:
            MethodError: one has no way to another.
        """
        self._plan = plan
        self._members = members
        self._peers = peers(plan)
        per_s, _ = packets_per_s(plan)
        self._alone = packets_alone(plan, per_s)
        together(lambda host: _ask(members[host], [members[peer] for peer in self._peers[host]]), self._peers)

    @property
    def ways(self) -> dict[int, dict[str, str]]:
        """How the node of each host sends what is for others: to its own emulator."""
        return {host: {"by": device(host)} for host in self._members}

    def changes(self, host: int) -> list[Change]:
        """What has to be changed at the node of ``host`` before its routes lead to the emulator."""
        member, size = self._members[host], mtu(self._plan, host)
        found: list[Change] = [tun(device(host), size, QUEUE)]
        interfaces = sorted({member.ways[self._members[peer].address]["device"] for peer in self._peers[host]})
        # Packets of others come by an interface, and answers to them leave by the emulator's.
        found += [sysctl(f"net/ipv4/conf/{name}/rp_filter", LOOSE) for name in interfaces]
        if self._alone:
            found.append(segments(device(host), 1))
        if words := card(self._plan, host):
            found.append(qdisc(device(host), words))
        for peer in self._peers[host]:
            name, other = device(peer), self._members[peer]
            way = member.ways[other.address]
            found.append(tun(name, size, QUEUE, _DUMMY))
            settings = {"accept_local": "1", "rp_filter": LOOSE, "forwarding": "1"}
            found += [sysctl(f"net/ipv4/conf/{name}/{key}", value) for key, value in settings.items()]
            found.append(entry(FIRST + peer, other.address, way["device"], way.get("via")))
            found.append(rule(member.address, name, FIRST + peer, FIRST + peer))
        return found

    def deploy(self) -> None:
        """Brings the emulator to the nodes."""
        together(_program, self._members.values())

    def start(self, session: Session, document: Mapping[str, Any]) -> list[tuple[Member, Process, dict[str, Any]]]:
        """Starts the emulators, and waits until packets pass; each with its node and job."""
        started = []
        for host, member in self._members.items():
            hosts = [
                {"node": node, "netns": None, "address": self._members[node].address, "device": device(node)}
                for node in (host, *self._peers[host])
            ]
            told = job(ends.part(document, self._plan, host), hosts, FIRST_PORT)
            command = (*member.keeper.prefix, _program(member))
            process = session.start(f"{member.name}.emulator", member.place, command, told)
            started.append((member, process, told))
        session.await_ready([process for _, process, _ in started])
        return started


def _program(member: Member) -> str:
    if PROGRAM not in member.programs:
        member.programs[PROGRAM] = deploy(member.keeper, PROGRAM)
    return member.programs[PROGRAM]


def _ask(member: Member, others: list[Member]) -> None:
    """Notes how ``member`` reaches ``others`` without an emulator: later, its routes say how it does with one."""
    asked = [other for other in others if other.address not in member.ways]
    if not asked:
        return
    answer = member.keeper.ask("ways", hosts=[[other.address, None] for other in asked])
    for other, way in zip(asked, answer["ways"], strict=True):
        if way["device"] is None or way["source"] == other.address:
            raise MethodError(f"{member.name} has no way to {other.name} ({other.address})")
        via = {} if way["router"] is None else {"via": way["router"]}
        member.ways[other.address] = {"device": way["device"], **via}

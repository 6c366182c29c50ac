"""Writes what the components of hosts can do into plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from weir.language.problem import Log, choose
from weir.language.spec import Spec

from ._lang_hosts import HostSpec, Work
from ._network import Network

__all__ = ["capacities", "refuse_other_transports"]


def capacities(hosts: Mapping[str, HostSpec] | None, net: Network, log: Log) -> dict[int, dict[str, Any]]:
    """By node: the capacity of a host in the form of the plan.

    A key names a host, or hosts of that name with different numbers. Components under a host's own name replace those
    under the other.

    Raises:
        Invalid: no host has that name, or a rate is 0; the reasons are in ``log``.
    """
    given = hosts or {}
    names = {name: number for number, (name, host) in enumerate(net.nodes) if host}
    found = dict[int, dict[str, Any]]()
    used = set[str]()
    for name, number in names.items():
        words = dict.fromkeys((name.rstrip("0123456789"), name))
        used |= words.keys()
        parts = [_capacity(given[word]) for word in words if word in given]
        if parts:
            found[number] = {component: value for part in parts for component, value in part.items()}
    for word, spec in given.items():
        if word not in used:
            log.error(spec.mark, f"there is no host `{word}`{choose(word, list(names))}")
        for place, key in _stopped(spec):
            log.error(place.at(key), f"a rate of 0 in the host `{word}`; no packet could pass")
    return found


def refuse_other_transports(
    hosts: Mapping[str, HostSpec] | None,
    nodes: Sequence[Mapping[str, Any]],
    flows: Sequence[Mapping[str, Any]],
    log: Log,
) -> None:
    """Logs an error if a flow of a host with a capacity is not over TCP."""
    given = hosts or {}
    for flow in flows:
        limited = [nodes[end]["name"] for end in (flow["from"], flow["to"]) if "capacity" in nodes[end]]
        if limited and flow["transport"]["protocol"] != "tcp":
            text = f"flow `{flow['name']}` is not over TCP, and the components of host `{limited[0]}` take time"
            spec = given[_word(limited[0], given)]
            log.error(spec.mark, f"{text}; expected TCP, whose windows close while packets wait")
            return


def _word(name: str, given: Mapping[str, HostSpec]) -> str:
    """The key that may be about a host: its name, or its name without the number."""
    return name if name in given else name.rstrip("0123456789")


def _capacity(spec: HostSpec) -> dict[str, Any]:
    plan = dict[str, Any]()
    if spec.processor is not None:
        cores, ack = spec.processor.cores, spec.processor.ack
        send, receive = _work(spec.processor.send), _work(spec.processor.receive)
        plan["processor"] = {"cores": cores, "send": send, "receive": receive, "ack_ns": ack}
    if spec.memory is not None:
        plan["memory"] = {"rate_bps": spec.memory.rate, "passes": spec.memory.passes}
    if spec.bus is not None:
        plan["bus_bps"] = spec.bus
    if spec.disk is not None:
        plan["disk"] = {"read_bps": spec.disk.read or 0, "write_bps": spec.disk.write or 0}
    return plan


def _work(work: Work) -> dict[str, int]:
    return {"packet_ns": work.packet, "copy_bps": work.copy or 0}


def _stopped(spec: HostSpec) -> Iterator[tuple[Spec, str]]:
    """The keys of rates that are 0, each with its mapping."""
    rates: list[tuple[Spec | None, str]] = [(spec, "bus"), (spec.memory, "rate")]
    rates += [(spec.disk, "read"), (spec.disk, "write")]
    if spec.processor is not None:
        rates += [(spec.processor.send, "copy"), (spec.processor.receive, "copy")]
    for place, key in rates:
        if place is not None and getattr(place, key) == 0:
            yield place, key

"""Compiles one cell of a scenario into a plan, and checks that physics and this machine permit it."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from weir.language.problem import Invalid, Log, choose, gather
from weir.language.units import show_duration
from weir.plan import phase_ports, phase_remark, typed

from ._changes import changes_plan
from ._class_members import assign_members
from ._distribution import draw
from ._flows import Group, groups_of
from ._hosts import capacities, refuse_other_transports
from ._idle_queues import remark_on_idle_queues
from ._lang_scenario import Acks, Body, Instant, Trace
from ._low_latency import remark_on_classic_marks
from ._native import UNTRACED
from ._network import Link, Network
from ._selector import Selector
from ._switch import switch_plan
from ._switch_file import completed
from ._topologies import build
from ._transmit_queues import set_transmit_queues

__all__ = ["Context", "compile_plan"]

PLAN_VERSION = 1
_FIRST_RTO_NS = 1_000_000_000
_DELAY_ROWS = 16
"""Approximate rows of `delay_bins` per flow and interval."""
_WARN_ROWS, _MAX_ROWS = 100_000_000, 10_000_000_000
_WARN_MEMORY, _MAX_MEMORY = 4 << 30, 64 << 30
_BYTES_A_PACKET = 64
_SHORTEST_INTERVAL_NS = 1000
_WARN_PACKETS, _MAX_PACKETS = 10**11, 10**13
"""A simulation of so many takes hours, or months."""


@dataclass(frozen=True)
class Context:
    """The context of a plan besides the scenario's body: title, seed of the repeat, the scenario's folder."""

    title: str
    seed: int
    folder: str = ""


def compile_plan(body: Body, context: Context, log: Log) -> dict[str, Any]:
    """Compiles the plan of one cell, as ``weir-plan`` defines it.

    Raises:
        Invalid: there is no such plan; the reasons are in ``log``.
    """
    net = build(body.topology, log)
    for number, switch in net.switches.items():
        net.switches[number] = completed(switch, context.folder, log)
    with suppress(Invalid):
        links = list(gather(partial(link.plan, net.rtt, log) for link in net.links))
        nodes = _nodes(body, net, log)
    groups = groups_of(body, net, context.seed, context.folder, log)
    if log.failed:
        raise Invalid
    end = _end(body, groups, log)
    flows = _flows(groups, end, body, log)
    refuse_other_transports(body.hosts, nodes, flows, log)
    set_transmit_queues(groups, net, links, log)
    assign_members(net, links, flows, log)
    remark_on_classic_marks(net, links, flows, log)
    changes = changes_plan(body, net, links, end, context.folder, log)
    remark_on_idle_queues(net, links, changes, log)
    plan = {
        "version": PLAN_VERSION,
        "title": context.title,
        "seed": context.seed,
        "end_ns": end,
        "nodes": nodes,
        "links": [_clocked(link, plan, context.seed) for link, plan in zip(net.links, links, strict=True)],
        "flows": flows,
        "changes": changes,
        "measure": _measure(body, flows, groups, end, log) | {"links": _recorded(body, net)},
        "phases": _phases(body, groups, end, log),
        "methods": body.methods.plan(),
    }
    _check_times(body, groups, end, log)
    _check_size(body, plan, log)
    if log.failed:
        raise Invalid
    if net.switches:
        _remark_on_phases(net, plan, log)
    return plan


def _remark_on_phases(net: Network, plan: dict[str, Any], log: Log) -> None:
    """Tells of the ports of switches whose shares real clocks would not give."""
    made = typed(plan)
    for port in phase_ports(made):
        log.info(net.switches[made.links[port.link].from_].mark, phase_remark(made, port))


def _nodes(body: Body, net: Network, log: Log) -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = [{"name": name, "kind": "host" if host else "router"} for name, host in net.nodes]
    for number, switch in gather([partial(_switch, net, number, log) for number in net.switches]):
        nodes[number]["switch"] = switch
    for number, capacity in capacities(body.hosts, net, log).items():
        nodes[number]["capacity"] = capacity
    return nodes


def _switch(net: Network, number: int, log: Log) -> tuple[int, dict[str, Any]]:
    return number, switch_plan(net, number, log)


def _clocked(link: Link, plan: dict[str, Any], seed: int) -> dict[str, Any]:
    """The plan of a link whose transmitter's clock has a random error, if the scenario permits one."""
    if link.clocks == 0.0:
        return plan
    off = draw()(seed, f"clock/{link.name}", {"kind": "uniform", "low": 0.0, "high": 2.0}, 1)[0] - 1.0
    return {**plan, "rate_bps": round(link.rate * (1.0 + off * link.clocks))}


def _end(body: Body, groups: list[Group], log: Log) -> int:
    if body.duration is not None:
        if body.duration == 0:
            raise log.error(body.at("duration"), "a run of no time")
        return body.duration
    stops = [flow.stop for group in groups for flow in group.flows if flow.stop is not None]
    if not stops:
        raise log.error(body.mark, "the run has no end: give `duration`, or `until` in the workload")
    return max(stops)


def _flows(groups: list[Group], end: int, body: Body, log: Log) -> list[dict[str, Any]]:
    flows: list[dict[str, Any]] = []
    for group in groups:
        try:
            flows += group.plans(end)
        except Invalid:
            continue
    if not flows and not log.failed:
        log.warn(body.at("workload"), "no traffic at all: every level is 0")
    return sorted(flows, key=lambda flow: flow["start_ns"])


def _recorded(body: Body, net: Network) -> list[int]:
    """Indices of the recorded links; empty for all of them, as in the plan."""
    if body.measure.record == "all":
        return []
    hosts = [host for _, host in net.nodes]
    return [i for i, link in enumerate(net.links) if not (hosts[link.start] or hosts[link.end])]


def _measure(body: Body, flows: list[dict[str, Any]], groups: list[Group], end: int, log: Log) -> dict[str, Any]:
    measure = body.measure
    for name in ("goodput", "tcp", "links", "delay"):
        interval: int = getattr(measure, name)
        if 0 < interval < _SHORTEST_INTERVAL_NS:
            log.error(measure.at(name), f"an interval of {interval}ns is too short; the shortest is 1us")
        elif interval > end:
            text = f"`{name}` is measured every {show_duration(interval)}, and the run lasts {show_duration(end)}"
            log.warn(measure.at(name), f"{text}: its metrics have no values; give a shorter interval")
    plan: dict[str, Any] = {"goodput_ns": measure.goodput, "tcp_ns": measure.tcp, "links_ns": measure.links}
    # A plan without delay measurement has no such key: its text, and so its hash, is the same as in older versions.
    if measure.delay:
        plan["delay_ns"] = measure.delay
    trace, acks = measure.trace, measure.acks
    plan["trace"] = None
    if trace is not None:
        plan["trace"] = {**_chosen("trace", trace, flows, groups, end, log), "max_packets": trace.max_packets}
        _refuse_native(plan["trace"]["flows"], flows, trace, log)
    if acks is not None:  # as with delays
        plan["acks"] = {**_chosen("record", acks, flows, groups, end, log), "max_rows": acks.max_rows}
    return plan


def _chosen(
    what: str, given: Trace | Acks, flows: list[dict[str, Any]], groups: list[Group], end: int, log: Log
) -> dict[str, Any]:
    """The flows and the window of a trace or a record."""
    to = end if given.to is None else given.to
    if given.from_ >= to or given.from_ >= end:
        log.error(
            given.at("from"),
            f"the {what} ends before it begins: from {show_duration(given.from_)} to {show_duration(min(to, end))}",
        )
    chosen = [i for s in given.flows for i in _traced(s, flows, groups, log)]
    return {"flows": sorted(set(chosen)), "from_ns": given.from_, "to_ns": to}


def _refuse_native(chosen: list[int], flows: list[dict[str, Any]], trace: Trace, log: Log) -> None:
    """Logs an error if a traced flow has a transport whose headers no trace has."""
    for number in chosen or range(len(flows)):
        protocol = flows[number]["transport"]["protocol"]
        if protocol in UNTRACED:
            name, title = flows[number]["name"], UNTRACED[protocol]
            text = f"the trace would have flow `{name}` over {title}; it has TCP and UDP only: name others in `flows`"
            log.error(trace.at("flows") if trace.flows else trace.mark, text)
            return


def _group(selector: Selector, groups: list[Group], log: Log) -> Group:
    for group in groups:
        if group.entry.name == selector.name:
            return group
    names = [g.entry.name for g in groups]
    raise log.error(selector.mark, f"there is no workload entry `{selector.name}`{choose(selector.name, names)}")


def _traced(selector: Selector, flows: list[dict[str, Any]], groups: list[Group], log: Log) -> list[int]:
    try:
        count = len(_group(selector, groups, log).flows)
    except Invalid:
        return []
    if selector.indices is not None and max(selector.indices) >= count:
        log.error(selector.mark, f"no flow {max(selector.indices)} in `{selector.name}`: it has {count}, from 0")
    wanted = selector.indices
    return [i for i, f in enumerate(flows) if f["group"] == selector.name and (wanted is None or f["index"] in wanted)]


def _phases(body: Body, groups: list[Group], end: int, log: Log) -> list[dict[str, Any]]:
    plans = []
    for name, phase in (body.phases or {}).items():
        try:
            start = _instant(phase.from_, groups, log)
            stop = end if phase.to is None else _instant(phase.to, groups, log)
        except Invalid:
            continue
        window = f"from {show_duration(start)} to {show_duration(stop)}"
        if start >= stop:
            log.error(phase.at("to"), f"phase `{name}` ends before it begins: {window}")
        elif stop > end:
            log.error(phase.at("to"), f"phase `{name}` {window} ends after the run, at {show_duration(end)}")
        plans.append({"name": name, "from_ns": start, "to_ns": stop})
    return plans


def _instant(instant: Instant, groups: list[Group], log: Log) -> int:
    base = 0
    selector = instant.flow
    if selector is not None:
        flows = _group(selector, groups, log).flows
        if selector.indices is None or len(selector.indices) != 1:
            raise log.error(selector.mark, f"expected one flow, such as `{selector.name}[0]`")
        index = selector.indices[0]
        if index >= len(flows):
            raise log.error(selector.mark, f"no flow {index} in `{selector.name}`: it has {len(flows)}, from 0")
        flow = flows[index]
        base = flow.start
        if instant.at_ == "stop":
            if flow.stop is None:
                raise log.error(selector.mark, f"flow `{selector.name}[{index}]` has no stop time before the run")
            base = flow.stop
    if base + instant.plus < instant.minus:
        raise log.error(instant.mark, "this instant is before the run")
    return base + instant.plus - instant.minus


def _check_times(body: Body, groups: list[Group], end: int, log: Log) -> None:
    """Warns about times that make results useless."""
    for group in groups:
        if not group.flows:
            continue
        entry = group.entry
        late = [flow for flow in group.flows if flow.stop is not None and flow.stop > end]
        if late:
            text = f"flow `{entry.name}[{late[0].index}]` would stop after the run, which ends at {show_duration(end)}"
            log.warn(next((entry.at(n) for n in ("until", "stop", "duration") if entry.has(n)), entry.mark), text)
        rtt = max(flow.rtt for flow in group.flows)
        if rtt >= _FIRST_RTO_NS and not group.udp:
            text = (
                f"an RTT of {show_duration(rtt)} is beyond the first RTO of 1 s: every connection starts with a timeout"
            )
            log.warn(body.topology.at("rtt"), text)
        if any(0 < (flow.stop or end) - flow.start < 10 * flow.rtt for flow in group.flows):
            log.warn(entry.mark, f"flows of `{entry.name}` last less than 10 RTTs of {show_duration(rtt)}")


def _check_size(body: Body, plan: dict[str, Any], log: Log) -> None:
    """Refuses runs that no machine can hold, and warns about large ones."""
    end, measure = plan["end_ns"], body.measure
    counts = {
        "goodput": len(plan["flows"]),
        "tcp": len(plan["flows"]),
        "links": len(plan["measure"]["links"]) or len(plan["links"]),
        "delay": _DELAY_ROWS * len(plan["flows"]),
    }
    for name, count in counts.items():
        interval: int = getattr(measure, name)
        rows = count * end // interval if interval else 0
        place = measure.at(name) if body.has("measure") else body.at("topology")
        if rows > _MAX_ROWS:
            log.error(place, f"table of `{name}` would have {rows:.2g} rows; take a longer interval")
        elif rows > _WARN_ROWS:
            log.warn(place, f"table of `{name}` will have {rows:.2g} rows; consider a longer interval")
    packets = _packets(plan)
    if packets > _MAX_PACKETS:
        text = f"about {packets:.2g} packets, more than {_MAX_PACKETS:.0g}, would take months"
        log.error(body.at("workload"), f"{text}; expected a shorter run, lower rates or smaller transfers")
    elif packets > _WARN_PACKETS:
        log.warn(body.at("workload"), f"about {packets:.2g} packets will take hours or days")
    memory = _memory(plan)
    if memory > _MAX_MEMORY:
        log.error(
            body.at("topology"), f"about {memory / 2**30:.0f} GiB of packets could be in flight; no simulation holds it"
        )
    elif memory > _WARN_MEMORY:
        log.warn(body.at("topology"), f"up to {memory / 2**30:.1f} GiB of packets could be in flight")


def _packets(plan: dict[str, Any]) -> float:
    """Estimated number of data packets if flows fill the slowest links of their paths: an order of magnitude."""
    links, asked, smallest = plan["links"], dict[int, float](), 65_535
    for flow in plan["flows"]:
        slowest = min(flow["path"], key=lambda i: links[i]["rate_bps"])
        source, tcp = flow["source"], flow["transport"]
        rate = min(links[slowest]["rate_bps"], source.get("rate_bps") or math.inf)
        most = rate / 8e9 * (min(flow["stop_ns"] or plan["end_ns"], plan["end_ns"]) - flow["start_ns"])
        if source["kind"] == "transfers":
            most = min(most, sum(transfer["bytes"] for transfer in source["transfers"]))
        size = tcp["mss_bytes"] if tcp["protocol"] == "tcp" else tcp["payload_bytes"]
        asked[slowest] = asked.get(slowest, 0.0) + most / size
        smallest = min(smallest, size)
    return sum(min(n, float(links[i]["rate_bps"] / 8e9 * plan["end_ns"] / smallest)) for i, n in asked.items())


def _memory(plan: dict[str, Any]) -> int:
    """Bytes for the packets in flight, limited by windows and by the capacity of links and queues."""
    held = 0
    for link in plan["links"]:
        packet = link["mtu_bytes"] + link["overhead_bytes"]
        limit = link["queue"]["limit"]
        held += limit["packets"] if limit["packets"] is not None else limit["bytes"] // packet
        held += link["rate_bps"] * link["delay"]["delay_ns"] // (8_000_000_000 * packet)
    windows = 0
    for flow in plan["flows"]:
        tcp = flow["transport"]
        if tcp["protocol"] != "tcp":
            windows = held
            break
        windows += min(tcp["send_buffer_bytes"], tcp["receive_buffer_bytes"]) // tcp["mss_bytes"]
    return min(held, windows) * _BYTES_A_PACKET

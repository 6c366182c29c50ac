"""Builds nodes and links from a scenario's topology.

Each kind of topology is one function, registered in `_BUILDERS`. All of them put a host's transmit queue at its first
link, and make the propagation delays of a pair add up to its RTT.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

from weir.language.problem import Invalid, Log, Mark, choose, gather
from weir.language.spec import Spec
from weir.language.units import DELAY, Amount, show_duration

from . import _lang_network as lang
from ._lang_links import LinkSpec
from ._lang_queues import packets, sized
from ._network import Link, Network, check_link

__all__ = ["build"]

MAX_LINKS = 100_000
_BEHIND_SWITCH = packets(4)
"""The queue of a link that leaves a switch, which forwards a packet when the link is idle: it stays empty."""


def build(topology: Spec, log: Log) -> Network:
    """The network of a topology.

    Raises:
        Invalid: no such network can exist; the reasons are in ``log``.
    """
    network = Network(log, topology.mark)
    _BUILDERS[type(topology)](topology, network)
    gather(partial(check_link, link, log) for link in network.links)
    return network


def _spread(values: Sequence[Any], n: int, what: str, mark: Mark, log: Log) -> list[Any]:
    """One value for all, or one for each of ``n``."""
    if len(values) not in (1, n):
        raise log.error(mark, f"{len(values)} values for {n} {what}; expected 1 or {n}")
    return list(values) * n if len(values) == 1 else list(values)


@dataclass(frozen=True)
class _Side:
    """The access links of one side: rates and a delay for each pair."""

    rates: list[int]
    """From the host."""
    down: list[int]
    """Towards the host."""
    delays: list[int]
    queue: Amount
    mark: Mark
    clocks: float
    queue_is_default: bool


def _side(access: lang.Access, default: Sequence[int] | None, n: int, log: Log) -> _Side:
    given = access.rate if access.rate is not None else default
    if given is None:
        raise log.error(access.mark, "`rate` is missing: the rate of the access links")
    rates = _spread(given, n, "pairs", access.at("rate"), log)
    delays = _spread(access.delay or (0,), n, "pairs", access.at("delay"), log)
    down = rates if access.down is None else _spread(access.down, n, "pairs", access.at("down"), log)
    is_default = "queue" not in access.marks
    return _Side(rates, down, delays, access.queue, access.at("rate"), access.clocks, is_default)


def _check_names(spec: lang.Dumbbell | lang.Hierarchical, log: Log) -> None:
    """Refuses two names of one parameter."""
    link = spec.bottleneck if spec.bottleneck is not None else LinkSpec()
    access = spec.access if spec.access is not None else lang.Access()
    twice = {
        "multiplexing": ("`pairs`", spec.pairs is not None),
        "capacity": ("`bottleneck.rate`", link.rate is not None),
        "buffer": ("`bottleneck.queue`", link.queue is not None),
        "aggregation": ("`access.rate`", access.rate is not None),
    }
    for name, (other, given) in twice.items():
        if given and spec.has(name):
            log.error(spec.at(name), f"`{name}` and {other} say the same; give one")


def _pairs(spec: lang.Dumbbell | lang.Hierarchical, log: Log) -> int:
    n = spec.pairs if spec.pairs is not None else spec.multiplexing
    if n is None:
        raise log.error(spec.mark, "`pairs` is missing: the number of pairs of source and sink")
    return n


def _shared_link(spec: lang.Dumbbell | lang.Hierarchical, log: Log) -> LinkSpec:
    """The shared link, from `bottleneck` and the thesis' own names for its parameters."""
    link = spec.bottleneck if spec.bottleneck is not None else LinkSpec(mark=spec.mark)
    if spec.capacity is not None:
        link = replace(link, rate=spec.capacity, marks={**link.marks, "rate": spec.at("capacity")})
    if spec.buffer is not None:
        mark = spec.at("buffer")
        link = replace(link, queue=sized(spec.buffer, mark), marks={**link.marks, "queue": mark})
    if link.rate is None:
        raise log.error(link.mark, "the bottleneck has no `rate` (or `capacity`)")
    return link


def _access_sides(spec: lang.Dumbbell | lang.Hierarchical, capacity: int, n: int, log: Log) -> tuple[_Side, _Side]:
    access = spec.access
    rates = None if spec.aggregation is None else [round(Fraction(capacity) / Fraction(spec.aggregation))]
    if access is None and rates is None:
        raise log.error(
            spec.mark, "`access` is missing: `access: {rate: ...}`, or the aggregation level as `aggregation`"
        )
    if access is None:
        access = lang.Access(mark=spec.at("aggregation"))
    source = _side(access, rates, n, log)
    return source, source if spec.sink_access is None else _side(spec.sink_access, source.rates, n, log)


def _links_of(spec: LinkSpec, reverse: LinkSpec | None, common: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of both directions of a link: losses, jitter and reordering only in the direction given."""
    shared = {
        "rate": spec.rate,
        "delay": spec.delay,
        "queue": spec.queue,
        "mtu": spec.mtu if spec.mtu is not None else common.mtu,
        "overhead": spec.overhead if spec.overhead is not None else common.overhead,
    }
    forward = {**shared, "loss": spec.loss, "jitter": spec.jitter, "reorder": spec.reorder}
    forward["mark"] = spec.at("rate")
    back = {**shared, "loss": None, "jitter": None, "reorder": None, "mark": spec.at("rate")}
    if reverse is not None:
        given = {n: getattr(reverse, n) for n in forward if n != "mark" and getattr(reverse, n) is not None}
        back |= {**given, "mark": reverse.at("rate")}
    return forward, back


def _complete(settings: dict[str, Any], log: Log) -> None:
    """Completes a link's settings: no delay, and a drop-tail queue of one BDP, with a note."""
    settings["delay"] = settings["delay"] or 0
    if settings["queue"] is None:
        settings["queue"] = Amount(Fraction(1), "bdp")
        log.info(settings["mark"], "this link has no `queue` and gets a drop-tail queue of 1bdp")


def _host_links(net: Network, name: str, router: int, side: _Side, i: int, common: Any) -> tuple[int, int, int]:
    """A host and its two links: the host, the link from it, the link to it."""
    host = net.node(name, host=True, mark=side.mark)
    at = net.nodes[router][0]
    settings = {
        "rate": side.rates[i],
        "delay": side.delays[i],
        "mtu": common.mtu,
        "overhead": common.overhead,
        "queue": side.queue,
        "queue_is_default": side.queue_is_default,
        "mark": side.mark,
    }
    up = net.link(Link(f"{name}->{at}", host, router, nic=True, clocks=side.clocks, **settings))
    down = net.link(Link(f"{at}->{name}", router, host, **{**settings, "rate": side.down[i]}))
    return host, up, down


def _refuse_rtt(net: Network, mark: Mark, asked: int, least: int) -> None:
    """Reports an RTT below the delays of the links."""
    text = f"an RTT of {show_duration(asked)} is impossible: the links' own delays add up to {show_duration(least)}"
    raise net.log.error(mark, text)


def _lengthen(net: Network, down: int, up: int, missing: int) -> None:
    """Adds a two-way delay to the two directions of one access link."""
    net.lengthen(down, missing - missing // 2)
    net.lengthen(up, missing // 2)


def _check_size(links: int, mark: Mark, log: Log) -> None:
    if links > MAX_LINKS:
        raise log.error(mark, f"{links} links are too many; the limit is {MAX_LINKS}")


@dataclass(frozen=True)
class _Plan:
    """The parts of a dumbbell."""

    n: int
    forward: dict[str, Any]
    back: dict[str, Any]
    sides: tuple[_Side, _Side]
    rtts: list[int] | None
    free: bool  # whether the RTT determines the bottleneck's delay


def _plan(spec: lang.Dumbbell | lang.Hierarchical, log: Log) -> _Plan:
    _check_names(spec, log)
    n = _pairs(spec, log)
    shared = _shared_link(spec, log)
    forward, back = _links_of(shared, spec.reverse, spec)
    free = forward["delay"] is None and back["delay"] is None
    rtts, sides = None, None
    with suppress(Invalid):
        sides = _access_sides(spec, shared.rate or 0, n, log)
    if spec.rtt is not None:
        rtts = _rtts(spec, n, log)
    elif free:
        raise log.error(spec.mark, "`rtt` is missing (or the `delay` of the bottleneck)")
    elif spec.rtt_spread is not None:
        raise log.error(spec.at("rtt_spread"), "`rtt_spread` is in multiples of `rtt`, which is missing")
    if sides is None or log.failed:
        raise Invalid
    for settings in (forward, back):
        _complete(settings, log)
    return _Plan(n, forward, back, sides, rtts, free)


def _rtts(spec: lang.Dumbbell | lang.Hierarchical, n: int, log: Log) -> list[int]:
    """The RTT of each pair."""
    base = _spread(spec.rtt or (), n, "pairs", spec.at("rtt"), log)
    if spec.rtt_spread is None:
        return base
    shares = _spread(spec.rtt_spread, n, "pairs", spec.at("rtt_spread"), log)
    rtts = [round(rtt * Fraction(str(share))) for rtt, share in zip(base, shares, strict=True)]
    if max(rtts) > DELAY.most:
        message = f"an RTT of {show_duration(max(rtts))}; the largest is {DELAY.most_text}"
        raise log.error(spec.at("rtt_spread"), message)
    return rtts


def _paired(spec: lang.Dumbbell | lang.Hierarchical, net: Network, levels: Sequence[lang.Level]) -> None:
    """A dumbbell, hierarchical if there are levels."""
    plan = _plan(spec, net.log)
    left = net.node("left", host=False, mark=spec.mark)
    right = net.node("right", host=False, mark=spec.mark)
    there = net.link(Link("bottleneck", left, right, **plan.forward))
    back = net.link(Link("bottleneck.reverse", right, left, **plan.back))
    net.bottleneck = (there, back)
    leaves = _tree(net, left, levels, spec), _tree(net, right, levels, spec)
    _check_size(4 * plan.n + len(net.links), spec.mark, net.log)
    pairs: list[tuple[int, int]] = []
    ends: list[tuple[int, int]] = []
    for i in range(plan.n):
        source, _, _ = _host_links(net, f"src{i}", leaves[0][i % len(leaves[0])], plan.sides[0], i, spec)
        sink, up, down = _host_links(net, f"dst{i}", leaves[1][i % len(leaves[1])], plan.sides[1], i, spec)
        pairs.append((source, sink))
        ends.append((down, up))
    net.groups["pairs"] = pairs
    own = [_own_rtt(net, pair) for pair in pairs]
    if plan.rtts is not None:
        _fit_rtts(net, spec.at("rtt"), own, plan.rtts, ends, [net.bottleneck] if plan.free else [])
    rtts = plan.rtts if plan.rtts is not None else own
    net.rtt = round(Fraction(sum(rtts), len(rtts)))


def _own_rtt(net: Network, pair: tuple[int, int]) -> int:
    there, back = net.path(*pair), net.path(pair[1], pair[0])
    return (there.delay if there else 0) + (back.delay if back else 0)


def _fit_rtts(
    net: Network,
    mark: Mark,
    own: list[int],
    rtts: list[int],
    ends: list[tuple[int, int]],
    shared: list[tuple[int, int]],
) -> None:
    """Adds delay so that each pair has its RTT.

    Delay that all pairs lack is spread over the ``shared`` links (there and back). Further delay of single pairs goes
    to the receivers' access links ``ends`` (to and from).
    """
    missing = [rtt - has for rtt, has in zip(rtts, own, strict=True)]
    worst = min(range(len(missing)), key=missing.__getitem__)
    if missing[worst] < 0:
        _refuse_rtt(net, mark, rtts[worst], own[worst])
    common = missing[worst] if shared else 0
    for i, (there, back) in enumerate(shared):
        _lengthen(net, there, back, common * (i + 1) // len(shared) - common * i // len(shared))
    for m, (down, up) in zip(missing, ends, strict=True):
        _lengthen(net, down, up, m - common)


def _tree(net: Network, root: int, levels: Sequence[lang.Level], spec: lang.Dumbbell | lang.Hierarchical) -> list[int]:
    """The leaves of one side, ordered so that neighbours are far apart in the tree."""
    leaves = [root]
    inwards = net.nodes[root][0] == "left"
    for level in levels:
        _check_size(len(leaves) * level.branches * 2 + len(net.links), level.mark, net.log)
        parents, leaves = leaves, []
        for branch in range(level.branches):
            leaves += [_branch(net, parent, branch, level, spec, inwards) for parent in parents]
    return leaves


def _branch(
    net: Network,
    parent: int,
    branch: int,
    level: lang.Level,
    spec: lang.Dumbbell | lang.Hierarchical,
    inwards: bool,
) -> int:
    above = net.nodes[parent][0]
    child = net.node(f"{above}.{branch}", host=False, mark=level.mark)
    towards, away = _links_of(level.link, None, spec)
    if level.link.rate is None:
        raise net.log.error(level.link.mark, "`rate` is missing: the rate of the link")
    up, down = f"{above}.{branch}->{above}", f"{above}->{above}.{branch}"
    # Losses and jitter are on the way of the data: towards the shared link on the left, away from it on the right.
    first, second = (towards, away) if inwards else (away, towards)
    for settings in (first, second):
        _complete(settings, net.log)
    net.link(Link(up, child, parent, **first))
    net.link(Link(down, parent, child, **second))
    return child


def _dumbbell(spec: lang.Dumbbell, net: Network) -> None:
    _paired(spec, net, ())


def _hierarchical(spec: lang.Hierarchical, net: Network) -> None:
    _paired(spec, net, spec.levels)


def _parking_lot(spec: lang.ParkingLot, net: Network) -> None:
    log = net.log
    n, cross = spec.bottlenecks, spec.cross
    _check_size(2 * n + 4 * (spec.pairs + n * cross), spec.mark, log)
    specs: list[LinkSpec] = _spread(spec.bottleneck, n, "bottlenecks", spec.at("bottleneck"), log)
    if any(s.rate is None for s in specs):
        raise log.error(spec.at("bottleneck"), "`rate` is missing: the rate of each bottleneck")
    routers = [net.node(f"r{i}", host=False, mark=spec.mark) for i in range(n + 1)]
    chain = []
    free = all(s.delay is None for s in specs)
    if free and spec.rtt is None:
        raise log.error(spec.mark, "`rtt` is missing (or the `delay` of each bottleneck)")
    for i, link in enumerate(specs):
        forward, back = _links_of(link, None, spec)
        for settings in (forward, back):
            _complete(settings, log)
        there = net.link(Link(f"bottleneck{i}", routers[i], routers[i + 1], **forward))
        chain.append((there, net.link(Link(f"bottleneck{i}.reverse", routers[i + 1], routers[i], **back))))
    net.bottleneck = min(chain, key=lambda ends: net.links[ends[0]].rate)
    ends = _parking_pairs(spec, net, routers)
    _parking_rtts(spec, net, chain, ends, free)


def _parking_pairs(spec: lang.ParkingLot, net: Network, routers: list[int]) -> dict[str, list[tuple[int, int]]]:
    """The pairs and cross pairs; the receivers' access links (to, from) of each group."""
    n, log = spec.bottlenecks, net.log
    side = _side(spec.access, None, spec.pairs, log)
    # A list of access rates is for the long pairs; cross pairs take its first entry.
    other = replace(side, rates=[side.rates[0]], down=[side.down[0]], delays=[side.delays[0]])
    ends: dict[str, list[tuple[int, int]]] = {"pairs": [], "cross": []}
    net.groups = {"pairs": [], "cross": [], **{f"cross{b}": [] for b in range(n)}}
    for i in range(spec.pairs):
        source, _, _ = _host_links(net, f"src{i}", routers[0], side, i, spec)
        sink, up, down = _host_links(net, f"dst{i}", routers[-1], side, i, spec)
        net.groups["pairs"].append((source, sink))
        ends["pairs"].append((down, up))
    for b in range(n):
        for i in range(spec.cross):
            source, _, _ = _host_links(net, f"xsrc{b}.{i}", routers[b], other, 0, spec)
            sink, up, down = _host_links(net, f"xdst{b}.{i}", routers[b + 1], other, 0, spec)
            net.groups[f"cross{b}"].append((source, sink))
            net.groups["cross"].append((source, sink))
            ends["cross"].append((down, up))
    return ends


def _parking_rtts(
    spec: lang.ParkingLot,
    net: Network,
    chain: list[tuple[int, int]],
    ends: dict[str, list[tuple[int, int]]],
    free: bool,
) -> None:
    pairs = net.groups["pairs"]
    own = [_own_rtt(net, pair) for pair in pairs]
    if spec.rtt is not None:
        rtts = _spread(spec.rtt, len(pairs), "pairs", spec.at("rtt"), net.log)
        _fit_rtts(net, spec.at("rtt"), own, rtts, ends["pairs"], chain if free else [])
        own = rtts
    net.rtt = round(Fraction(sum(own), len(own)))
    if spec.cross_rtt is not None:
        for pair, (down, up) in zip(net.groups["cross"], ends["cross"], strict=True):
            has = _own_rtt(net, pair)
            if spec.cross_rtt < has:
                _refuse_rtt(net, spec.at("cross_rtt"), spec.cross_rtt, has)
            _lengthen(net, down, up, spec.cross_rtt - has)


def _star(spec: lang.Star, net: Network) -> None:
    log = net.log
    _check_size(2 * spec.hosts, spec.mark, log)
    side = _side(spec.access, None, spec.hosts, log)
    hub = net.node("hub", host=False, mark=spec.mark)
    port = spec.port if spec.port is not None else LinkSpec(mark=spec.mark)
    if port.delay is not None:
        raise log.error(port.at("delay"), "the delay of a port is that of its host; give `access.delay` or `rtt`")
    if port.rate is not None and spec.access.down is not None:
        raise log.error(spec.access.at("down"), "`access.down` and `port.rate` say the same; give one")
    if spec.rtt is not None and spec.access.delay is not None:
        raise log.error(spec.at("rtt"), "`rtt` and `access.delay` both give the delays; give one")
    if spec.switch is not None:
        if port.queue is not None:
            raise log.error(port.at("queue"), "the memory of `switch` holds the packets of a port; leave out `queue`")
        net.switches[hub] = spec.switch
    for i in range(spec.hosts):
        _, up, down = _host_links(net, f"h{i}", hub, side, i, spec)
        to_host = net.links[down]
        to_host.rate = port.rate if port.rate is not None else to_host.rate
        to_host.mtu = port.mtu if port.mtu is not None else to_host.mtu
        to_host.overhead = port.overhead if port.overhead is not None else to_host.overhead
        if spec.switch is not None:
            to_host.queue = _BEHIND_SWITCH
        else:
            to_host.queue = port.queue if port.queue is not None else Amount(Fraction(1), "bdp")
        to_host.loss, to_host.jitter, to_host.reorder = port.loss, port.jitter, port.reorder
        to_host.mark = port.at("rate") if spec.port is not None else side.mark
        if spec.rtt is not None:
            # Half the RTT each way, over two links; the remainder of the quarter goes to the port.
            net.lengthen(up, spec.rtt // 4)
            net.lengthen(down, spec.rtt // 2 - spec.rtt // 4)
    if port.queue is None and spec.switch is None:
        log.info(port.mark, "the ports have no `queue`; drop-tail queues of 1bdp are taken")
    delays = [x.delay for x in net.links]
    net.rtt = spec.rtt if spec.rtt is not None else round(Fraction(2 * sum(delays), spec.hosts))


def _graph(spec: lang.Graph, net: Network) -> None:
    log = net.log
    for name in spec.hosts:
        net.node(name, host=True, mark=spec.at("hosts"))
    for name in spec.routers:
        net.node(name, host=False, mark=spec.at("routers"))
    for name, switch in (spec.switches or {}).items():
        net.switches[net.node(name, host=False, mark=switch.mark)] = switch
    gather(partial(_graph_link, link, spec, net) for link in spec.links)
    shared = net.link_by_name.get("bottleneck")
    if shared is not None:
        net.bottleneck = (shared, net.link_by_name.get("bottleneck.reverse", shared))
    net.rtt = spec.rtt
    attached = {x.start for x in net.links} | {x.end for x in net.links}
    alone = [name for name, i in net.by_name.items() if i not in attached]
    if alone:
        log.warn(
            spec.mark, f"no link reaches `{alone[0]}`" + (f" and {len(alone) - 1} others" if len(alone) > 1 else "")
        )


def _graph_link(link: lang.GraphLink, spec: lang.Graph, net: Network) -> None:
    log = net.log
    ends = []
    for name in link.between:
        if name not in net.by_name:
            raise log.error(link.at("between"), f"`{name}` is not a host, router or switch{choose(name, net.by_name)}")
        ends.append(net.by_name[name])
    if ends[0] == ends[1]:
        raise log.error(link.at("between"), f"a link from `{link.between[0]}` to itself")
    if link.rate is None:
        raise log.error(link.mark, "`rate` is missing: the rate of the link")
    if link.oneway and link.reverse is not None:
        raise log.error(link.at("reverse"), "a `oneway` link has no reverse direction")
    forward, back = _links_of(link, link.reverse, spec)
    a, b = link.between
    names = (link.name, f"{link.name}.reverse") if link.name else (f"{a}->{b}", f"{b}->{a}")
    ways = [(names[0], ends[0], ends[1], forward)]
    ways += [] if link.oneway else [(names[1], ends[1], ends[0], back)]
    _refuse_queue(link, [way[1] for way in ways], net)
    for name, start, end, settings in ways:
        nic = net.nodes[start][1]
        if start in net.switches:
            settings["queue"] = _BEHIND_SWITCH
        elif nic or (net.nodes[end][1] and settings["queue"] is None):
            settings["queue"] = link.host_queue
        _complete(settings, log)
        net.link(Link(name, start, end, nic=nic, queue_is_default=nic and "host_queue" not in link.marks, **settings))


def _refuse_queue(link: lang.GraphLink, starts: Sequence[int], net: Network) -> None:
    """Refuses a `queue` that no end of the link has."""
    if link.queue is None or any(not net.nodes[start][1] and start not in net.switches for start in starts):
        return
    if any(start in net.switches for start in starts):
        message = "no router sends over this link: the memory of a switch holds its packets; leave out `queue`"
    else:
        message = "both ends of this link are hosts, which have transmit queues: give `host_queue` instead of `queue`"
    raise net.log.error(link.at("queue"), message)


_BUILDERS: dict[type, Callable[[Any, Network], None]] = {
    lang.Dumbbell: _dumbbell,
    lang.Hierarchical: _hierarchical,
    lang.ParkingLot: _parking_lot,
    lang.Star: _star,
    lang.Graph: _graph,
}

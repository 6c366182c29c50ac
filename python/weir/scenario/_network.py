"""Networks: nodes, directed links and the paths over them.

`_topologies.py` builds a network from what a scenario says; this module knows how one is stored, how its elements are
written into a plan and which way packets go.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeAlias

from . import _lang_links as lang
from ._problem import NOWHERE, Log, Mark
from ._spec import Spec
from ._units import Amount, show_rate

__all__ = ["Link", "Network", "Path", "check_link", "delay_plan", "loss_plan", "queue_plan", "resolve"]

MAX_ROUTERS = 1_000
MAX_STEPS = 6_000_000
"""Of the search for paths: links looked at. A dumbbell with 1,000 routers takes 4,000,000."""
_FIRST_RTO_NS = 1_000_000_000


@dataclass
class Link:
    """A directed link. Rates in bit/s, times in ns, sizes in bytes."""

    name: str
    start: int
    end: int
    rate: int
    delay: int
    mtu: int
    overhead: int
    queue: Spec | Amount
    mark: Mark
    loss: Spec | None = None
    jitter: lang.Jitter | None = None
    reorder: lang.Reorder | None = None
    nic: bool = False
    clocks: float = 0.0  # how far the clock of the transmitter may be off

    def plan(self, rtt: int | None, log: Log) -> dict[str, Any]:
        """The link as the plan has it; ``rtt`` is what `bdp` is computed with."""
        return {
            "name": self.name,
            "from": self.start,
            "to": self.end,
            "rate_bps": self.rate,
            "overhead_bytes": self.overhead,
            "mtu_bytes": self.mtu,
            "delay": delay_plan(self.delay, self.jitter, self.reorder),
            "queue": queue_plan(self, rtt, log),
            "loss": loss_plan(self.loss),
            "host_nic": self.nic,
        }


@dataclass(frozen=True)
class Path:
    """A way through the network, and what its links add up to."""

    links: tuple[int, ...]
    delay: int
    rate: int
    mtu: int


_Doors: TypeAlias = dict[int, tuple[int, int]]
"""The neighbours of a host: the delay and the index of the best link between them."""

_Label: TypeAlias = tuple[int, int, int, int, int]
"""A router on the way of a search: delay, links passed, the first of all, the last, the router. Smaller is better."""


@dataclass(frozen=True, slots=True)
class _Reached:
    """How a router is reached: delay and links since the start of the search, the first link, and the last (if any)."""

    delay: int
    hops: int
    first: int
    link: int | None


@dataclass(frozen=True, slots=True)
class _Search:
    """How routers are reached from a host: the delay of its only link and that link; none where it has several."""

    delay: int
    first: int | None
    reached: dict[int, _Reached]


@dataclass
class Network:
    """Nodes and links, and what the topology says about its traffic."""

    log: Log
    mark: Mark = NOWHERE  # of the topology
    nodes: list[tuple[str, bool]] = field(default_factory=list)  # name, host
    links: list[Link] = field(default_factory=list)
    groups: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    bottleneck: tuple[int, int] | None = None  # forward and reverse link
    rtt: int | None = None  # what `bdp` of a queue is computed with
    by_name: dict[str, int] = field(default_factory=dict)
    link_by_name: dict[str, int] = field(default_factory=dict)
    _routers: int = 0
    _leaving: dict[int, list[int]] = field(default_factory=dict)  # links from each host
    _arriving: dict[int, list[int]] = field(default_factory=dict)  # links to each host
    _core: dict[int, list[int]] = field(default_factory=dict)
    _ways: dict[tuple[int, int], Path | None] = field(default_factory=dict)  # found so far, by the ends
    _exits: dict[int, _Doors] = field(default_factory=dict)
    _entries: dict[int, _Doors] = field(default_factory=dict)
    _tables: dict[int, dict[int, _Reached]] = field(default_factory=dict)
    _steps: int = 0

    def node(self, name: str, *, host: bool, mark: Mark) -> int:
        """Adds a node."""
        if name in self.by_name:
            raise self.log.error(mark, f"node `{name}` is given twice")
        self._routers += not host
        if self._routers > MAX_ROUTERS:
            raise self.log.error(mark, f"more than {MAX_ROUTERS} routers")
        self.by_name[name] = len(self.nodes)
        self.nodes.append((name, host))
        return len(self.nodes) - 1

    def link(self, link: Link) -> int:
        """Adds a link."""
        if link.name in self.link_by_name:
            raise self.log.error(link.mark, f"link `{link.name}` is given twice; give one of them a `name`")
        index = len(self.links)
        self.log.work += 1
        self.link_by_name[link.name] = index
        self.links.append(link)
        from_host, to_host = self.nodes[link.start][1], self.nodes[link.end][1]
        if from_host:
            self._leaving.setdefault(link.start, []).append(index)
        if to_host:
            self._arriving.setdefault(link.end, []).append(index)
        if not from_host and not to_host:
            self._core.setdefault(link.start, []).append(index)
        return index

    def lengthen(self, index: int, delay: int) -> None:
        """Adds to the delay of a link."""
        link = self.links[index]
        link.delay += delay
        self._ways.clear()
        self._exits.pop(link.start, None)
        self._entries.pop(link.end, None)
        if self.nodes[link.start][1] or self.nodes[link.end][1]:
            self._tables.pop(link.start, None)  # that of a host, if there is one
        else:
            self._tables.clear()

    def hosts(self) -> list[str]:
        """Names of the hosts."""
        return [name for name, host in self.nodes if host]

    def path(self, source: int, sink: int) -> Path | None:
        """The path of least delay, then fewest links, then first written; hosts do not forward.

        It is found once a pair: the cost of a plan is that of its pairs, not of its flows times the links.

        Raises:
            Invalid: the search took more steps than a plan may.
        """
        ends = (source, sink)
        if ends not in self._ways:
            self._ways[ends] = self._find(source, sink)
        return self._ways[ends]

    def _find(self, source: int, sink: int) -> Path | None:
        exits, entries = self._doors(source, leaving=True), self._doors(sink, leaving=False)
        search = self._search(source, exits)
        best: tuple[int, int, int, int] | None = None  # delay, links, the first of them, the last of them
        if sink in exits:
            delay, only = exits[sink]
            best = (delay, 1, only, only)
        self._step(len(entries))
        for router, (delay, last) in entries.items():
            reached = search.reached.get(router)
            if reached is not None:
                first = reached.first if search.first is None else search.first
                way = (search.delay + reached.delay + delay, reached.hops + 2, first, last)
                best = way if best is None else min(best, way)
        return None if best is None else self._made(best, search)

    def _doors(self, host: int, *, leaving: bool) -> _Doors:
        """The best link between a host and each of its neighbours: of least delay, then first written.

        A host is no way through, so that only a link to the sink itself may lead to one.
        """
        known, links = (self._exits, self._leaving) if leaving else (self._entries, self._arriving)
        if host not in known:
            doors: _Doors = {}
            for index in links.get(host, []):
                link = self.links[index]
                neighbour = link.end if leaving else link.start
                doors[neighbour] = min(doors.get(neighbour, (link.delay, index)), (link.delay, index))
            known[host] = doors
        return known[host]

    def _made(self, best: tuple[int, int, int, int], search: _Search) -> Path:
        delay, _, first, last = best
        backwards = [last]
        while backwards[-1] != first:
            before = search.reached[self.links[backwards[-1]].start].link
            backwards.append(first if before is None else before)
        links = [self.links[i] for i in reversed(backwards)]
        return Path(tuple(reversed(backwards)), delay, min(x.rate for x in links), min(x.mtu for x in links))

    def _search(self, source: int, exits: _Doors) -> _Search:
        """How each router is reached best from a host; hosts that only one router has a link to share most of it."""
        routers = [(end, delay, index) for end, (delay, index) in exits.items() if not self.nodes[end][1]]
        if len(routers) == 1:
            router, delay, index = routers[0]
            return _Search(delay, index, self._table(router, [(0, 0, -1, -1, router)]))
        starts = [(delay, 0, index, index, end) for end, delay, index in routers]
        return _Search(0, None, self._table(source, starts))

    def _table(self, origin: int, starts: list[_Label]) -> dict[int, _Reached]:
        """Dijkstra over routers only; ``starts`` are sorted into the order of the search."""
        if origin not in self._tables:
            done: dict[int, _Reached] = {}
            heapq.heapify(starts)
            while starts:
                delay, hops, first, link, here = heapq.heappop(starts)
                if here in done:
                    continue
                done[here] = _Reached(delay, hops, first, None if link == -1 else link)
                onwards = self._core.get(here, [])
                self._step(1 + len(onwards))
                for index in onwards:
                    after = self.links[index]
                    if after.end not in done:
                        heapq.heappush(starts, (delay + after.delay, hops + 1, first, index, after.end))
            self._tables[origin] = done
        return self._tables[origin]

    def _step(self, n: int) -> None:
        """Counts what the search costs, so that no plan takes for ever."""
        self._steps += n
        if self._steps > MAX_STEPS:
            message = f"paths between so many hosts over {len(self.links)} links take over {MAX_STEPS} steps to find"
            raise self.log.error(self.mark, f"{message}; expected fewer links, routers or pairs of hosts")


def delay_plan(delay: int, jitter: lang.Jitter | None, reorder: lang.Reorder | None) -> dict[str, Any]:
    """A delay line as the plan has it."""
    if jitter is not None:
        return {
            "kind": "jitter",
            "delay_ns": delay,
            "jitter_ns": jitter.deviation,
            "normal": jitter.distribution == "normal",
            "reorder": jitter.overtaking,
        }
    if reorder is not None:
        extra = {"extra_ns": reorder.extra, "probability": reorder.probability}
        return {"kind": "reorder", "delay_ns": delay, **extra}
    return {"kind": "fixed", "delay_ns": delay}


def loss_plan(loss: Spec | None) -> dict[str, Any] | None:
    """Losses as the plan has them."""
    match loss:
        case lang.Bernoulli():
            return {"kind": "bernoulli", "p": loss.p}
        case lang.GilbertElliott():
            return {"kind": "gilbert_elliott", "p": loss.p, "r": loss.r, "good": loss.good, "bad": loss.bad}
        case lang.LossList():
            return {"kind": "list", "packets": list(loss.packets)}
        case _:
            return None


def resolve(amount: Amount, link: Link, rtt: int | None, log: Log, mark: Mark) -> int:
    """A size in bytes on the wire of ``link``."""
    match amount.unit:
        case "packets":
            return int(amount.value) * (link.mtu + link.overhead)
        case "ns":
            return int(link.rate * amount.value / 8_000_000_000)
        case "bdp" if rtt is None:
            raise log.error(mark, "`bdp` needs an RTT; give `rtt`, or the size as a time such as `10ms`")
        case "bdp":
            return int(Fraction(link.rate * (rtt or 0)) * amount.value / 8_000_000_000)
        case _:
            return int(amount.value)


def _limit(size: Amount, link: Link, rtt: int | None, log: Log, mark: Mark) -> dict[str, Any]:
    if size.unit == "packets" and size.value > 0:
        return {"bytes": None, "packets": int(size.value)}
    limit = resolve(size, link, rtt, log, mark)
    packet = link.mtu + link.overhead
    name = link.name.removesuffix(".reverse")  # both directions are one line of the scenario
    if limit == 0:
        why = " (the RTT is 0, and so is the BDP)" if size.unit == "bdp" and rtt == 0 else ""
        raise log.error(mark, f"the queue of link `{name}` holds 0 bytes{why}; give it room for some packets")
    if limit < packet:
        log.warn(mark, f"the queue of link `{name}` holds {limit} bytes, less than one full packet ({packet} bytes)")
    if limit * 8_000_000_000 > link.rate * _FIRST_RTO_NS:
        drain = limit * 8 / link.rate
        log.warn(mark, f"the queue of link `{name}` takes {drain:.3g}s to drain, beyond the first RTO of 1 s")
    return {"bytes": limit, "packets": None}


def queue_plan(link: Link, rtt: int | None, log: Log) -> dict[str, Any]:
    """A queue as the plan has it."""
    queue = link.queue
    if isinstance(queue, Amount):
        return {"kind": "droptail", "limit": _limit(queue, link, rtt, log, link.mark)}
    if isinstance(queue, lang.Droptail):
        return {"kind": "droptail", "limit": _droptail_limit(queue, link, rtt, log)}
    size: Amount = queue.size  # type: ignore[attr-defined]
    limit = _limit(size, link, rtt, log, queue.at("size"))
    match queue:
        case lang.Red():
            curves = [_curve(queue, 0, 63, link, rtt, log)]
            return {"kind": "red", "limit": limit, "curves": curves, **_red_common(queue)}
        case lang.Wred():
            return {"kind": "red", "limit": limit, "curves": _wred_curves(queue, link, rtt, log), **_red_common(queue)}
        case lang.Codel():
            return {"kind": "codel", "limit": limit, "codel": _codel(queue, log)}
        case lang.FqCodel():
            if queue.quantum < 1:
                raise log.error(queue.at("quantum"), "a quantum of 0 bytes never sends")
            sizes = {"buckets": queue.buckets, "quantum_bytes": queue.quantum}
            return {"kind": "fq_codel", "limit": limit, **sizes, "codel": _codel(queue, log)}
        case lang.Pie():
            if queue.update == 0:
                raise log.error(queue.at("update"), "`update` must be above 0")
            return {
                "kind": "pie",
                "limit": limit,
                "target_ns": queue.target,
                "update_ns": queue.update,
                "alpha": queue.alpha,
                "beta": queue.beta,
                "mark": _mark(queue.ecn),
            }
    raise TypeError(f"{type(queue).__name__} is not a queue")


def _droptail_limit(queue: lang.Droptail, link: Link, rtt: int | None, log: Log) -> dict[str, Any]:
    if queue.least is None:
        return _limit(queue.size, link, rtt, log, queue.at("size"))
    size, least = (resolve(amount, link, rtt, log, queue.at("size")) for amount in (queue.size, queue.least))
    return _limit(queue.size if size >= least else queue.least, link, rtt, log, queue.at("size"))


def _mark(ecn: bool) -> str:
    return "ecn" if ecn else "drop"


def _red_common(queue: lang.Red | lang.Wred) -> dict[str, Any]:
    return {"weight": queue.weight, "gentle": queue.gentle, "mark": _mark(queue.ecn)}


def _codel(queue: lang.Codel | lang.FqCodel, log: Log) -> dict[str, Any]:
    if queue.interval == 0:
        raise log.error(queue.at("interval"), "`interval` must be above 0")
    if queue.target > queue.interval:
        log.warn(queue.at("target"), "`target` is above `interval`; RFC 8289 advises 5 to 10 % of it")
    return {"target_ns": queue.target, "interval_ns": queue.interval, "mark": _mark(queue.ecn)}


def _curve(
    source: lang.Red | lang.WredClass, first: int, last: int, link: Link, rtt: int | None, log: Log
) -> dict[str, Any]:
    low = resolve(source.min, link, rtt, log, source.at("min"))
    high = resolve(source.max, link, rtt, log, source.at("max"))
    if low >= high:
        raise log.error(source.at("max"), f"`max` ({high} bytes) must be above `min` ({low} bytes)")
    thresholds = {"min_bytes": low, "max_bytes": high, "max_p": source.max_p}
    return {"dscp_from": first, "dscp_to": last, **thresholds}


def _wred_curves(queue: lang.Wred, link: Link, rtt: int | None, log: Log) -> list[dict[str, Any]]:
    taken: dict[int, lang.WredClass] = {}
    others: lang.WredClass | None = None
    for one in queue.classes:
        if one.dscp is None and others is not None:
            raise log.error(one.mark, "a second class without `dscp`; only one can have all code points not named")
        others = one if one.dscp is None else others
        for point in one.dscp or ():
            if point in taken:
                raise log.error(one.at("dscp"), f"code point {point} is in two classes")
            taken[point] = one
    if others is None and len(taken) < 64:
        raise log.error(
            queue.at("classes"), "some code points have no class; leave `dscp` out of one class to take them"
        )
    by_point = [taken.get(point, others) for point in range(64)]
    curves = []
    first = 0
    for point in range(1, 65):
        owner = by_point[first]
        if owner is not None and (point == 64 or by_point[point] is not owner):
            curves.append(_curve(owner, first, point - 1, link, rtt, log))
            first = point
    return curves


def check_link(link: Link, log: Log) -> None:
    """Refuses what no link can be."""
    if link.rate == 0:
        raise log.error(link.mark, f"the rate of link `{link.name}` is 0; nothing ever passes it")
    if link.jitter is not None and link.reorder is not None:
        raise log.error(link.reorder.mark, f"link `{link.name}` has `jitter` and `reorder`; expected one of them")
    if link.jitter is not None and link.jitter.deviation > link.delay:
        log.warn(
            link.jitter.at("deviation"),
            f"the jitter of link `{link.name}` exceeds its delay; delays below 0 become 0, and the mean grows",
        )
    if link.rate < 1000:
        log.warn(link.mark, f"link `{link.name}` has {show_rate(link.rate)}: a packet takes over ten seconds")

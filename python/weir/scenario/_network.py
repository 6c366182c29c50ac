"""Networks: nodes, directed links and the paths over them.

`_topologies.py` builds a network from what a scenario says; this module knows how one is stored, how its elements are
written into a plan and which way packets go.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from . import _lang_links as lang
from ._problem import Log, Mark
from ._spec import Spec
from ._units import Amount, show_rate

__all__ = ["Link", "Network", "Path", "check_link", "delay_plan", "loss_plan", "queue_plan", "resolve"]

MAX_ROUTERS = 1_000
_MIN_MTU = 68
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


@dataclass
class Network:
    """Nodes and links, and what the topology says about its traffic."""

    log: Log
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
    _tables: dict[int, dict[int, _Reached]] = field(default_factory=dict)

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
        self.links[index].delay += delay
        self._tables.clear()

    def hosts(self) -> list[str]:
        """Names of the hosts."""
        return [name for name, host in self.nodes if host]

    def path(self, source: int, sink: int) -> Path | None:
        """The path of least delay, then fewest links, then first written; hosts do not forward."""
        best: tuple[int, int, int, int] | None = None
        for first in self._leaving.get(source, []):
            for last in self._arriving.get(sink, []):
                through = self._through(first, last)
                if through is not None and (best is None or (*through, first, last) < best):
                    best = (*through, first, last)
        if best is None:
            return None
        indices = self._links_between(best[2], best[3])
        links = [self.links[i] for i in indices]
        return Path(indices, best[0], min(x.rate for x in links), min(x.mtu for x in links))

    def _through(self, first: int, last: int) -> tuple[int, int] | None:
        """Delay and number of links of the best way that begins and ends with these links."""
        if first == last:
            return self.links[first].delay, 1
        enter, leave = self.links[first].end, self.links[last].start
        if self.nodes[enter][1] or self.nodes[leave][1] or leave not in self._table(enter):
            return None
        core = self._table(enter)[leave]
        return self.links[first].delay + core.delay + self.links[last].delay, core.hops + 2

    def _links_between(self, first: int, last: int) -> tuple[int, ...]:
        if first == last:
            return (first,)
        start, here = self.links[first].end, self.links[last].start
        backwards = [last]
        while here != start:
            link = self._table(start)[here].link
            backwards.append(link)
            here = self.links[link].start
        return (first, *reversed(backwards))

    def _table(self, router: int) -> dict[int, _Reached]:
        """How every other router is reached best from this one (Dijkstra over routers only)."""
        if router not in self._tables:
            done: dict[int, _Reached] = {}
            heap: list[tuple[int, int, int, int]] = [(0, 0, -1, router)]
            while heap:
                delay, hops, link, here = heapq.heappop(heap)
                if here in done:
                    continue
                done[here] = _Reached(delay, hops, link)
                for index in self._core.get(here, []):
                    after = self.links[index]
                    if after.end not in done:
                        heapq.heappush(heap, (delay + after.delay, hops + 1, index, after.end))
            self._tables[router] = done
        return self._tables[router]


@dataclass(frozen=True, slots=True)
class _Reached:
    """How a router is reached: the delay and number of links up to it, and the last of them."""

    delay: int
    hops: int
    link: int


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
    if link.mtu < _MIN_MTU:
        raise log.error(link.mark, f"an MTU of {link.mtu} bytes is too small; IPv4 needs {_MIN_MTU}")
    if link.mtu > 65_535:
        raise log.error(link.mark, f"an MTU of {link.mtu} bytes is too large; an IP packet has at most 65535")
    if link.overhead > 10_000:
        raise log.error(link.mark, f"an overhead of {link.overhead} bytes a packet is more than any link layer has")
    if link.jitter is not None and link.reorder is not None:
        raise log.error(link.reorder.mark, f"link `{link.name}` has `jitter` and `reorder`; expected one of them")
    if link.jitter is not None and link.jitter.deviation > link.delay:
        log.warn(
            link.jitter.at("deviation"),
            f"the jitter of link `{link.name}` exceeds its delay; delays below 0 become 0, and the mean grows",
        )
    if link.rate < 1000:
        log.warn(link.mark, f"link `{link.name}` has {show_rate(link.rate)}: a packet takes over ten seconds")

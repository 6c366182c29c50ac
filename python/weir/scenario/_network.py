"""Networks: nodes, directed links and the paths over them.

`_topologies.py` builds a network from a scenario; this module stores it, writes its elements into a plan and finds
paths.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from weir.language.problem import NOWHERE, Log, Mark
from weir.language.spec import Spec
from weir.language.units import Amount, show_rate

from . import _lang_links as lang
from ._lang_switch import Switch
from ._queue_plan import queue_plan

__all__ = ["Link", "Network", "Path", "check_link", "delay_plan", "loss_plan"]

MAX_ROUTERS = 1_000
MAX_STEPS = 6_000_000
"""Limit of the search for paths, in links examined. A dumbbell with 1,000 routers takes 4,000,000."""
_STEPS_OF_WORK = 50
"""Steps that take as long as one unit of ``Log.work``."""


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
    queue_is_default: bool = False  # whether the scenario gives no length of a host's queue
    clocks: float = 0.0  # maximum relative clock error of the transmitter

    def plan(self, rtt: int | None, log: Log) -> dict[str, Any]:
        """The link in the form of the plan; ``rtt`` is the round-trip time for `bdp`."""
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
    """A path through the network, and the sums over its links."""

    links: tuple[int, ...]
    delay: int
    rate: int
    mtu: int


_Doors: TypeAlias = dict[int, tuple[int, int]]
"""The neighbours of a host: the delay and the index of the best link between them."""

_Label: TypeAlias = tuple[int, int, int, int, int]
"""A router during the search: delay, links passed, the first link, the last, the router. Smaller is better."""


@dataclass(frozen=True, slots=True)
class _Reached:
    """How a router is reached: delay and links since the start of the search, the first link, and the last (if any)."""

    delay: int
    hops: int
    first: int
    link: int | None


@dataclass(frozen=True, slots=True)
class _Search:
    """How routers are reached from a host: the delay of its only link and that link; ``None`` if it has several."""

    delay: int
    first: int | None
    reached: dict[int, _Reached]


@dataclass
class Network:
    """Nodes and links, and the topology's facts about traffic."""

    log: Log
    mark: Mark = NOWHERE  # of the topology
    nodes: list[tuple[str, bool]] = field(default_factory=list)  # name, host
    links: list[Link] = field(default_factory=list)
    switches: dict[int, Switch] = field(default_factory=dict)  # by node
    groups: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    bottleneck: tuple[int, int] | None = None  # forward and reverse link
    rtt: int | None = None  # round-trip time for `bdp` of a queue
    by_name: dict[str, int] = field(default_factory=dict)
    link_by_name: dict[str, int] = field(default_factory=dict)
    _routers: int = 0
    _leaving: dict[int, list[int]] = field(default_factory=dict)  # links from each host
    _arriving: dict[int, list[int]] = field(default_factory=dict)  # links to each host
    _core: dict[int, list[int]] = field(default_factory=dict)
    _ways: dict[tuple[int, int], Path | None] = field(default_factory=dict)  # paths found so far, by endpoints
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
            self._tables.pop(link.start, None)  # a host's table, if it exists
        else:
            self._tables.clear()

    def hosts(self) -> list[str]:
        """Names of the hosts."""
        return [name for name, host in self.nodes if host]

    def path(self, source: int, sink: int) -> Path | None:
        """The path of least delay, then fewest links, then first written; hosts do not forward.

        Each pair is searched once, so the cost depends on pairs, not on flows times links.

        Raises:
            Invalid: the search exceeded its step limit.
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
        """The best link between a host and each of its neighbours: least delay, then first written.

        Hosts do not forward, so only a link to the sink itself may lead to one.
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
        """The best way from a host to each router; hosts with a link to only one router share most of the search."""
        routers = [(end, delay, index) for end, (delay, index) in exits.items() if not self.nodes[end][1]]
        if len(routers) == 1:
            router, delay, index = routers[0]
            return _Search(delay, index, self._table(router, [(0, 0, -1, -1, router)]))
        starts = [(delay, 0, index, index, end) for end, delay, index in routers]
        return _Search(0, None, self._table(source, starts))

    def _table(self, origin: int, starts: list[_Label]) -> dict[int, _Reached]:
        """Dijkstra over routers only; sorts ``starts`` into the order of the search."""
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
        """Counts ``n`` steps of the search, so that every plan compiles in bounded time."""
        before, self._steps = self._steps, self._steps + n
        self.log.work += self._steps // _STEPS_OF_WORK - before // _STEPS_OF_WORK
        if self._steps > MAX_STEPS:
            message = f"paths between so many hosts over {len(self.links)} links take over {MAX_STEPS} steps to find"
            raise self.log.error(self.mark, f"{message}; expected fewer links, routers or pairs of hosts")


def delay_plan(delay: int, jitter: lang.Jitter | None, reorder: lang.Reorder | None) -> dict[str, Any]:
    """A delay line in the form of the plan."""
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
    """Losses in the form of the plan."""
    if loss is None or isinstance(loss, lang.NoLoss):
        return None
    if isinstance(loss, lang.LossList):
        return {"kind": "list", "packets": loss.listed}
    kind, form = lang.LOSS_FORMS[type(loss)]
    return {"kind": kind, **{key.field: getattr(loss, key.name) for key in form.keys}}


def check_link(link: Link, log: Log) -> None:
    """Refuses impossible settings of a link."""
    if link.rate == 0:
        raise log.error(link.mark, f"the rate of link `{link.name}` is 0; no packet could pass")
    if link.jitter is not None and link.reorder is not None:
        raise log.error(link.reorder.mark, f"link `{link.name}` has `jitter` and `reorder`; expected one of them")
    if link.jitter is not None and link.jitter.deviation > link.delay:
        log.warn(
            link.jitter.at("deviation"),
            f"the jitter of link `{link.name}` exceeds its delay; delays below 0 become 0, and the mean grows",
        )
    if link.rate < 1000:
        log.warn(link.mark, f"link `{link.name}` has {show_rate(link.rate)}: a packet takes over ten seconds")

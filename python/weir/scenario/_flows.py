"""Compiles workload entries into flows: endpoints, number, times. `_sources.py` has payload, `_pages.py` pages."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from weir.language.problem import Invalid, Log, choose, listing
from weir.language.units import show_duration, show_rate
from weir.plan import UDP_HEADERS

from . import _commands, _pages
from . import _lang_workload as lang
from ._dccp import Dccp, dccp_plan
from ._distribution import duty
from ._lang_commands import Command, Iperf3
from ._lang_scenario import Body
from ._lang_web import Web
from ._native import PROTOCOLS, Native, native_plan
from ._network import Network, Path
from ._profile import check_profile, profile_plan
from ._quic import Quic, quic_plan
from ._selector import Selector
from ._sources import Best, Budget, Flow, Sources
from ._tfrc import Tfrc, tfrc_plan
from ._transport import Resolved, merge, tcp_plan
from ._udt import Udt, udt_plan

__all__ = ["Flow", "Group", "groups_of"]

MAX_FLOWS = 100_000
MAX_HOPS = 5_000_000
_HOPS_OF_WORK = 100
"""Links of paths that take as long as one unit of ``Log.work``."""
_LEVEL_TOLERANCE = 0.01


class Group:
    """The flows of one workload entry."""

    def __init__(
        self,
        entry: lang.Workload,
        body: Body,
        net: Network,
        seed: int,
        folder: str,
        budget: Budget,
        best: list[Best],
    ) -> None:
        self.entry = entry
        self._net = net
        self._seed = seed
        self._log = net.log
        self._folder = folder
        self._goodput_ns = body.measure.goodput
        self.udp = entry.udp_only
        self.transport = None if self.udp else self._resolved(body)
        if len(entry.levels) > 1:
            raise self._log.error(
                entry.at(list(entry.levels)[1]), f"{listing(entry.levels)} are alternatives; give one"
            )
        self.reverse = entry.reverse or entry.reverse_level is not None
        self.rates: list[int] = []
        self._connections: list[list[dict[str, Any]]] = []
        self._budget = budget
        self._sources = Sources(entry, seed, best, budget, net.log)
        pairs = self._pairs()
        self._check_kind()
        count = self._count(pairs)
        budget.flows += count * entry.parallel
        net.log.work += count * entry.parallel
        if budget.flows > MAX_FLOWS:
            raise self._log.error(entry.mark, f"{budget.flows} flows are too many; the limit is {MAX_FLOWS}")
        self.flows = self._place(pairs, count)

    def _resolved(self, body: Body) -> Resolved | Quic | Tfrc | Udt | Native | Dccp:
        entry = self.entry
        spec = merge(body.transport, entry.transport)
        protocol = spec.protocol or "tcp"
        if protocol == "tcp":
            return Resolved(spec, entry.mark, self._folder, self._log)
        if isinstance(entry, Command | Iperf3):
            mark = spec.marks.get("protocol", entry.mark)
            name = protocol.upper()
            raise self._log.error(mark, f"a program brings its own transport, and weir has none with {name} for it")
        if protocol in PROTOCOLS:
            return Native(spec, entry, body.transport, self._log)
        if protocol == "udt":
            return Udt(spec, entry, body.transport, self._log)
        if protocol == "dccp":
            return Dccp(spec, entry, body.transport, self._log)
        kind = Quic if protocol == "quic" else Tfrc
        return kind(spec, entry, body.transport, self._log)

    @property
    def role(self) -> str:
        """The role of its flows, as the plan names it."""
        entry = self.entry
        if entry.background or entry.background_level is not None or entry.reverse_level is not None:
            return "reverse" if self.reverse else "background"
        return "test"

    # Endpoints ----------------------------------------------------------------------------------------------------

    def _pairs(self) -> list[tuple[int, int]]:
        between = self.entry.between
        pairs = self._group_pairs(between.pairs) if between.pairs is not None else self._ends(between)
        return [(b, a) for a, b in pairs] if self.reverse else pairs

    def _group_pairs(self, selector: Selector) -> list[tuple[int, int]]:
        groups = self._net.groups
        if selector.name not in groups:
            hint = choose(selector.name, groups) if groups else "; this topology has none, give `[from, to]`"
            raise self._log.error(selector.mark, f"`{selector.name}` is not a group of pairs{hint}")
        pairs = groups[selector.name]
        if selector.indices is None:
            if not pairs:
                raise self._log.error(selector.mark, f"there are no pairs in `{selector.name}`")
            return pairs
        last = max(selector.indices)
        if last >= len(pairs):
            have = f"there are {len(pairs)}, from 0" if pairs else "there are none"
            raise self._log.error(selector.mark, f"no pair {last} in `{selector.name}`: {have}")
        return [pairs[i] for i in selector.indices]

    def _ends(self, between: lang.Between) -> list[tuple[int, int]]:
        for side in (between.sources, between.sinks):
            if sum(map(len, side)) > MAX_FLOWS:
                raise self._log.error(between.mark, f"more than {MAX_FLOWS} hosts")
        sources = [h for s in between.sources for h in self._hosts(s)]
        sinks = [h for s in between.sinks for h in self._hosts(s)]
        n = max(len(sources), len(sinks))
        if len(sources) not in (1, n) or len(sinks) not in (1, n):
            counts = f"{len(sources)} senders and {len(sinks)} receivers"
            raise self._log.error(between.mark, f"{counts}: expected as many, or one on one side")
        pairs = list(zip(sources * (n // len(sources)), sinks * (n // len(sinks)), strict=True))
        same = next((a for a, b in pairs if a == b), None)
        if same is not None:
            raise self._log.error(between.mark, f"a flow from `{self._net.nodes[same][0]}` to itself")
        return pairs

    def _hosts(self, selector: Selector) -> list[int]:
        names = [selector.name] if selector.indices is None else [f"{selector.name}{i}" for i in selector.indices]
        found = []
        for name in names:
            node = self._net.by_name.get(name)
            if node is None:
                raise self._log.error(selector.mark, f"there is no host `{name}`{choose(name, self._net.hosts())}")
            if not self._net.nodes[node][1]:
                raise self._log.error(selector.mark, f"`{name}` is a router; flows begin and end at hosts")
            found.append(node)
        return found

    # Number -------------------------------------------------------------------------------------------------------

    def _check_kind(self) -> None:
        entry = self.entry
        if self.udp and entry.transport.marks:
            raise self._log.error(
                entry.transport.mark, "UDP has no TCP settings; `packet` gives the size of the packets"
            )
        if isinstance(entry, lang.OnOff) and not self.udp:
            for name in ("rate", "packet"):
                if entry.has(name):
                    raise self._log.error(entry.at(name), f"`{name}` is for UDP; give `on` as a duration")
        if isinstance(entry, lang.Transfer) and (entry.size is None) == (entry.total is None):
            text = "`size`, of each stream, or `total`, over all streams"
            if entry.size is None:
                raise self._log.error(entry.mark, f"the size of a transfer is missing: {text}")
            raise self._log.error(entry.at("total"), f"`size` and `total` exclude each other; give {text}")
        if isinstance(entry, Web) and entry.has("streams"):
            text = "a user has `connections`, over which the objects of a page are fetched; leave `streams` out"
            raise self._log.error(entry.at("streams"), text)
        if isinstance(entry, lang.OnOff) and self.udp and entry.has("keep_connection"):
            raise self._log.error(entry.at("keep_connection"), "UDP has no connections")
        if isinstance(entry, Command | Iperf3):
            _commands.check(entry, self._log)
        self._check_rate()
        if isinstance(entry, lang.Profiled) and entry.profile is not None:
            check_profile(entry, entry.profile, self.transport, self._log)

    def _check_rate(self) -> None:
        entry = self.entry
        wire = isinstance(entry, lang.Cbr) and entry.wire_rate is not None
        if wire and (entry.has("rate") or entry.levels):
            other = "rate" if entry.has("rate") else next(iter(entry.levels))
            raise self._log.error(entry.at("wire_rate"), f"`wire_rate` and `{other}` both give the rate; give one")
        if self.udp and entry.rate is None and not entry.levels and not wire:  # type: ignore[attr-defined]
            raise self._log.error(entry.mark, "`rate` is missing: the rate of the IP packets (or a level)")

    def _count(self, pairs: Sequence[tuple[int, int]]) -> int:
        """The number of flows; sets the rates of those that have one."""
        entry = self.entry
        rates = entry.rate if isinstance(entry, lang.Datagrams) else None
        name = "rate"
        if isinstance(entry, lang.Cbr) and entry.wire_rate is not None:
            rates, name = entry.wire_rate, "wire_rate"
        if entry.levels:
            return self._count_for_level(pairs, rates)
        count = entry.flows if entry.flows is not None else len(pairs)
        if rates is not None:
            self.rates = self._each(rates, count, name)
        return count

    def _count_for_level(self, pairs: Sequence[tuple[int, int]], rates: tuple[int, ...] | None) -> int:
        name, level = next(iter(self.entry.levels.items()))
        mark = self.entry.at(name)
        if self.entry.flows is not None and (not self.udp or rates is not None):
            raise self._log.error(self.entry.at("flows"), f"`{name}` gives the number of flows; leave `flows` out")
        wanted = level * self._capacity(pairs)
        if level == 0:
            return 0
        if self.udp and rates is None:
            count = self.entry.flows if self.entry.flows is not None else len(pairs)
            self.rates = [max(1, round(wanted / (count * self.entry.parallel * self._duty())))] * count
            return count
        if rates is not None and len(rates) > 1:
            raise self._log.error(self.entry.at("rate"), f"`{name}` needs one rate for all flows")
        own = None if rates is None else rates[0] * self.entry.parallel
        each = (self._access(pair) if own is None else own for pair in pairs)
        totals = [0.0]
        for rate in each:
            if totals[-1] >= wanted:
                break
            totals.append(totals[-1] + rate * self._duty(rate))
        count = min(range(len(totals)), key=lambda i: abs(totals[i] - wanted))
        if count == len(pairs) and totals[-1] < wanted * (1 - _LEVEL_TOLERANCE):
            have = f"all {len(pairs)} sources together reach {totals[-1] / wanted * level:.3g}"
            raise self._log.error(mark, f"`{name}` {level:g} cannot be reached: {have}")
        if count == 0:
            raise self._log.error(mark, f"`{name}` {level:g} is less than half of one source")
        if abs(totals[count] / wanted - 1) > _LEVEL_TOLERANCE:
            self._log.warn(
                mark, f"`{name}` {level:g} becomes {totals[count] / wanted * level:.4g} with {count} sources"
            )
        self.rates = [rates[0]] * count if rates is not None else []
        return count

    def _duty(self, rate: int = 1) -> float:
        """The share of time that a source is on (equation 2.14); one that sends bytes over TCP sends at ``rate``."""
        entry = self.entry
        if isinstance(entry, lang.OnOff):
            on = entry.on.distribution.mean() * (1 if self.udp else 8e9 * entry.parallel / max(1, rate))
            return max(duty(on, entry.off.mean()), 1e-9)
        if isinstance(entry, lang.Cbr) and entry.periods:
            return max(sum(entry.periods[::2]) / sum(entry.periods), 1e-9) if sum(entry.periods) else 1.0
        return 1.0

    def _access(self, pair: tuple[int, int]) -> int:
        path = self._net.path(*pair)
        return self._net.links[path.links[0]].rate if path is not None else 0

    def _capacity(self, pairs: Sequence[tuple[int, int]]) -> int:
        """The reference rate of levels: the topology's bottleneck, else the slowest link that all pairs share."""
        net = self._net
        if net.bottleneck is not None:
            return net.links[net.bottleneck[1 if self.reverse else 0]].rate
        paths = [net.path(*p) for p in pairs]
        shared = set.intersection(*(set(p.links if p else ()) for p in paths))
        if not shared:
            name = next(iter(self.entry.levels))
            raise self._log.error(
                self.entry.at(name), f"`{name}` needs a link that all its flows share; name one `bottleneck`"
            )
        return min(net.links[i].rate for i in shared)

    def _each(self, values: tuple[int, ...], count: int, name: str) -> list[int]:
        if len(values) == 1:
            return list(values) * count
        if len(values) < count or (len(values) > count and not self.entry.levels):
            raise self._log.error(self.entry.at(name), f"{len(values)} values for {count} flows; expected 1 or {count}")
        return list(values[:count])

    # Times --------------------------------------------------------------------------------------------------------

    def _place(self, pairs: Sequence[tuple[int, int]], count: int) -> list[Flow]:
        if count == 0:
            return []
        entry, log = self.entry, self._log
        ends = [n for n in ("until", "stop", "duration") if entry.has(n)]
        if len(ends) > 1:
            raise log.error(entry.at(ends[1]), f"{listing(ends)} are alternatives; give one")
        starts = self._instants(entry.start, count, "start")
        stops: Sequence[int | None] = [None] * count
        if entry.until is not None:
            stops = [entry.until] * count
        elif entry.stop is not None:
            stops = self._instants(entry.stop, count, "stop")
        elif entry.duration is not None:
            stops = [s + d for s, d in zip(starts, self._each(entry.duration, count, "duration"), strict=True)]
        flows = []
        for i, (start, stop) in enumerate(zip(starts, stops, strict=True)):
            if stop is not None and stop <= start:
                times = f"starts at {show_duration(start)} and stops at {show_duration(stop)}"
                raise log.error(entry.at(ends[0]), f"flow `{entry.name}[{i}]` {times}")
            pair = pairs[i % len(pairs)]
            flow = Flow(i, pair, self._path(*pair), self._path(*reversed(pair)), start, stop)
            before = self._budget.hops
            self._budget.hops += (len(flow.path.links) + len(flow.back.links)) * entry.parallel
            log.work += self._budget.hops // _HOPS_OF_WORK - before // _HOPS_OF_WORK
            if self._budget.hops > MAX_HOPS:
                raise log.error(entry.mark, f"the paths of all flows have more than {MAX_HOPS} links")
            flows.append(flow)
        return flows

    def _path(self, a: int, b: int) -> Path:
        path = self._net.path(a, b)
        if path is None:
            names = f"`{self._net.nodes[a][0]}` to `{self._net.nodes[b][0]}`"
            raise self._log.error(self.entry.at("between"), f"there is no path from {names}")
        return path

    def _instants(self, starts: lang.Starts, count: int, name: str) -> list[int]:
        if starts.instants is not None:
            return self._each(starts.instants, count, name)
        stream = f"{self.entry.name}/{name}"
        if starts.drawn is not None:
            return [starts.drawn.sample(self._seed, f"{self.entry.name}[{i}]/{name}", 1)[0] for i in range(count)]
        every = starts.every
        assert every is not None  # Starts has exactly one of three
        gaps = every.every.sample(self._seed, stream, count - 1) if every.every is not None else [0] * (count - 1)
        instants = [every.first, *accumulate(gaps, initial=every.first)][1:]
        if every.jitter is not None:
            jitter = every.jitter
            own = [jitter.sample(self._seed, f"{self.entry.name}[{i}]/{name} jitter", 1)[0] for i in range(count)]
            instants = [a + b for a, b in zip(instants, own, strict=True)]
        return instants

    # Payload ------------------------------------------------------------------------------------------------------

    def plans(self, end: int) -> list[dict[str, Any]]:
        """The flows in the form of the plan, for a run that ends at ``end`` ns."""
        plans = [self._plan(flow, stream, end) for flow in self.flows for stream in range(self.entry.parallel)]
        # A connection without an object of a page is never opened.
        return [plan for plan in plans if plan["source"].get("transfers", True)]

    def _plan(self, flow: Flow, stream: int, end: int) -> dict[str, Any]:
        entry = self.entry
        name = f"{entry.name}[{flow.index}]"
        if flow.start >= end:
            times = f"at {show_duration(flow.start)} the run is over, it ends at {show_duration(end)}"
            raise self._log.error(entry.at("start"), f"flow `{name}` never starts: {times}")
        plan = {
            "name": f"{name}.{stream}" if entry.parallel > 1 else name,
            "group": entry.name,
            "index": flow.index,
            "stream": stream,
            "role": self.role,
            "from": flow.ends[0],
            "to": flow.ends[1],
            "path": list(flow.path.links),
            "reverse_path": list(flow.back.links),
            "start_ns": flow.start,
            "stop_ns": flow.stop,
            "dscp": entry.dscp,
        }
        if self.reverse and self.role == "test":
            plan["reverse"] = True
        horizon = (end if flow.stop is None else min(flow.stop, end)) - flow.start
        # The first stream keeps its draws when streams are added.
        draws = f"{name}.{stream}" if stream and not self._sources.shared else name
        transport = self._transport_plan(flow)
        return {**plan, "transport": transport, "source": self._source(flow, stream, draws, horizon, transport)}

    def _transport_plan(self, flow: Flow) -> dict[str, Any]:
        match self.transport:
            case None:
                return self._udp(flow)
            case Quic() as quic:
                return quic_plan(quic, flow.path, flow.rtt)
            case Tfrc() as tfrc:
                return tfrc_plan(tfrc, flow.path)
            case Udt() as udt:
                return self._following(udt_plan(udt, flow.path, flow.rtt), flow)
            case Dccp() as dccp:
                return dccp_plan(dccp, flow.path)
            case Native() as native:
                return native_plan(native, flow.path, flow.rtt)
            case Resolved() as tcp:
                return self._following(tcp_plan(tcp, flow.path, flow.rtt), flow)

    def _following(self, plan: dict[str, Any], flow: Flow) -> dict[str, Any]:
        """The transport with the rate profile of the entry, if it has one."""
        if isinstance(self.entry, lang.Profiled) and self.entry.profile is not None:
            plan["profile"] = profile_plan(self.entry, self.entry.profile, plan, flow, self._net)
        return plan

    def _source(self, flow: Flow, stream: int, draws: str, horizon: int, transport: dict[str, Any]) -> dict[str, Any]:
        entry = self.entry
        match entry:
            case Command():
                return _commands.command_source(entry, self._folder)
            case Iperf3():
                rate = self._rate(flow) if self.rates else None
                times = {"horizon": horizon, "goodput_ns": self._goodput_ns}
                return _commands.iperf3_source(entry, transport, rate, **times, folder=self._folder, log=self._log)
            case Web():
                return self._pages(entry, flow, stream, horizon)
        return self._datagrams(flow, draws, horizon) if self.udp else self._sources.tcp(flow, stream, draws, horizon)

    def _pages(self, entry: Web, flow: Flow, stream: int, horizon: int) -> dict[str, Any]:
        """The transfers of one connection of a user. The draws are the user's, made with its first connection."""
        if stream == 0:
            name = f"{entry.name}[{flow.index}]"
            self._connections = _pages.connections(entry, self._sources, flow, name, horizon)
        transfers = self._connections[stream]
        return {"kind": "transfers", "transfers": transfers, "keep_connection": entry.keep_connection}

    def _udp(self, flow: Flow) -> dict[str, Any]:
        packet = self.entry.packet  # type: ignore[attr-defined]
        mtu = flow.path.mtu
        size = mtu if packet is None else packet
        if size > mtu:
            raise self._log.error(self.entry.at("packet"), f"packets of {size} bytes exceed the path's MTU of {mtu}")
        if size <= UDP_HEADERS:
            message = f"packets of {size} bytes have no room for data after {UDP_HEADERS} bytes of headers"
            raise self._log.error(self.entry.at("packet"), message)
        return {"protocol": "udp", "payload_bytes": size - UDP_HEADERS}

    def _datagrams(self, flow: Flow, name: str, horizon: int) -> dict[str, Any]:
        return {"kind": "cbr", "rate_bps": self._rate(flow), "periods_ns": self._sources.periods(name, horizon)}

    def _rate(self, flow: Flow) -> int:
        """The rate of its IP packets; reports if the first link cannot carry it."""
        rate = self.rates[flow.index]
        if rate == 0:
            raise self._log.error(
                self.entry.at("wire_rate" if self.entry.has("wire_rate") else "rate"), "a rate of 0 sends nothing"
            )
        first = self._net.links[flow.path.links[0]]
        if isinstance(self.entry, lang.Cbr) and self.entry.wire_rate is not None:
            if rate > first.rate:
                text = f"{show_rate(rate)} on the wire exceed the {show_rate(first.rate)} of link `{first.name}`"
                raise self._log.error(self.entry.at("wire_rate"), text)
            size = self.entry.packet if self.entry.packet is not None else flow.path.mtu
            # Rounded down: a packet more than the wire takes would wait in the host's queue.
            rate = rate * size // (size + first.overhead)
        if rate * self.entry.parallel > first.rate and flow.index == 0:
            text = f"{show_rate(rate * self.entry.parallel)} exceed the {show_rate(first.rate)} of link `{first.name}`"
            self._log.warn(self.entry.at("rate"), f"flow `{self.entry.name}[{flow.index}]`: {text}")
        return rate


def best_of(body: Body, net: Network) -> list[Best]:
    """The highest rate and least delay of each link during the run."""
    best = [Best(x.rate, 0 if x.jitter is not None else x.delay) for x in net.links]
    for change in body.changes:
        for index in (net.link_by_name[name] for name in change.link if name in net.link_by_name):
            rate = max(best[index].rate, change.rate or 0)
            delay = 0 if change.jitter is not None else best[index].delay
            best[index] = Best(rate, delay if change.delay is None else min(delay, change.delay))
    return best


def groups_of(body: Body, net: Network, seed: int, folder: str, log: Log) -> list[Group]:
    """The groups of all entries, in the order written; failed entries are left out, their problems are in the log."""
    groups: list[Group] = []
    names: set[str] = set()
    budget = Budget()
    best = best_of(body, net)
    for entry in body.workload:
        if entry.name in names:
            log.error(entry.at("name"), f"a second workload entry named `{entry.name}`")
        names.add(entry.name)
        try:
            groups.append(Group(entry, body, net, seed, folder, budget, best))
        except Invalid:
            continue
    return groups

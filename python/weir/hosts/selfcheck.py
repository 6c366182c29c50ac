"""Verifies the network before a measurement: real packets on every path must behave as the plan says.

Datagrams with the kernel's time of arrival measure four things: the round-trip time of every path; the rate of every
kind of path, by the dispersion of a train; the size of bottlenecks' queues, by a burst that overfills them; and random
losses. ``expectation`` predicts the results, from the instants at which the packets really left. A failed measurement
is repeated, because a busy machine can delay a packet; repeated failure refuses the network.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from weir import queues
from weir._errors import MethodError
from weir.hosts.expectation import Loss, Probe, arrivals, delay_ns, jitter_ns, links_seen, loss_of, slack_ns
from weir.hosts.probes import Endpoint, Probes, Train
from weir.hosts.wiring import Wiring, largest_packet
from weir.plan import (
    UDP_HEADERS,
    Flow,
    Link,
    Plan,
    Queue,
    bottleneck,
    kind_of,
    queue_bytes,
    wire_bytes,
)
from weir.plan import Loss as LinkLoss

__all__ = ["Check", "SelfCheck", "SelfCheckError"]

Path = tuple[int, ...]

_S = 1_000_000_000
_TRIES = 6
_PAUSE_S = 0.1
"""Before the second try; the third waits twice as long, and so on, until a busy machine is less busy."""
_SMALL = 64
"""Bytes of a probe that only measures time."""
_EVERY_NS = 2_000_000
_LATE_NS = 500_000
"""Possible lateness of a packet on a machine that is not real-time."""
_EARLY_NS = 100_000
_RELATIVE = 0.02
_DISPERSION_S = 0.03
_SHARE_OF_PATIENCE = 0.8
"""Share of a queue's drop-free time that a train may take."""
_CHUNK = 32
"""Packets handed to the kernel at once: a train of segments has at most 64 KiB."""
_CHUNK_NS = 500_000
"""Maximum time of a piece of a burst on its host's link, unless it is a single packet."""
_MAX_PACKETS = 15_000
_MAX_S = 1.5
"""Limits of a burst; larger ones are not made."""
_EXCESSES = (1.5, 2.5, 5.0)
"""Excess of the burst over the queue's size: more if this machine was slow and the queue could drain meanwhile."""
_MAX_QUEUES = 3
_MAX_LOSS_PROBES = 2000
_LOSS_S = 0.5
_SIGMAS = 5.0
_LINGER_S = 0.25
"""Waiting time for late packets."""


class SelfCheckError(MethodError):
    """The network differs from the plan's."""


@dataclass(frozen=True)
class Check:
    """One comparison; ``unit`` is that of the three numbers."""

    what: str
    where: str
    expected: float
    measured: float
    tolerance: float
    unit: str
    like: int = 0
    """Number of similar paths that were not measured themselves."""

    @property
    def passed(self) -> bool:
        """Whether the plan and the network agree."""
        return abs(self.measured - self.expected) <= self.tolerance

    def __str__(self) -> str:
        return (
            f"{self.what} of {self.where}: measured {self.measured:.6g} {self.unit}, "
            f"the plan has {self.expected:.6g} ± {self.tolerance:.3g} {self.unit}"
        )


@dataclass
class SelfCheck:
    """The self-check of one run: call it when the emulator is in place and before the agents take the ports."""

    plan: Plan
    wiring: Wiring
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Things that were not checked, and the reasons."""
    late_ns: Mapping[int, int] = field(default_factory=dict)
    """Tolerated lateness of a small packet per link, if the network is less exact than the plan."""
    together: bool = True
    """Whether trains are handed to the kernel in one piece."""

    def __call__(self) -> None:
        """Measures.

        Raises:
            SelfCheckError: something differs; the message has the measured and the planned values.
            OSError: the probes could not be sent.
        """
        with Probes(together=self.together) as self._probes:
            self._number = 0
            self._repeat(self._delays)
            for routes in _alike(self._links, self._routes()):
                self._repeat(self._rate, routes)
                self._repeat(self._losses, routes)
            for link in self._queues():
                self._repeat(self._queue, link)

    def to_json(self) -> dict[str, Any]:
        """The record for the run."""
        return {"checks": [asdict(check) | {"passed": check.passed} for check in self.checks], "notes": self.notes}

    @cached_property
    def _links(self) -> Sequence[Link]:
        return links_seen(self.plan)

    def _slack_ns(self, path: Path) -> int:
        """Random deviation of the time that a packet takes on ``path``."""
        return slack_ns(self._links, path) + jitter_ns(self.plan, path)

    def _repeat(self, measure: Callable[..., Iterable[Check]], *about: object) -> None:
        """Repeats ``measure(*about)`` until everything agrees; keeps that result.

        Raises:
            SelfCheckError: it never does.
        """
        for turn in range(_TRIES):
            time.sleep(turn * _PAUSE_S)
            found = list(measure(*about))
            wrong = [check for check in found if not check.passed]
            if not wrong:
                self.checks += found
                return
        self.checks += found
        few = "\n".join(f"  {check}" for check in wrong[:5])
        more = f"\n  and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise SelfCheckError(
            f"the self-check failed, nothing was measured:\n{few}{more}\n"
            "Either this machine is too busy for the plan, or the emulated network is not the one of the plan"
        )

    # Routes: the endpoints of probes.

    def _routes(self) -> list[_Route]:
        """Every distinct path, there and back."""
        found: dict[Path, _Route] = {}
        for index, flow in enumerate(self.plan.flows):
            there = Endpoint(self.wiring.host(flow.to), self.wiring.first_port + index)
            here = Endpoint(self.wiring.host(flow.from_), self.wiring.first_port - 1)
            name = f"{here.host.name} -> {there.host.name}"
            back = f"{there.host.name} -> {here.host.name}"
            found.setdefault(flow.path, _Route(name, flow.path, here, there))
            if flow.reverse_path:
                found.setdefault(flow.reverse_path, _Route(back, flow.reverse_path, there, here))
        return list(found.values())

    def _train(self, route: _Route, at_ns: int, count: int, size: int) -> Train:
        self._probes.open(route.source)
        self._probes.open(route.target)
        first, self._number = self._number, self._number + count
        return Train(at_ns, route.source, route.target, first, count, size)

    def _send(self, trains: Sequence[tuple[_Route, Train]]) -> list[_Seen]:
        """Sends ``trains``; returns the expected and the observed fate of each packet."""
        self._probes.arrived()
        sent = self._probes.send([train for _, train in trains])
        probes, numbers, routes = [], [], []
        for route, train in trains:
            for number in range(train.first, train.first + train.count):
                probes.append(Probe(sent[number], route.path, train.size_bytes))
                numbers.append(number)
                routes.append(route)
        expected = arrivals(self._links, probes)
        self._await(expected)
        arrived = self._probes.arrived()
        return [
            _Seen(route, probe.sent_ns, due, arrived.get(number))
            for route, probe, due, number in zip(routes, probes, expected, numbers, strict=True)
        ]

    def _await(self, expected: Sequence[int | None]) -> None:
        due = [at for at in expected if at is not None]
        last_s = max(due, default=0) / 1e9 + max(self._slack_ns(r.path) for r in self._routes()) / 1e9
        while time.time() < last_s + _LINGER_S and not (time.time() > last_s and self._probes.count >= len(due)):
            time.sleep(0.002)

    # Round-trip times.

    def _delays(self) -> Iterator[Check]:
        """Sends a few small packets on every path at once."""
        routes = self._routes()
        trains = [
            (route, self._train(route, turn * _EVERY_NS, 1, _SMALL))
            for route in routes
            for turn in range(_count_to_arrive(loss_of(self._links, route.path)))
        ]
        seen = self._send(trains)
        late = {route.path: _lateness(route, seen) for route in routes}
        for flow in _distinct(self.plan.flows):
            paths = [path for path in (flow.path, flow.reverse_path) if path]
            expected = sum(delay_ns(self._links, path, _SMALL) for path in paths)
            off = sum(late[path] for path in paths)
            slack = sum(self._slack_ns(path) for path in paths)
            slack += sum(self.late_ns.get(link, 0) for path in paths for link in path)
            hosts = f"{self.wiring.host(flow.from_).name} - {self.wiring.host(flow.to).name}"
            what = "round-trip time" if len(paths) > 1 else "delay"
            tolerance = len(paths) * _LATE_NS + 0.01 * expected + slack
            yield Check(what, hosts, expected / 1e6, (expected + off) / 1e6, tolerance / 1e6, "ms")

    # Rates.

    def _rate(self, routes: Sequence[_Route]) -> Iterator[Check]:
        """The dispersion of a train of full packets on the first of ``routes``, which are alike.

        If the sender's flows have smaller packets, it has those: the card's rate is that of the wire for them alone.
        """
        route = routes[0]
        slowest = bottleneck(self.plan, route.path)
        if shaped := [self._links[link] for link in route.path if queues.limits_rate(self._links[link].queue)]:
            kinds = ", ".join(kind_of(link.queue) for link in shaped)
            self._note(f"rate of {route.name}: not checked, {kinds} may pass less than the link transmits")
            return
        largest = largest_packet(self.plan, route.source.host.node)
        size = min(largest, *(self._links[link].mtu_bytes for link in route.path))
        count = self._train_length(route, size, slowest)
        if count < 8 or self._slack_ns(route.path):
            self._note(f"rate of {route.name}: not checked, its queues are too short for a train or its delay varies")
            return
        seen = self._send([(route, self._train(route, 0, n, size)) for n in _chunks(count, size)])
        if loss_of(self._links, route.path) == Loss(0.0, 1.0):
            lost = sum(s.due_ns is not None and s.arrived_ns is None for s in seen)
            yield Check("losses", route.name, 0.0, lost / len(seen), 0.0, "of all", len(routes) - 1)
        pairs = [(s.due_ns, s.arrived_ns) for s in seen if s.due_ns is not None and s.arrived_ns is not None]
        where = f"{route.name} ({slowest.name})"
        rate = slowest.rate_bps / 1e6
        if len(pairs) < 2:
            yield Check("rate", where, rate, 0.0, 0.0, "Mb/s", len(routes) - 1)
            return
        expected = pairs[-1][0] - pairs[0][0]
        measured = max(pairs[-1][1] - pairs[0][1], 1)
        tolerance = rate * (_RELATIVE + _EARLY_NS / max(expected, 1))
        yield Check("rate", where, rate, rate * expected / measured, tolerance, "Mb/s", len(routes) - 1)

    def _train_length(self, route: _Route, size: int, slowest: Link) -> int:
        """Packets that take ``_DISPERSION_S``, or as many as no queue drops."""
        per_s = slowest.rate_bps / 8 / wire_bytes(slowest, size)
        count = min(max(20, math.ceil(_DISPERSION_S * per_s)), 800)
        links = [self._links[link] for link in route.path]
        told = [queues.of(link.queue).patience_ns(link) for link in links]
        count = min(count, *(int(_SHARE_OF_PATIENCE * (ns / _S) * per_s) for ns in told if ns is not None), count)
        while count >= 8 and None in arrivals(self._links, [Probe(0, route.path, size)] * count):
            count //= 2
        return count

    # Losses.

    def _losses(self, routes: Sequence[_Route]) -> Iterator[Check]:
        """The number of small packets that arrive on the first of ``routes``."""
        route = routes[0]
        loss = loss_of(self._links, route.path)
        if loss is None:
            self._note(f"losses of {route.name}: not checked, the plan lists the packets")
            return
        if loss.probability == 0.0:
            return  # the other measurements miss every lost packet
        slowest = bottleneck(self.plan, route.path)
        gap_ns = max(8 * (_SMALL + 38) * 4 * _S // slowest.rate_bps, 20_000)
        count = min(_MAX_LOSS_PROBES, round(_LOSS_S * _S / gap_ns))
        seen = self._send([(route, self._train(route, n * gap_ns, 1, _SMALL)) for n in range(count)])
        lost = sum(s.arrived_ns is None and s.due_ns is not None for s in seen)
        spread = math.sqrt(count * loss.probability * (1 - loss.probability) * loss.inflation)
        tolerance = (_SIGMAS * spread + 1) / count
        yield Check("losses", route.name, loss.probability, lost / count, tolerance, "of all", len(routes) - 1)

    # Queues.

    def _queues(self) -> Iterator[int]:
        """The links whose queue can be judged: one of each kind, those that most flows cross first."""
        crossing: dict[int, int] = {}
        for flow in self.plan.flows:
            for link in flow.path:
                crossing[link] = crossing.get(link, 0) + 1
        kinds: set[tuple[float, Queue, int]] = set()
        for link in sorted(crossing, key=lambda link: (-crossing[link], link)):
            facts = self._links[link]
            kind = (_rounded(facts.rate_bps), facts.queue, facts.overhead_bytes)
            if facts.host_nic or kind in kinds or len(kinds) >= _MAX_QUEUES:
                continue
            kinds.add(kind)
            yield link

    def _queue(self, link: int) -> Iterator[Check]:
        """A burst from enough hosts to overfill the queue of ``link``."""
        facts = self._links[link]
        if self.plan.nodes[facts.from_].switch is not None:
            self._note(f"queue of {facts.name}: not checked, its packets wait in the memory of a switch")
            return
        if not queues.of(facts.queue).plain:
            self._note(f"queue of {facts.name}: not checked, {kind_of(facts.queue)} drops before it is full")
            return
        for excess in _EXCESSES:
            burst = _Burst.over(self.plan, link, self._routes(), excess)
            if burst is None:
                self._note(f"queue of {facts.name}: not checked, the hosts cannot fill it in {_MAX_S:g} s")
                return
            seen = self._send([(r, self._train(r, at, count, burst.size)) for r, at, count in burst.schedule()])
            check = _fullest(facts, burst, seen, min(delay_ns(self._links, r.path, burst.size) for r in burst.routes))
            # A larger queue shows by the packets that it keeps: they must exceed the tolerance.
            if sum(s.due_ns is None for s in seen) * burst.wire > 2 * check.tolerance:
                yield check
                return
        self._note(f"queue of {facts.name}: not checked, this machine is too slow to overfill it")

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


@dataclass(frozen=True)
class _Route:
    name: str
    path: Path
    source: Endpoint
    target: Endpoint


@dataclass(frozen=True)
class _Seen:
    """The fate of one packet."""

    route: _Route
    sent_ns: int
    due_ns: int | None
    arrived_ns: int | None


@dataclass(frozen=True)
class _Burst:
    """Sources that together exceed a link's rate, for the time that fills its queue."""

    routes: tuple[_Route, ...]
    rates: tuple[float, ...]
    """Rate of each source, bit/s: slightly below its own link's, so that nothing waits there."""
    size: int
    wire: int
    seconds: float

    @classmethod
    def over(cls, plan: Plan, link: int, routes: Sequence[_Route], excess: float) -> _Burst | None:
        """The burst with ``excess`` times the size of ``link``'s queue; ``None`` if it exceeds the limits."""
        facts = plan.links[link]
        chosen: dict[int, tuple[_Route, float]] = {}
        for route in routes:
            before = route.path[: route.path.index(link)] if link in route.path else ()
            if before and all(plan.links[hop].loss is None for hop in route.path):
                rate = 0.97 * bottleneck(plan, before).rate_bps
                chosen.setdefault(route.source.host.node, (route, rate))
        total = sum(rate for _, rate in chosen.values())
        if total < 1.1 * facts.rate_bps:
            return None
        size = min(plan.links[hop].mtu_bytes for route, _ in chosen.values() for hop in route.path)
        wire = wire_bytes(facts, size)
        holds = queue_bytes(facts.queue, wire)
        if holds is None:
            return None
        beyond = 3 * _queue_tolerance(facts, size, 0.0)
        seconds = 8 * (excess * holds + beyond) / (total - facts.rate_bps)
        drain = 8 * holds / facts.rate_bps
        if seconds + drain > _MAX_S or seconds * total / 8 / wire > _MAX_PACKETS:
            return None
        return cls(
            tuple(r for r, _ in chosen.values()), tuple(rate for _, rate in chosen.values()), size, wire, seconds
        )

    def schedule(self) -> Iterator[tuple[_Route, int, int]]:
        """Route, instant in nanoseconds and number of packets of each train."""
        for route, rate in zip(self.routes, self.rates, strict=True):
            count = max(1, round(self.seconds * rate / 8 / self.wire))
            gap_ns = self.wire * 8 * _S / rate
            begun = 0
            for chunk in _chunks(count, self.size, round(_CHUNK_NS / gap_ns)):
                yield route, round(begun * gap_ns), chunk
                begun += chunk


def _queue_tolerance(link: Link, size: int, delay: float) -> float:
    """Apparent error of ``link``'s queue in bytes if packets of ``size`` bytes wait ``delay`` ns."""
    per_ns = link.rate_bps / 8 / _S
    return float((_LATE_NS + 2 * _RELATIVE * delay) * per_ns + 2 * wire_bytes(link, size))


def _fullest(link: Link, burst: _Burst, seen: Sequence[_Seen], base_ns: float) -> Check:
    """The maximum queue in bytes, expected and measured; ``base_ns`` is the delay of an empty path."""
    both = [s for s in seen if s.due_ns is not None and s.arrived_ns is not None]
    expected = max((s.due_ns - s.sent_ns for s in both if s.due_ns), default=0) - base_ns
    measured = max((s.arrived_ns - s.sent_ns for s in both if s.arrived_ns), default=0) - base_ns
    per_ns = link.rate_bps / 8 / _S
    tolerance = _queue_tolerance(link, burst.size, expected)
    return Check("queue", link.name, expected * per_ns, measured * per_ns, tolerance, "bytes")


_Kind = tuple[float, int, int, Queue, LinkLoss | None]


def _alike(links: Sequence[Link], routes: Iterable[_Route]) -> list[list[_Route]]:
    """``routes`` grouped by their links' parameters; slightly different clocks are different groups."""
    groups: dict[tuple[_Kind, ...], list[_Route]] = {}
    for route in routes:
        kinds = tuple(
            (_rounded(link.rate_bps), link.overhead_bytes, link.mtu_bytes, link.queue, link.loss)
            for link in (links[hop] for hop in route.path)
        )
        groups.setdefault(kinds, []).append(route)
    return list(groups.values())


def _rounded(rate_bps: int) -> float:
    return float(f"{rate_bps:.2e}")


def _distinct(flows: Iterable[Flow]) -> list[Flow]:
    """One flow per pair of paths."""
    return list({(flow.path, flow.reverse_path): flow for flow in flows}.values())


def _chunks(count: int, size: int, most: int = _CHUNK) -> Iterator[int]:
    """``count`` packets of ``size`` bytes in pieces that the kernel takes as one, of at most ``most``."""
    most = max(1, min(most, _CHUNK, 65_000 // max(size - UDP_HEADERS, 1)))
    while count > 0:
        yield min(count, most)
        count -= most


def _count_to_arrive(loss: Loss | None) -> int:
    """Number of packets of which at least one arrives with probability 1 - 10^-6."""
    probability = 0.5 if loss is None else loss.probability * min(loss.inflation, 4.0)
    if probability <= 0:
        return 5
    return min(60, max(5, math.ceil(math.log(1e-6) / math.log(min(probability, 0.9)))))


def _lateness(route: _Route, seen: Iterable[_Seen]) -> float:
    """Lateness of the least delayed packet of ``route``, ns; infinite if none arrived."""
    mine = [s for s in seen if s.route is route and s.due_ns is not None and s.arrived_ns is not None]
    return min((s.arrived_ns - s.due_ns for s in mine if s.arrived_ns and s.due_ns), default=math.inf)

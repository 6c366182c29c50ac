"""Tracks the state of an active run, from its tables, for displays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from weir.hosts.messages import Frame
from weir.methods import Live, LiveFlow, LiveLink, Upcoming
from weir.plan import Plan, kind_of

__all__ = ["Watcher", "timeline"]

_MAX_FLOWS = 256
_MAX_LINKS = 4
_MAX_EVENTS = 3
_NULL = np.iinfo(np.uint64).max
_ABSURD_CWND = 1 << 24
"""More packets than any path of a plan holds: 24 GB in flight."""
_FRESH = 3
"""Intervals after which the last data about a flow or link are outdated."""


class Watcher:
    """Takes the tables of a run; :meth:`now` returns the state."""

    def __init__(self, plan: Plan) -> None:
        """Starts with an empty state."""
        self._plan = plan
        self._timeline = timeline(plan)
        self._samples: dict[int, tuple[int, LiveFlow]] = {}
        self._delivered: dict[int, tuple[int, int]] = {}
        self._links: dict[int, tuple[int, LiveLink]] = {}
        self._drops: defaultdict[int, int] = defaultdict(int)
        self._absurd: dict[int, tuple[int, int]] = {}

    def take(self, frame: Frame) -> None:
        """Takes a table; ignores irrelevant ones."""
        match frame.table:
            case "samples":
                self._take_samples(frame)
            case "delivered":
                self._take_delivered(frame)
            case "links":
                self._take_links(frame)

    def now(self, now_ns: int) -> Live:
        """The state at ``now_ns``."""
        flows = self._flows(now_ns)
        listed = flows[:_MAX_FLOWS]
        return Live(
            now_ns=now_ns,
            end_ns=self._plan.end_ns,
            flows=tuple(listed),
            more_flows=len(flows) - len(listed),
            total_goodput_bps=sum(flow.goodput_bps or 0.0 for flow in flows),
            links=tuple(self._fresh_links(now_ns)),
            upcoming=tuple(event for event in self._timeline if event.at_ns > now_ns)[:_MAX_EVENTS],
        )

    @property
    def warnings(self) -> list[str]:
        """Impossible observations."""
        if not self._absurd:
            return []
        flow, (time_ns, cwnd) = next(iter(self._absurd.items()))
        name = self._plan.flows[flow].name
        more = f" and {len(self._absurd) - 1} more" if len(self._absurd) > 1 else ""
        return [
            f"{name}{more}: a congestion window of {cwnd} packets at {time_ns / 1e9:.2f} s, which no congestion "
            "control computes: the kernel got a wrong value from it. Repeat the run, and compare with `cc: linux:NAME`"
        ]

    def _take_samples(self, frame: Frame) -> None:
        columns = frame.columns
        for absurd in np.flatnonzero(columns["cwnd"] > _ABSURD_CWND):
            seen = int(columns["time_ns"][absurd]), int(columns["cwnd"][absurd])
            self._absurd.setdefault(int(columns["flow"][absurd]), seen)
        for row in _last_rows(columns["flow"]):
            flow, srtt = int(columns["flow"][row]), int(columns["srtt_ns"][row])
            state = LiveFlow(
                name=self._plan.flows[flow].name,
                cwnd=int(columns["cwnd"][row]),
                srtt_ns=None if srtt == _NULL else srtt,
                retransmitted_packets=int(columns["retransmitted_packets"][row]),
            )
            self._samples[flow] = int(columns["time_ns"][row]), state

    def _take_delivered(self, frame: Frame) -> None:
        columns = frame.columns
        for time_ns, flow, count in zip(columns["time_ns"], columns["flow"], columns["delivered_bytes"], strict=True):
            before = self._delivered.get(int(flow), (0, 0))
            same = before[1] if before[0] == time_ns else 0  # another transfer of the same flow
            self._delivered[int(flow)] = int(time_ns), same + int(count)

    def _take_links(self, frame: Frame) -> None:
        columns = frame.columns
        interval_s = max(self._plan.measure.links_ns, 1) / 1e9
        for link, packets in zip(columns["link"], columns["drop_packets"], strict=True):
            self._drops[int(link)] += int(packets)
        for row in _last_rows(columns["link"]):
            link = int(columns["link"][row])
            state = LiveLink(
                name=self._plan.links[link].name,
                queue_bytes=int(columns["queue_bytes"][row]),
                out_bps=float(columns["out_bytes"][row]) * 8 / interval_s,
                drop_packets=self._drops[link],
            )
            self._links[link] = int(columns["time_ns"][row]), state

    def _flows(self, now_ns: int) -> list[LiveFlow]:
        """Every flow with current data, in the order of the plan."""
        measure = self._plan.measure
        goodput_ns = max(measure.goodput_ns, 1)
        oldest = now_ns - _FRESH * max(goodput_ns, measure.tcp_ns) - 1_000_000_000
        found = []
        for flow in sorted({*self._samples, *self._delivered}):
            at, state = self._samples.get(flow, (0, LiveFlow(self._plan.flows[flow].name)))
            heard, count = self._delivered.get(flow, (0, 0))
            if max(at, heard) >= oldest:
                goodput = count * 8e9 / goodput_ns if heard >= oldest else None
                found.append(LiveFlow(state.name, goodput, state.cwnd, state.srtt_ns, state.retransmitted_packets))
        return found

    def _fresh_links(self, now_ns: int) -> Iterable[LiveLink]:
        """The links with current data; an interval without a packet or a queue has no row."""
        oldest = now_ns - _FRESH * self._plan.measure.links_ns - 1_000_000_000
        for link in sorted(self._links)[:_MAX_LINKS]:
            at, state = self._links[link]
            yield state if at >= oldest else LiveLink(state.name, 0, 0.0, state.drop_packets)


def _last_rows(keys: Any) -> list[int]:
    """The last row of each distinct key."""
    return list({int(key): row for row, key in enumerate(keys)}.values())


def timeline(plan: Plan) -> list[Upcoming]:
    """The events of ``plan`` in the order of time: flows, changes of links, phases."""
    starts: defaultdict[int, list[str]] = defaultdict(list)
    stops: defaultdict[int, list[str]] = defaultdict(list)
    for flow in plan.flows:
        starts[flow.start_ns].append(flow.name)
        if flow.stop_ns is not None and flow.stop_ns < plan.end_ns:
            stops[flow.stop_ns].append(flow.name)
    found = [Upcoming(at, f"{_names(names)} start{_s(names)}") for at, names in starts.items()]
    found += [Upcoming(at, f"{_names(names)} stop{_s(names)}") for at, names in stops.items()]
    for change in plan.changes:
        found.append(Upcoming(change.at_ns, f"{plan.links[change.link].name}: another {kind_of(change.change)}"))
    for phase in plan.phases:
        found.append(Upcoming(phase.from_ns, f"phase {phase.name} begins"))
    found.append(Upcoming(plan.end_ns, "end"))
    return sorted(found, key=lambda event: event.at_ns)


def _names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} flows"


def _s(names: Sequence[str]) -> str:
    return "s" if len(names) == 1 else ""

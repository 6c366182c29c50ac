"""Measured error of the simulator against a real kernel, at the validated cell nearest to a given one.

The results of `weir validate --document` are data: JSON files in ``docs/validation`` of a checkout, or in the package.
Distance is measured among the cells with the same congestion control. It is the length of a vector of logarithms (base
e): the ratios of round-trip time, rate and number of flows, of the longest to the shortest round-trip time, and of the
queues, in bandwidth-delay products, if both are drop-tail. Each of these counts like a factor of ten: another kind of
queue, of losses or of traffic, and other traffic that only one of the cells has.

A cell is outside the validated region if one of these quantities exceeds the validated range of its congestion control,
or is of a kind that was not validated.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from weir import methods
from weir.plan import kind_of, queue_bytes
from weir.queues import DEFAULT, is_plain
from weir.report._text import number, quantity
from weir.run import Flow, Plan

__all__ = ["Nearest", "Point", "describe", "load", "nearest", "point_of"]

_OTHER_KIND = math.log(10.0)
_MARGIN = 1.02
"""Factor by which a quantity may exceed the validated range without being outside."""


@dataclass(frozen=True)
class Point:
    """The features of a cell that decide how TCP behaves on its path."""

    cc: str
    rtt_s: float
    rate_bps: float
    queue_bdp: float
    flows: int
    lossy: bool
    queue: str = DEFAULT
    """Kind of the queue."""
    loss: str = ""
    """Kind of the losses outside queues: ``bernoulli``, ``gilbert_elliott``, ``list``; empty: none."""
    traffic: str = "bulk"
    """Kind of the flows under test: ``bulk``, ``transfers``."""
    others: str = ""
    """Other traffic: ``forward``, ``reverse``, ``forward reverse``; empty: none."""
    spread: float = 1.0
    """The longest round-trip time of the flows under test over the shortest."""

    def distance(self, other: Point) -> float:
        """Distance of two points; infinite if their congestion controls differ."""
        if self.cc != other.cc:
            return math.inf
        axes = [(self.rtt_s, other.rtt_s), (self.rate_bps, other.rate_bps), (self.spread, other.spread),
                (float(self.flows), float(other.flows))]  # fmt: skip
        if is_plain(self.queue) and is_plain(other.queue):
            axes.append((self.queue_bdp, other.queue_bdp))
        steps = [math.log(max(a, 1e-9) / max(b, 1e-9)) for a, b in axes]
        kinds = ((self.queue, other.queue), (self.traffic, other.traffic), (self.others, other.others),
                 (self._losses(other), other._losses(self)))  # fmt: skip
        return math.hypot(*steps, *(_OTHER_KIND for a, b in kinds if a != b))

    def _losses(self, other: Point) -> str | bool:
        # Older results do not record the kind of losses, only whether there were any.
        return self.loss if self.loss and other.loss else self.lossy

    def to_json(self) -> dict[str, Any]:
        """The point as JSON types."""
        return {**self.__dict__}


@dataclass(frozen=True)
class Nearest:
    """The validated cell nearest to another, and its measured errors."""

    name: str
    methods: tuple[str, str]
    """The tested method and its reference."""
    date: str
    point: Point
    factors: Mapping[str, str]
    errors: Mapping[str, float | None]
    distance: float
    outside: tuple[str, ...] = ()
    """The features outside the validated range, in words; empty: none."""


def point_of(plan: Plan) -> Point | None:
    """The point of a plan; ``None`` without a TCP flow under test."""
    tested = [flow for flow in plan.flows if flow.role == "test" and flow.protocol == "tcp"]
    flows = [flow for flow in tested if not flow.reverse] or tested
    if not flows:
        return None
    first = flows[0]
    link = min((plan.links[i] for i in first.path), key=lambda k: k.rate_bps)
    rtts = [plan.base_rtt_ns(flow) / 1e9 for flow in flows]
    bdp = link.rate_bps * rtts[0] / 8
    losses = [loss for i in first.path if (loss := plan.links[i].typed.loss) is not None]
    room = queue_bytes(link.typed.queue, link.mtu_bytes)
    return Point(
        cc=str(first.cc),
        rtt_s=rtts[0],
        rate_bps=float(link.rate_bps),
        queue_bdp=1.0 if room is None else room / bdp,
        flows=len(flows),
        lossy=bool(losses),
        queue=link.queue,
        loss=kind_of(losses[0]) if losses else "",
        traffic=first.kind,
        others=" ".join(_others(plan, flows, link.id)),
        spread=max(rtts) / min(rtts),
    )


def _others(plan: Plan, flows: Sequence[Flow], bottleneck: int) -> Iterator[str]:
    """Other traffic that flows under test meet: on their bottleneck, or on the path of their acknowledgements."""
    rest = [flow for flow in plan.flows if flow not in flows]
    if any(bottleneck in flow.path for flow in rest):
        yield "forward"
    if any(set(flow.path) & set(flows[0].reverse_path) for flow in rest):
        yield "reverse"


@lru_cache(maxsize=1)
def load() -> tuple[Mapping[str, Any], ...]:
    """The available results of `weir validate`; unreadable ones are left out."""
    package = Path(__file__).parent.parent
    inside = package / "validation"
    folder = inside if inside.is_dir() else package.parent.parent / "docs" / "validation"
    found = []
    for file in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        try:
            result = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(result, dict) and result.get("format") == 1:
            found.append(result)
    return tuple(found)


def nearest(plan: Plan, method: str, results: Iterable[Mapping[str, Any]] | None = None) -> Nearest | None:
    """The validated cell of ``method`` nearest to ``plan``; ``None`` if no cell has its congestion control.

    Cells whose executions carry warnings are left out. Of equally near cells, one with a reference in virtual time
    wins, because anyone can repeat it.
    """
    here = point_of(plan)
    if here is None:
        return None
    best: Nearest | None = None
    points = []
    for result, cell, point in _validated(method, load() if results is None else results):
        distance = here.distance(point)
        if math.isinf(distance):
            continue
        points.append(point)
        methods = (str(result["methods"][0]), str(result["methods"][1]))
        found = Nearest(result["name"], methods, result["date"], point, cell["factors"], cell["errors"], distance)
        if best is None or _order(found) < _order(best):
            best = found
    return None if best is None else replace(best, outside=tuple(_outside(here, points)))


def _order(found: Nearest) -> tuple[float, bool]:
    reference = methods.registered(found.methods[1].partition("@")[0])
    return round(found.distance, 6), reference is not None and reference.clock == "real"


def _validated(
    method: str, results: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any], Point]]:
    for result in results:
        if result["methods"][0] == method:
            for cell in result["cells"]:
                if cell.get("point") is not None and not cell.get("warnings"):  # a warning makes the cell untrustworthy
                    yield result, cell, Point(**cell["point"])


_QUANTITIES = (("rtt_s", "round-trip time", "s"), ("rate_bps", "rate", "bit/s"), ("flows", "number of flows", ""),
               ("queue_bdp", "queue", " BDP"), ("spread", "spread of round-trip times", ""))  # fmt: skip
_KINDS = (("queue", "queue"), ("loss", "losses"), ("traffic", "traffic"), ("others", "other traffic"))


def _outside(here: Point, points: Sequence[Point]) -> Iterator[str]:
    """The features of a point beyond all validated points."""
    for name, title in _KINDS:
        value = getattr(here, name)
        if value and all(getattr(point, name) != value for point in points):
            yield f"{title}: {value}"
    for name, title, unit in _QUANTITIES:
        if name == "queue_bdp" and not is_plain(here.queue):
            continue
        alike = [point for point in points if name != "queue_bdp" or is_plain(point.queue)]
        values = [float(getattr(point, name)) for point in alike]
        value = float(getattr(here, name))
        if values and not min(values) / _MARGIN <= value <= max(values) * _MARGIN:
            ends = dict.fromkeys(_amount(v, unit) for v in (min(values), max(values)))
            yield f"{title} of {_amount(value, unit)} (validated: {' to '.join(ends)})"


def _amount(value: float, unit: str) -> str:
    return quantity(value, unit) if unit in ("s", "bit/s") else f"{number(value, 2)}{unit}"


_FAR = math.log(3.0)
_SHOWN = (
    ("goodput_error", "goodput", True),
    ("utilisation_error", "utilisation", True),
    ("jain_error", "Jain's index", False),
    ("queue_delay_error", "queueing delay", True),
    ("completion_error", "completion time", True),
)


def describe(found: Nearest) -> str:
    """Describes a nearest cell in words: its features and its measured errors."""
    p = found.point
    flows = "1 flow" if p.flows == 1 else f"{p.flows} flows"
    place = (
        f"{p.cc}, {quantity(p.rtt_s, 's')}, {quantity(p.rate_bps, 'bit/s')}, {_queue_text(p)}, {flows}{_kinds_text(p)}"
    )
    errors = []
    for name, title, relative in _SHOWN:
        value = found.errors.get(name)
        if value is not None:
            errors.append(f"{title} {number(100 * value, 2)} %" if relative else f"{title} {number(value, 2)}")
    far = "; it is not near, so this says little" if found.distance > _FAR else ""
    outside = f" Outside the validated region: {'; '.join(found.outside)}." if found.outside else ""
    measured = f"{found.name}, {found.methods[0]} against {found.methods[1]}, {found.date}"
    said = f"Nearest validated cell ({measured}): {place}{far}. Errors there: {', '.join(errors) or 'none defined'}."
    return said + outside


def _queue_text(point: Point) -> str:
    return f"queue of {number(point.queue_bdp, 2)} BDP" if is_plain(point.queue) else point.queue


def _kinds_text(point: Point) -> str:
    """Special features of a point's traffic and losses."""
    parts = [point.traffic] if point.traffic != "bulk" else []
    if point.spread > 1.05:
        parts.append(f"round-trip times up to {number(point.spread, 2)} times as long")
    parts += [f"{way} traffic" for way in point.others.split()]
    if point.loss == "gilbert_elliott":
        parts.append("bursts of losses")
    elif point.lossy:
        parts.append("random losses")
    return "".join(f", {part}" for part in parts)

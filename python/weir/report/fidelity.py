"""How far the simulator was measured to be from a real kernel, at the validated cell nearest to the one at hand.

The results of `weir validate --document` are data: JSON files in ``docs/validation`` of a checkout, or in the package.
Near is measured among the cells with the same congestion control, as the distance of the logarithms of round-trip time,
rate and queue (in bandwidth-delay products), and of the number of flows; a loss at random that one has and the other
has not counts like a factor of ten.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from weir.report._text import number, quantity
from weir.run import Plan

__all__ = ["Nearest", "Point", "describe", "load", "nearest", "point_of"]

_LOSS_WEIGHT = math.log(10.0)


@dataclass(frozen=True)
class Point:
    """Where a cell is: what decides how TCP behaves on a path."""

    cc: str
    rtt_s: float
    rate_bps: float
    queue_bdp: float
    flows: int
    lossy: bool

    def distance(self, other: Point) -> float:
        """How far two points are apart; infinite if their congestion controls differ."""
        if self.cc != other.cc:
            return math.inf
        axes = ((self.rtt_s, other.rtt_s), (self.rate_bps, other.rate_bps), (self.queue_bdp, other.queue_bdp),
                (float(self.flows), float(other.flows)))  # fmt: skip
        steps = [math.log(max(a, 1e-9) / max(b, 1e-9)) for a, b in axes]
        return math.hypot(*steps, _LOSS_WEIGHT * (self.lossy != other.lossy))

    def to_json(self) -> dict[str, Any]:
        """The point as JSON types."""
        return {**self.__dict__}


@dataclass(frozen=True)
class Nearest:
    """The validated cell nearest to another, and what was measured there."""

    name: str
    methods: tuple[str, str]
    """The method that was tested, and the one it was tested against."""
    date: str
    point: Point
    factors: Mapping[str, str]
    errors: Mapping[str, float | None]
    distance: float


def point_of(plan: Plan) -> Point | None:
    """Where a plan is; none if it has no TCP flow under test."""
    flows = [flow for flow in plan.flows if flow.role == "test" and flow.protocol == "tcp"]
    if not flows:
        return None
    first = flows[0]
    link = min((plan.links[i] for i in first.path), key=lambda k: k.rate_bps)
    rtt_s = plan.base_rtt_ns(first) / 1e9
    bdp = link.rate_bps * rtt_s / 8
    return Point(
        cc=str(first.cc),
        rtt_s=rtt_s,
        rate_bps=float(link.rate_bps),
        queue_bdp=_queue_bytes(link.raw["queue"], link.mtu_bytes, bdp) / bdp,
        flows=len(flows),
        lossy=any(plan.links[i].raw.get("loss") is not None for i in first.path),
    )


def _queue_bytes(queue: Mapping[str, Any], mtu: int, bdp: float) -> float:
    """The limit of a queue; one BDP where it has none that can be told."""
    limit = queue.get("limit") or {}
    if limit.get("bytes"):
        return float(limit["bytes"])
    return float(limit["packets"]) * mtu if limit.get("packets") else bdp


@lru_cache(maxsize=1)
def load() -> tuple[Mapping[str, Any], ...]:
    """The results there are, each as `weir validate` wrote it; what cannot be read is left out."""
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
    """The validated cell of ``method`` that is nearest to ``plan``; none if none has its congestion control.

    Cells whose executions carry warnings are left out.
    """
    here = point_of(plan)
    if here is None:
        return None
    best: Nearest | None = None
    for result in load() if results is None else results:
        methods = result["methods"]
        if methods[0] != method:
            continue
        for cell in result["cells"]:
            if cell.get("point") is None or cell.get("warnings"):
                continue  # what was measured there is not to be trusted
            point = Point(**cell["point"])
            distance = here.distance(point)
            if math.isfinite(distance) and (best is None or distance < best.distance):
                names = (str(methods[0]), str(methods[1]))
                best = Nearest(result["name"], names, result["date"], point, cell["factors"], cell["errors"], distance)
    return best


_FAR = math.log(3.0)
_SHOWN = (
    ("goodput_error", "goodput", True),
    ("utilisation_error", "utilisation", True),
    ("jain_error", "Jain's index", False),
    ("queue_delay_error", "queueing delay", True),
    ("completion_error", "completion time", True),
)


def describe(found: Nearest) -> str:
    """A nearest cell in words: where it is, and the errors that were measured there."""
    p = found.point
    flows = "1 flow" if p.flows == 1 else f"{p.flows} flows"
    losses = ", random losses" if p.lossy else ""
    place = (
        f"{p.cc}, {quantity(p.rtt_s, 's')}, {quantity(p.rate_bps, 'bit/s')}, queue of {number(p.queue_bdp, 2)} BDP, "
        f"{flows}{losses}"
    )
    errors = []
    for name, title, relative in _SHOWN:
        value = found.errors.get(name)
        if value is not None:
            errors.append(f"{title} {number(100 * value, 2)} %" if relative else f"{title} {number(value, 2)}")
    far = "; it is not near, so this says little" if found.distance > _FAR else ""
    measured = f"{found.name}, {found.methods[0]} against {found.methods[1]}, {found.date}"
    return f"Nearest validated cell ({measured}): {place}{far}. Errors there: {', '.join(errors) or 'none defined'}."

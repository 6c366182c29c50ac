"""Names of flows and links: ``elephants``, ``elephants[4]``, ``elephants[0:5]``, ``*``.

``direction:forward`` and ``direction:reverse`` are flows under test, ``role:background`` and ``role:reverse`` the
others. Commas separate several selectors. The default is the flows with role ``test``.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from weir.metrics.errors import MetricError, nearest
from weir.run import Flow, Link, Plan

__all__ = ["DIRECTIONS", "direction_of", "select_flows", "select_links"]

DIRECTIONS = ("forward", "reverse")
"""From source to sink, and from sink to source."""

_SLICE = re.compile(r"(?P<group>[^\[\]]+)\[(?:(?P<one>\d+)|(?P<lo>\d*):(?P<hi>\d*))\]")


def direction_of(flow: Flow) -> str:
    """One of ``DIRECTIONS``."""
    return DIRECTIONS[flow.reverse]


def select_flows(plan: Plan, selector: str | None) -> tuple[Flow, ...]:
    """Returns the flows that ``selector`` names, in the order of the plan; ``None``: the flows under test.

    Raises:
        MetricError: a part of the selector matches no flow.
    """
    if selector is None:
        return tuple(flow for flow in plan.flows if flow.role == "test")
    chosen: set[int] = set()
    for part in _parts(selector):
        test = _flow_test(part)
        found = {flow.id for flow in plan.flows if test(flow)}
        if not found:
            known = list(dict.fromkeys([f.group for f in plan.flows] + [f.name for f in plan.flows]))
            groups = ", ".join(dict.fromkeys(f.group for f in plan.flows))
            raise MetricError(f"no flow {part!r}; the groups are {groups}.{nearest(part, known)}")
        chosen |= found
    return tuple(flow for flow in plan.flows if flow.id in chosen)


def select_links(plan: Plan, selector: str) -> tuple[Link, ...]:
    """Returns the links that ``selector`` names, in the order of the plan.

    Raises:
        MetricError: a part of the selector matches no link.
    """
    chosen: set[int] = set()
    for part in _parts(selector):
        found = {link.id for link in plan.links if part in ("*", link.name)}
        if not found:
            known = [link.name for link in plan.links]
            raise MetricError(f"no link {part!r}.{nearest(part, known)}")
        chosen |= found
    return tuple(link for link in plan.links if link.id in chosen)


def _parts(selector: str) -> list[str]:
    parts = [part.strip() for part in selector.split(",")]
    if not all(parts):
        raise MetricError(f"selector {selector!r} has an empty part; expected names with commas between them")
    return parts


def _flow_test(part: str) -> Callable[[Flow], bool]:
    if part == "*":
        return lambda flow: True
    if part.startswith("role:"):
        role = part.removeprefix("role:").strip()
        return lambda flow: flow.role == role
    if part.startswith("direction:"):
        way = part.removeprefix("direction:").strip()
        if way not in DIRECTIONS:
            raise MetricError(f"no direction {way!r}; there are {' and '.join(DIRECTIONS)}.{nearest(way, DIRECTIONS)}")
        return lambda flow: flow.role == "test" and direction_of(flow) == way
    match = _SLICE.fullmatch(part)
    if match is None:
        return lambda flow: part in (flow.group, flow.name)
    group = match["group"].strip()
    if match["one"] is not None:
        number = int(match["one"])
        return lambda flow: flow.group == group and flow.index == number
    low, high = int(match["lo"] or 0), int(match["hi"]) if match["hi"] else None
    return lambda flow: flow.group == group and flow.index >= low and (high is None or flow.index < high)

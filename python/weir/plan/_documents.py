"""Plans as documents: their JSON, its hash, and the types generated from the schema."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from weir.plan._types import Plan, Transport

__all__ = ["PlanError", "canonical", "plan_hash", "typed", "with_transports"]

_SHOWN = 40
_WANTED = {
    "int": "an integer",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}


class PlanError(ValueError):
    """A document is no plan."""

    def __init__(self, problem: str, expected: str) -> None:
        super().__init__(f"the plan: {problem}; expected {expected}")
        self.problem = problem
        """The field that is wrong, and its value."""
        self.expected = expected


def typed(document: Mapping[str, Any]) -> Plan:
    """The plan in ``document``.

    Types and ranges are checked. The method checks whether it can be executed (``weir-plan``'s ``validate``).

    Raises:
        PlanError: a field is missing, of another type or out of its range.
    """
    try:
        return msgspec.convert(document, Plan)
    except msgspec.ValidationError as error:
        raise _explained(document, str(error)) from error


def with_transports(
    document: Mapping[str, Any], plan: Plan, other: Callable[[Transport, Mapping[str, Any]], Mapping[str, Any]]
) -> dict[str, Any]:
    """``document``, whose plan is ``plan``, with other transports of its flows.

    Args:
        other: receives a transport and its document, and returns the replacement document.
    """
    flows = [
        {**given, "transport": other(flow.transport, given["transport"])}
        for flow, given in zip(plan.flows, document["flows"], strict=True)
    ]
    return {**document, "flows": flows}


def _explained(document: Mapping[str, Any], said: str) -> PlanError:
    """Converts a message of msgspec, such as "Expected `int`, got `str` - at `$.flows[0].start_ns`"."""
    said, _, place = said.partition(" - at `$")
    place = place.rstrip("`").lstrip(".")
    if missing := re.fullmatch(r"Object missing required field `(.*)`", said):
        field = f"{place}.{missing[1]}" if place else missing[1]
        return PlanError(f"lacks the field {field}", "a plan")
    value: Any = document
    for key, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", place):
        value = value[int(index)] if index else value[key]
    wanted = re.match(r"Expected `([^`]*)`(.*)", said)
    expected = _WANTED.get(wanted[1].removesuffix(" | null"), f"`{wanted[1]}`") if wanted else "a valid value"
    rest = wanted[2].partition(", got")[0].replace(" >= ", " from ").replace(" <= ", " to ") if wanted else ""
    return PlanError(f"{place or 'it'} is {_shown(value)}", expected + rest)


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text.

    Raises:
        ValueError: JSON has no such number.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def plan_hash(document: Mapping[str, Any]) -> str:
    """The hash of a plan; equal plans have equal hashes."""
    return "sha256:" + hashlib.sha256(canonical(document).encode()).hexdigest()

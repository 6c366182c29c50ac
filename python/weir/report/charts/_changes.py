"""Marks at the instants at which the plan changes links: a dotted line with a letter in every plot over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any

from weir.report import theme
from weir.report.changes import Changes, Instant
from weir.report.charts._base import Drawing, Medium
from weir.report.view import CellView

__all__ = ["mark_changes", "marked"]

_TOLD = 6
"""Up to this many instants are told one by one below a chart."""
_STACKS = ("concat", "hconcat", "vconcat")
_PLOT = ("data", "encoding", "mark", "name", "transform")
"""Keys of a plot that stay with its mark when it becomes a layer."""

Draw = Callable[[CellView, Medium], Drawing | None]


def marked(draw: Draw) -> Draw:
    """Decorates the function of a chart over the time of a cell to mark the changes of the cell's plan."""

    @wraps(draw)
    def with_marks(cell: CellView, medium: Medium) -> Drawing | None:
        drawing = draw(cell, medium)
        return None if drawing is None else mark_changes(drawing, cell.changes, medium)

    return with_marks


def mark_changes(drawing: Drawing, changes: Changes, medium: Medium) -> Drawing:
    """The drawing with a mark at each instant that has a letter, and a remark that says what changes."""
    notes = (*drawing.notes, *_notes(changes))
    if not changes.marked:
        return replace(drawing, notes=notes)
    return replace(drawing, spec=_with_marks(drawing.spec, _rows(changes.marked), medium), notes=notes)


def _notes(changes: Changes) -> list[str]:
    said, instants = [], changes.marked
    if 0 < len(instants) <= _TOLD:
        told = "; ".join(f"{one.label}, {_kinds(one)} at {one.at_s:.6g} s" for one in instants)
        said.append(f"Dotted: changes of links, listed in the table Changes: {told}.")
    elif instants:
        first, last = instants[0], instants[-1]
        said.append(
            f"Dotted: changes of links, from {first.label} at {first.at_s:.6g} s to {last.label} at {last.at_s:.6g} s; "
            "the table Changes lists them."
        )
    courses = [f"{one.kind} of {one.link} ({one.number} times)" for one in changes.courses]
    if courses:
        said.append(f"Not marked, because too many: changes of the {', '.join(courses)}.")
    return said


def _kinds(one: Instant) -> str:
    return " and ".join(dict.fromkeys(change.kind for change in one.changes))


def _rows(instants: Sequence[Instant]) -> list[dict[str, Any]]:
    return [
        {"at_s": one.at_s, "label": one.label, "what": "; ".join(f"{c.link}: {c.text}" for c in one.changes)}
        for one in instants
    ]


def _with_marks(spec: Mapping[str, Any], rows: list[dict[str, Any]], medium: Medium) -> dict[str, Any]:
    """``spec`` with the marks as last layers of each plot that has an axis of time."""
    for key in _STACKS:
        if key in spec:
            return {**spec, key: [_with_marks(part, rows, medium) for part in spec[key]]}
    if "spec" in spec:
        return {**spec, "spec": _with_marks(spec["spec"], rows, medium)}
    x = _time(spec)
    if x is None:
        return dict(spec)
    layers = _layers({**x, "field": "at_s"}, rows, medium)
    if "layer" in spec:
        return {**spec, "layer": [*spec["layer"], *layers]}
    plot = {key: value for key, value in spec.items() if key in _PLOT}
    around = {key: value for key, value in spec.items() if key not in _PLOT}
    return {**around, "layer": [plot, *layers]}


def _time(spec: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The first x axis in a plot that shows seconds."""
    x: Mapping[str, Any] = spec.get("encoding", {}).get("x", {})
    if str(x.get("field", "")).endswith("_s"):
        return x
    found = (_time(layer) for layer in spec.get("layer", ()))
    return next((one for one in found if one is not None), None)


def _layers(x: dict[str, Any], rows: list[dict[str, Any]], medium: Medium) -> list[dict[str, Any]]:
    data = {"values": rows}  # in the specification, so that the CSV files of a figure stay the same
    rule: dict[str, Any] = {"type": "rule", "clip": True, "color": theme.NEUTRAL, "strokeDash": [2, 2]}
    text: dict[str, Any] = {"type": "text", "align": "left", "baseline": "top", "clip": True, "dx": 3}
    line: dict[str, Any] = {
        "data": data,
        "mark": {**rule, "strokeWidth": 1.2 if medium.page else 0.7},
        "encoding": {"x": x},
    }
    if medium.page:
        line["encoding"]["tooltip"] = [
            {"field": "at_s", "type": "quantitative", "title": "Time (s)", "format": ".6~g"},
            {"field": "what", "type": "nominal", "title": "change"},
        ]
    label = {"field": "label", "type": "nominal"}
    size = 11 if medium.page else 6
    letter = {
        "data": data,
        "mark": {**text, "fontSize": size, "opacity": 0.75},
        "encoding": {"x": x, "y": {"value": 1}, "text": label},
    }
    return [line, letter]

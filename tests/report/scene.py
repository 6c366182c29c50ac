"""Reads a chart like a person: the marks, their panels, their looks, and their values on the axes.

Vega renders the chart. The labels of the axes turn positions into values, the legend turns looks into names, and the
unit in the title gives base units (bit/s, s, bytes, 1). The chart's data are not used.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import vl_convert

__all__ = ["GAP", "Mark", "Point", "Scene", "read_scene", "with_gaps"]

Value = float | str
Node = dict[str, Any]

_UNITS = {"bps": 1.0, "kbps": 1e3, "Mbps": 1e6, "Gbps": 1e9, "Tbps": 1e12, "ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0,
          "B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "%": 0.01, "packets": 1.0, "1/s": 1.0, "BDP": 1.0}  # fmt: skip


@dataclass(frozen=True)
class Point:
    """A mark's position in values of the axes; ``x2`` and ``y2`` are its other end, ``text`` its label."""

    x: Value
    y: Value
    x2: Value | None = None
    y2: Value | None = None
    text: str = ""
    size: float | None = None
    """The value of its colour, if the colour is a scale."""


GAP = Point("gap", "gap")
"""A break in a curve."""


def with_gaps(points: Iterable[Point]) -> tuple[Point, ...]:
    """Points of a curve with one ``GAP`` at each break, and none at its ends."""
    found: list[Point] = []
    for point in points:
        if point is not GAP or (found and found[-1] is not GAP):
            found.append(point)
    return tuple(found[:-1] if found and found[-1] is GAP else found)


@dataclass(frozen=True)
class Mark:
    """A curve or an area with its points in order, or a set of single places with one look."""

    panel: str
    """Titles of the panel: of its column, of its row; or ``#0``, ``#1`` for stacked plots."""
    kind: str
    """``line``, ``area``, ``rect``, ``symbol``, ``rule`` or ``text``."""
    series: str
    """The legend's name for its look; empty without a legend."""
    dashed: bool
    pale: bool
    """Whether others of its kind in the panel are drawn less transparent."""
    points: tuple[Point, ...]
    outside: bool
    """Whether a part of it lies outside the panel, invisibly."""


@dataclass(frozen=True)
class Scene:
    """A chart as drawn."""

    marks: tuple[Mark, ...]
    panels: tuple[str, ...]
    """All panels, including empty ones, in the order of their positions: row by row."""
    legend: tuple[str, ...]
    titles: tuple[str, ...]
    """Titles of the figure and the axes."""
    width: float


def read_scene(spec: dict[str, Any]) -> Scene:
    """Renders a Vega-Lite specification with its data and reads what was drawn."""
    drawn = vl_convert.vegalite_to_scenegraph(spec, allowed_base_urls=[])
    frame = drawn["scenegraph"]["items"][0]
    looks, scales = _legends(frame)
    parts = list(_panels(frame))
    marks = [m for part in parts for m in part.marks(looks, scales)]
    order = sorted(parts, key=lambda p: (p.y, p.x))
    texts = [t for g in _nodes(frame) for t in _axis_titles(g)] + _titles(frame)
    return Scene(tuple(marks), tuple(p.name for p in order), tuple(looks), tuple(texts), drawn["width"])


def _groups(node: Node, role: str = "", name: str = "") -> Iterator[Node]:
    """The items of the groups in ``node`` with a role or a name."""
    for mark in node.get("items", ()):
        if (
            mark["marktype"] == "group"
            and role in ("", mark.get("role"))
            and re.fullmatch(name or ".*", mark.get("name", ""))
        ):
            yield from mark["items"]


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for mark in node.get("items", ()):
        if mark["marktype"] == "group":
            for item in mark["items"]:
                yield from _nodes(item)


def _texts(node: Node, role: str) -> list[Node]:
    return [item for mark in node.get("items", ()) if mark.get("role") == role for item in mark.get("items", ())]


def _titles(node: Node) -> list[str]:
    return [str(t["text"]) for g in _groups(node, "title") for t in _texts(g, "title-text")]


def _axis_titles(node: Node) -> list[str]:
    return [str(t["text"]) for axis in _groups(node, "axis") for t in _texts(axis, "axis-title")]


# ---- axes ------------------------------------------------------------------------------------------------------------


Scale = Callable[[float], Value]


def _number(text: str) -> float | None:
    try:
        return float(text.replace("\u2212", "-").replace(",", ""))
    except ValueError:
        return None


def _axis(node: Node, orient: str) -> tuple[Scale, str] | None:
    """The axis of a group on one side: the scale from pixels to values, and its title."""
    for axis in _groups(node, "axis"):
        labels = _texts(axis, "axis-label")
        if axis["orient"] != orient or not labels:
            continue
        title = " ".join(str(t["text"]) for t in _texts(axis, "axis-title"))
        places = [(float(t["x" if orient == "bottom" else "y"]), str(t["text"])) for t in labels]
        numbers = [(at, n) for at, text in places if (n := _number(text)) is not None]
        if len(numbers) != len(places) or "series" in title:
            return _by_name(places), title
        assert len(numbers) > 1, f"an axis with one label only: {places}"
        return _linear(numbers), title
    return None


def _by_name(places: list[tuple[float, str]]) -> Scale:
    return lambda at: min(places, key=lambda place: abs(place[0] - at))[1]


def _linear(numbers: list[tuple[float, float]]) -> Scale:
    (a, va), (b, vb) = min(numbers), max(numbers)
    slope = (vb - va) / (b - a)
    for at, value in numbers:
        assert math.isclose(va + slope * (at - a), value, rel_tol=1e-3, abs_tol=abs(vb - va) / 50), numbers
    return lambda at: va + slope * (at - a)


def _unit(*titles: str) -> float:
    """The factor to base units of the first title that names a unit in parentheses."""
    for title in titles:
        for found in re.findall(r"\(([^()]*)\)", title):
            word = found.split(" of ")[0].strip()
            if word in _UNITS:
                return _UNITS[word]
    return 1.0


# ---- legends ---------------------------------------------------------------------------------------------------------

Look = tuple[str, tuple[float, ...], str]
"""Colour, dashes, shape."""


def _dashes(item: Node) -> tuple[float, ...]:
    found = tuple(item.get("strokeDash") or ())
    return () if found == (1, 0) else found


def _legends(frame: Node) -> tuple[dict[str, Look], list[Callable[[str], float]]]:
    looks: dict[str, Look] = {}
    scales: list[Callable[[str], float]] = []
    for node in _nodes(frame):
        for legend in _groups(node, "legend"):
            title = " ".join(str(t["text"]) for t in _texts(legend, "legend-title"))
            for entry in _groups(legend, "legend-entry"):
                gradient = _texts(entry, "legend-gradient")
                if gradient:
                    scales.append(_gradient(gradient[0], _texts(entry, "legend-label"), _unit(title)))
                for one in _nodes(entry):
                    for symbol, label in zip(_texts(one, "legend-symbol"), _texts(one, "legend-label"), strict=False):
                        colour = symbol.get("stroke") or symbol.get("fill")
                        text = str(label["text"])
                        assert text not in looks, f"two entries of the legend are called {text!r}"
                        looks[text] = (str(colour), _dashes(symbol), str(symbol.get("shape", "")))
    return looks, scales


def _rgb(text: str) -> tuple[float, ...]:
    if text.startswith("#"):
        return tuple(int(text[i : i + 2], 16) for i in (1, 3, 5))
    return tuple(float(v) for v in re.findall(r"[\d.]+", text)[:3])


def _gradient(item: Node, labels: list[Node], unit: float) -> Callable[[str], float]:
    """Maps a colour of the scale to its value."""
    stops = [(float(s["offset"]), _rgb(s["color"])) for s in item["fill"]["stops"]]
    numbers = [(float(t["x"]), n) for t in labels if (n := _number(str(t["text"]))) is not None]
    scale, width = _linear(numbers), float(item["width"])

    def value(colour: str) -> float:
        wanted = _rgb(colour)
        best = (math.inf, 0.0)
        for (a, ca), (b, cb) in pairwise(stops):
            along = [q - p for p, q in zip(ca, cb, strict=True)]
            dot = sum((w - p) * d for w, p, d in zip(wanted, ca, along, strict=True))
            share = min(1.0, max(0.0, dot / (sum(d * d for d in along) or 1.0)))
            off = sum((p + share * d - w) ** 2 for p, d, w in zip(ca, along, wanted, strict=True))
            best = min(best, (off, a + share * (b - a)))
        found = scale(best[1] * width)
        assert isinstance(found, float)
        return found * unit

    return value


# ---- panels ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Panel:
    name: str
    node: Node
    x: float
    y: float
    x_axis: tuple[Scale, str]
    y_axis: tuple[Scale, str]
    title: str

    def marks(self, looks: dict[str, Look], scales: list[Callable[[str], float]]) -> Iterator[Mark]:
        for found in self.node.get("items", ()):
            if found.get("role") == "mark":
                yield from self._split(found, looks, scales)
            elif str(found.get("name", "")).endswith("pathgroup"):
                for group in found["items"]:
                    for inner in group["items"]:
                        yield from self._split(inner, looks, scales)

    def _split(self, found: Node, looks: dict[str, Look], scales: list[Callable[[str], float]]) -> Iterator[Mark]:
        """A path unchanged; single positions grouped by their look."""
        kind, items = str(found["marktype"]), found.get("items", [])
        if kind == "rect":  # without an area, it is invisible
            items = [i for i in items if i.get("width") != 0 or i.get("height") != 0]
        clear = max((i.get("opacity", 1.0) for i in items), default=1.0)
        if kind in ("line", "area"):
            groups = [items] if items else []
        else:
            by_look: dict[tuple[Any, ...], list[Node]] = {}
            for item in items:
                fill = None if scales else item.get("fill")
                look = (item.get("stroke"), fill, item.get("shape"), item.get("opacity", 1.0))
                by_look.setdefault(look, []).append(item)
            groups = list(by_look.values())
        for group in groups:
            there = [self._point(kind, item, scales) if item.get("defined", True) else GAP for item in group]
            points = with_gaps(there)
            if points:
                outside = any(self._outside(item) for item in group if item.get("defined", True))
                first = group[0]
                told = any(dashes for _, dashes, _ in looks.values())  # by the legend
                dashed = kind == "line" and bool(_dashes(first)) and not told
                pale = first.get("opacity", 1.0) < clear
                yield Mark(self.name, kind, _series(kind, first, looks), dashed, pale, points, outside)

    def _outside(self, item: Node) -> bool:
        width, height = float(self.node["width"]), float(self.node["height"])
        xs = [float(item[k]) for k in ("x", "x2") if item.get(k) is not None]
        ys = [float(item[k]) for k in ("y", "y2") if item.get(k) is not None]
        return not all(-0.6 <= v <= width + 0.6 for v in xs) or not all(-0.6 <= v <= height + 0.6 for v in ys)

    def _point(self, kind: str, item: Node, scales: list[Callable[[str], float]]) -> Point:
        (to_x, x_title), (to_y, y_title) = self.x_axis, self.y_axis
        x_unit, y_unit = _unit(x_title), _unit(y_title, self.title)

        def value(key: str, scale: Scale, unit: float) -> Value | None:
            if item.get(key) is None:
                return None
            found = scale(float(item[key]))
            return found * unit if isinstance(found, float) else found

        x, y = value("x", to_x, x_unit), value("y", to_y, y_unit)
        assert x is not None
        assert y is not None
        size = scales[0](str(item["fill"])) if scales and kind == "rect" else None
        x2, y2 = value("x2", to_x, x_unit), value("y2", to_y, y_unit)
        return Point(x, y, x2, y2, str(item.get("text", "")), size)


def _series(kind: str, item: Node, looks: dict[str, Look]) -> str:
    if not looks:
        return ""
    colour = item.get("stroke") or item.get("fill")
    fits = [name for name, look in looks.items() if look[0] == colour]
    if kind == "line" and any(dashes for _, dashes, _ in looks.values()):
        fits = [name for name in fits if looks[name][1] == _dashes(item)]
    if kind == "symbol" and len({shape for _, _, shape in looks.values()}) > 1:
        fits = [name for name in fits if looks[name][2] == item.get("shape")]
    return " or ".join(fits)


def _panels(frame: Node) -> Iterator[_Panel]:
    title = " ".join(_titles(frame))
    cells = list(_groups(frame, "scope", "cell"))
    stacked = list(_groups(frame, "scope", r"(concat|plot)_\d+_group"))
    if cells:
        heads = {side: list(_groups(frame, side)) for side in
                 ("row-header", "row-footer", "column-header", "column-footer")}  # fmt: skip
        for cell in cells:
            yield _cell(cell, heads, title)
        return
    for number, group in enumerate(stacked or [frame]):
        x_axis, y_axis = _axis(group, "bottom"), _axis(group, "left")
        assert x_axis is not None
        assert y_axis is not None
        node = group if stacked else {**group, "width": _extent(group, "bottom"), "height": _extent(group, "left")}
        yield _Panel(f"#{number}" if stacked else "", node, group["x"], group["y"], x_axis, y_axis, title)


def _extent(frame: Node, side: str) -> float:
    """Length of an axis' line: a plot that stands alone has no size of its own."""
    ends = ("x", "x2") if side == "bottom" else ("y", "y2")
    for axis in _groups(frame, "axis"):
        if axis["orient"] == side and (lines := _texts(axis, "axis-domain")):
            return max(float(lines[0].get(end, 0)) for end in ends)
    return float(frame["width" if side == "bottom" else "height"])


def _cell(cell: Node, heads: dict[str, list[Node]], title: str) -> _Panel:
    def beside(sides: tuple[str, ...], key: str) -> list[Node]:
        return [g for side in sides for g in heads[side] if abs(float(g[key]) - float(cell[key])) < 1.5]

    rows, columns = beside(("row-header", "row-footer"), "y"), beside(("column-header", "column-footer"), "x")
    texts = _titles(cell) + [t for g in (*columns, *rows) for t in _titles(g)]
    x_axis = next((a for g in (cell, *columns) if (a := _axis(g, "bottom"))), None)
    y_axis = next((a for g in (cell, *rows) if (a := _axis(g, "left"))), None)
    assert x_axis is not None, f"panel {texts} has no x axis"
    assert y_axis is not None, f"panel {texts} has no y axis"
    return _Panel(" | ".join(texts), cell, cell["x"], cell["y"], x_axis, y_axis, title)

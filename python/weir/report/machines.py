"""A picture of an inventory: its sets of nodes, their roles, and what is between them. Pure text: SVG.

Looks are those of the figures for papers (:mod:`weir.report.theme`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from weir.inventory import Connection, Inventory, NodeSet
from weir.language import show_duration, show_rate
from weir.report import theme

__all__ = ["draw"]

_INK, _PALE, _FAINT = "#111111", "#666666", "#c8ccd2"
_LARGE, _SMALL = 9.0, 7.0
"""Heights of letters, points."""
_LETTER = 0.5
"""Mean width of a letter, as a share of its height."""
_LINE = 10.0
_DOT, _PITCH, _ROW = 3.0, 9.0, 16
_MOST_DOTS = 8 * _ROW
_PAD = 8.0
_GAP = 120.0
"""Least distance between two boxes, in which the words of their connection stand."""
_MARGIN = 10.0


@dataclass(frozen=True)
class _Box:
    """A set, drawn around a point."""

    each: NodeSet
    lines: tuple[str, ...]
    chips: tuple[tuple[str, str], ...]
    """Roles of its nodes: words and colour."""
    colours: tuple[str | None, ...]
    """Of each node that is drawn; ``None``: it has no role."""
    more: int
    """Nodes that are not drawn."""
    width: float
    height: float
    x: float = 0.0
    y: float = 0.0

    def at(self, x: float, y: float) -> _Box:
        return _Box(self.each, self.lines, self.chips, self.colours, self.more, self.width, self.height, x, y)

    def edge(self, x: float, y: float) -> tuple[float, float]:
        """Where a line from the middle towards a point leaves the box."""
        across, down = x - self.x, y - self.y
        share = min(
            self.width / 2 / abs(across) if across else math.inf, self.height / 2 / abs(down) if down else math.inf
        )
        return self.x + across * share, self.y + down * share


def draw(inventory: Inventory) -> str:
    """The picture, as SVG. The same inventory gives the same text."""
    colours = _colours(inventory)
    boxes = _placed([_box(inventory, each, colours) for each in inventory.sets.values()], inventory.connections)
    by_alias = {box.each.alias: box for box in boxes}
    parts = [*_connections(inventory, by_alias)]
    for box in boxes:
        parts += _drawn(box)
    left = min(box.x - box.width / 2 for box in boxes) - _MARGIN
    top = min(box.y - box.height / 2 for box in boxes) - _MARGIN
    right = max(box.x + box.width / 2 for box in boxes) + _MARGIN
    bottom = max(box.y + box.height / 2 for box in boxes) + _MARGIN
    note = _NETWORK[inventory.network]
    right = max(right, left + 2 * _MARGIN + _text_width(note, _SMALL))
    parts.append(_text(left + _MARGIN, bottom + _SMALL / 2, note, _SMALL, _PALE))
    bottom += _SMALL + _MARGIN
    width, height = right - left, bottom - top
    names = ", ".join(inventory.sets)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width:.1f}" height="{height:.1f}" '
            f'viewBox="{left:.1f} {top:.1f} {width:.1f} {height:.1f}" '
            f'font-family="{escape(str(theme.config(theme.PAPER)["font"]), quote=True)}">',
            f"<title>Nodes of {escape(names)}</title>",
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" fill="white"/>',
            *parts,
            "</svg>\n",
        ]
    )


_NETWORK = {
    "existing": "The network is what is there; rates and round-trip times are those that the inventory states.",
    "emulated": "weir makes the delay, rate and loss of the scenario on top of these links.",
}


def _colours(inventory: Inventory) -> dict[str, str]:
    looks = theme.categories([role.name for role in inventory.roles])["color"]
    return dict(zip(looks["domain"], looks["range"], strict=True))


def _box(inventory: Inventory, each: NodeSet, colours: Mapping[str, str]) -> _Box:
    by_node: list[str | None] = [None] * each.size
    chips = []
    for role in inventory.roles:
        parts = [part for part in role.parts if part.set == each.alias]
        for part in parts:
            by_node[part.first - 1 : part.last] = [colours[role.name]] * len(part)
        if parts:
            whole = sum(map(len, parts)) == each.size
            numbers = ", ".join(str(part).removeprefix(each.alias) for part in parts)
            chips.append((role.name if whole else f"{role.name} {numbers}", colours[role.name]))
    lines = tuple(_lines(each))
    shown = tuple(by_node[:_MOST_DOTS])
    more = each.size - len(shown)
    rows = -(-len(shown) // _ROW)
    words = [_text_width(each.alias, _LARGE)]
    words += [_text_width(line, _SMALL) for line in lines]
    words += [_text_width(text, _SMALL) + _PITCH for text, _ in chips]
    width = max([min(len(shown), _ROW) * _PITCH, *words]) + 2 * _PAD
    count = 1 + len(lines) + len(chips) + (1 if more else 0)
    return _Box(each, lines, tuple(chips), shown, more, width, 2 * _PAD + _LINE * count + rows * _PITCH + 2)


def _lines(each: NodeSet) -> Iterator[str]:
    rate = "" if each.rate_bps is None else f", {_rate(each.rate_bps)} each"
    yield f"{each.size} node{'' if each.size == 1 else 's'}{rate}"
    if each.template.interface is not None:
        yield f"interface {each.template.interface}"
    if each.reserve is not None:
        hours = each.reserve.time_s
        yield f"by {each.reserve.by}" + (f" for {_duration(hours)}" if hours else "")
    if each.template.jump:
        yield f"through {', '.join(each.template.jump)}"


def _rate(bps: int) -> str:
    text = show_rate(bps)
    digits = len(text.rstrip("GMTkbps"))
    return f"{text[:digits]} {text[digits:]}"


def _duration(seconds: int) -> str:
    for unit, name in ((3600, "h"), (60, "min")):
        if seconds % unit == 0:
            return f"{seconds // unit} {name}"
    return f"{seconds} s"


def _placed(boxes: Sequence[_Box], connections: Sequence[Connection]) -> list[_Box]:
    """Boxes beside each other: one or two in a line, more around a circle."""
    if len(boxes) <= 2:
        x, found = 0.0, []
        for box in boxes:
            found.append(box.at(x + box.width / 2, 0.0))
            x += box.width + _GAP
        return found
    reach = max(math.hypot(box.width, box.height) for box in boxes)
    radius = (reach + _GAP / 2) / (2 * math.sin(math.pi / len(boxes)))
    turns = [2 * math.pi * (number / len(boxes)) - math.pi / 2 for number in range(len(boxes))]
    return [box.at(radius * math.cos(turn), radius * math.sin(turn)) for box, turn in zip(boxes, turns, strict=True)]


def _connections(inventory: Inventory, boxes: Mapping[str, _Box]) -> Iterator[str]:
    """Lines below everything, and their words above the lines."""
    words = []
    for connection in inventory.connections:
        one, other = (boxes[alias] for alias in connection.between)
        if one is other:
            continue
        (x1, y1), (x2, y2) = one.edge(other.x, other.y), other.edge(one.x, one.y)
        width = _width(connection.rate_bps)
        yield (
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{theme.NEUTRAL}" '
            f'stroke-width="{width:.2f}"/>'
        )
        words.append(_Words((x1, y1), (x2, y2), _says(connection)))
    for (x, y), lines in _apart(words, [*boxes.values()]):
        yield from _label(x, y, lines)


@dataclass(frozen=True)
class _Words:
    """What stands at a line, and the line's ends."""

    begin: tuple[float, float]
    end: tuple[float, float]
    lines: Sequence[str]

    def at(self, share: float) -> tuple[float, float]:
        (x1, y1), (x2, y2) = self.begin, self.end
        return x1 + (x2 - x1) * share, y1 + (y2 - y1) * share


def _apart(words: Sequence[_Words], boxes: Sequence[_Box]) -> Iterator[tuple[tuple[float, float], Sequence[str]]]:
    """Where words stand on their lines: in the middle, or as near to it as boxes and other words leave room."""
    taken: list[tuple[float, float]] = []
    for each in words:
        places = [each.at(share) for share in _SHARES]
        best = max(places, key=lambda place: (not _covers(place, boxes), _room(place, taken)))
        taken.append(best)
        yield best, each.lines


def _covers(place: tuple[float, float], boxes: Sequence[_Box]) -> bool:
    """Whether words there would reach into a box."""
    return any(
        abs(place[0] - box.x) < (box.width + _WORDS_WIDTH) / 2
        and abs(place[1] - box.y) < (box.height + _WORDS_HEIGHT) / 2
        for box in boxes
    )


_SHARES = (0.5, 0.42, 0.58, 0.35, 0.65, 0.28, 0.72, 0.2, 0.8)
_REACH = 1.2
"""Words this far apart do not touch: in widths of words across, and heights down."""
_WORDS_WIDTH, _WORDS_HEIGHT = 46.0, 24.0


def _room(place: tuple[float, float], taken: Sequence[tuple[float, float]]) -> float:
    return min([_REACH, *(_distance(place, other) for other in taken)])


def _distance(one: tuple[float, float], other: tuple[float, float]) -> float:
    return max(abs(one[0] - other[0]) / _WORDS_WIDTH, abs(one[1] - other[1]) / _WORDS_HEIGHT)


def _says(connection: Connection) -> list[str]:
    return [
        *([] if connection.rate_bps is None else [_rate(connection.rate_bps)]),
        *([] if connection.rtt_ns is None else [f"RTT {_spaced(show_duration(connection.rtt_ns))}"]),
    ]


def _spaced(text: str) -> str:
    digits = len(text.rstrip("nums"))
    return f"{text[:digits]} {text[digits:]}"


def _width(rate_bps: int | None) -> float:
    """Thicker for a faster connection: 1 Mbit/s is a hair, 100 Gbit/s 4 points."""
    if not rate_bps:
        return 0.8
    return max(0.5, min(4.0, 0.5 + 0.7 * (math.log10(rate_bps) - 6)))


def _label(x: float, y: float, lines: Sequence[str]) -> Iterator[str]:
    if not lines:
        return
    width = max(_text_width(line, _SMALL) for line in lines) + 6
    height = _LINE * len(lines) + 2
    yield (
        f'<rect x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" height="{height:.1f}" '
        'fill="white"/>'
    )
    for number, line in enumerate(lines):
        base = y - height / 2 + _LINE * (number + 1) - 2
        yield _text(x, base, line, _SMALL, _INK, "middle")


def _drawn(box: _Box) -> Iterator[str]:
    left, top = box.x - box.width / 2, box.y - box.height / 2
    yield (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="4" fill="white" '
        f'stroke="{_INK}" stroke-width="0.8"/>'
    )
    y = top + _PAD + _LARGE * 0.8
    yield _text(left + _PAD, y, box.each.alias, _LARGE, _INK, weight="bold")
    for line in box.lines:
        y += _LINE
        yield _text(left + _PAD, y, line, _SMALL, _PALE)
    y += 2 + _PITCH
    for number, colour in enumerate(box.colours):
        x, row = left + _PAD + _PITCH * (number % _ROW + 0.5), number // _ROW
        look = f'fill="{colour or _FAINT}"'
        if box.each.reserve is not None and not box.each.nodes:  # not there yet
            look = f'fill="white" stroke="{colour or theme.NEUTRAL}" stroke-width="1.2"'
        yield f'<circle cx="{x:.1f}" cy="{y + row * _PITCH - _DOT:.1f}" r="{_DOT}" {look}/>'
    y += (-(-len(box.colours) // _ROW) - 1) * _PITCH
    if box.more:
        y += _LINE
        yield _text(left + _PAD, y, f"and {box.more} more", _SMALL, _PALE)
    for text, colour in box.chips:
        y += _LINE
        yield f'<circle cx="{left + _PAD + _PITCH / 2:.1f}" cy="{y - _DOT + 0.5:.1f}" r="{_DOT}" fill="{colour}"/>'
        yield _text(left + _PAD + _PITCH + 3, y, text, _SMALL, _INK)


def _text_width(text: str, size: float) -> float:
    return len(text) * size * _LETTER


def _text(
    x: float, y: float, text: str, size: float, colour: str, anchor: str = "start", weight: str = "normal"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" fill="{colour}" text-anchor="{anchor}" '
        f'font-weight="{weight}">{escape(text)}</text>'
    )

"""Draws which packages of weir import which, and counts edges, circles and private imports.

    python scripts/imports.py                              the numbers
    python scripts/imports.py --svg FILE                   the picture
    python scripts/imports.py --at COMMIT [--svg FILE]     of another commit

An arrow goes from a package to one that it imports; packages stand above those that they import. A pale arrow leads
to a package that is imported indirectly, too. Red arrows are part of a circle, orange ones reach into private modules
(names that begin with ``_``) of another package. Modules directly in ``weir``, such as ``weir._files``, belong to all
packages and have no box.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tarfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

ROOT = Path(__file__).parent.parent
_PREFIX = "python/weir/"


@dataclass(frozen=True)
class Graph:
    """The imports between packages."""

    packages: tuple[str, ...]
    edges: Mapping[tuple[str, str], int]
    """Number of modules that import, by importing and imported package."""
    private: Mapping[tuple[str, str], int]
    """Number of imports of private modules, likewise."""

    def circles(self) -> list[list[str]]:
        """Groups of packages that know each other, directly or through others."""
        reached = {one: self._reached(one) for one in self.packages}
        groups = {frozenset({one, *(o for o in reached[one] if one in reached[o])}) for one in self.packages}
        return sorted(sorted(group) for group in groups if len(group) > 1)

    def _reached(self, start: str) -> set[str]:
        found: set[str] = set()
        open_ = [start]
        while open_:
            here = open_.pop()
            new = {to for begin, to in self.edges if begin == here} - found
            found |= new
            open_ += new
        return found

    def implied(self) -> set[tuple[str, str]]:
        """Edges to packages that are imported indirectly, too, except within circles."""
        reached = {one: self._reached(one) for one in self.packages}
        return {
            (a, b)
            for a, b in self.edges
            if any(start == a and via != b and b in reached[via] and a not in reached[via] for start, via in self.edges)
        }

    def numbers(self) -> str:
        """The counts, as a line of text."""
        groups = self.circles()
        circles = "; ".join(" <-> ".join(group) for group in groups) or "none"
        return (
            f"{len(self.packages)} packages, {len(self.edges)} edges, private imports: {sum(self.private.values())}, "
            f"packages in circles: {sum(map(len, groups))} ({circles})"
        )


# Sources -------------------------------------------------------------------------------------------------------------


def sources(commit: str | None) -> dict[str, str]:
    """The text of each module of weir by its path below ``python/weir``."""
    if commit is None:
        folder = ROOT / _PREFIX
        return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in folder.rglob("*.py")}
    command = ["git", "-C", str(ROOT), "archive", "--format=tar", commit, _PREFIX]
    packed = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        files = [(member.name, archive.extractfile(member)) for member in archive if member.name.endswith(".py")]
        return {name.removeprefix(_PREFIX): file.read().decode() for name, file in files if file is not None}


def imported(tree: ast.AST, package: Sequence[str], is_module: Callable[[str], bool]) -> Iterator[str]:
    """Modules that code in ``package`` imports anywhere; of imported names that are modules themselves, these."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                start = [*package[: len(package) - level + 1]] if level else []
                base = ".".join([*start, *([module] if module else [])])
                for alias in names:
                    whole = f"{base}.{alias.name}"
                    yield whole if is_module(whole) else base
            case ast.Call(func=ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(module)), *_]):
                yield module


def private_of_others(module: str, package: Sequence[str]) -> bool:
    """Whether ``module`` is a private part of a package that ``package`` is not within."""
    parts = module.split(".")
    private = next((number for number, part in enumerate(parts) if re.match(r"_(?!_)", part)), None)
    return private is not None and parts[0] == "weir" and parts[:private] != list(package[:private])


def read(files: Mapping[str, str]) -> Graph:
    """The graph of modules with these texts."""
    names = {path: ["weir", *path.removesuffix(".py").removesuffix("/__init__").split("/")] for path in files}
    modules = {".".join(name) for name in names.values()}
    packages = {name[1] for path, name in names.items() if path.count("/") >= 1}
    edges: Counter[tuple[str, str]] = Counter()
    private: Counter[tuple[str, str]] = Counter()
    for path, text in files.items():
        place = ["weir", *path.split("/")[:-1]]
        if len(place) < 2:
            continue
        found = [name for name in imported(ast.parse(text), place, modules.__contains__) if name.startswith("weir.")]
        outside = {name for name in found if name.split(".")[1] in packages - {place[1]}}
        edges.update((place[1], target) for target in {name.split(".")[1] for name in outside})
        private.update((place[1], name.split(".")[1]) for name in outside if private_of_others(name, place))
    return Graph(tuple(sorted(packages)), edges, private)


# Picture -------------------------------------------------------------------------------------------------------------

_WIDTH, _ROW, _BOX, _HEIGHT, _TOP = 1120, 104, 92, 30, 70
_RED, _ORANGE, _GREY, _PALE, _INK = "#c62828", "#e67e00", "#52606d", "#cbd2d9", "#1f2933"
_ORDER = (_PALE, _GREY, _ORANGE, _RED)
"""Colours of arrows, those above others last."""


def layers(graph: Graph) -> list[list[str]]:
    """Packages in rows, each above those that it imports; those of a circle in one row."""
    group = {one: tuple(circle) for circle in graph.circles() for one in circle}
    depth: dict[str, int] = {}

    def height(one: str) -> int:
        if one not in depth:
            members = group.get(one, (one,))
            below = {to for begin, to in graph.edges if begin in members and to not in members}
            level = max((height(other) + 1 for other in below), default=0)
            depth.update(dict.fromkeys(members, level))
        return depth[one]

    rows: defaultdict[int, list[str]] = defaultdict(list)
    for one in graph.packages:
        rows[height(one)].append(one)
    return [rows[level] for level in sorted(rows, reverse=True)]


def places(graph: Graph) -> dict[str, tuple[float, float]]:
    """The centre of each box: rows in order, neighbours near the mean of those that they know."""
    rows = layers(graph)
    x = {one: (number + 0.5) / len(row) for row in rows for number, one in enumerate(row)}
    knows: defaultdict[str, set[str]] = defaultdict(set)
    for begin, to in graph.edges:
        knows[begin].add(to)
        knows[to].add(begin)
    for turn in range(24):
        for row in rows if turn % 2 else rows[::-1]:
            row.sort(key=lambda one: sum(x[other] for other in knows[one]) / max(1, len(knows[one])))
            # Rows of different parity are shifted, so that arrows pass between boxes.
            shift = 0.12 * (rows.index(row) % 2 - 0.5) / len(row)
            x.update({one: (number + 0.5) / len(row) + shift for number, one in enumerate(row)})
    return {
        one: (60 + x[one] * (_WIDTH - 120), _TOP + _ROW * level + _HEIGHT / 2)
        for level, row in enumerate(rows)
        for one in row
    }


def picture(graph: Graph, title: str) -> str:
    """The graph as SVG."""
    at = places(graph)
    within = [set(circle) for circle in graph.circles()]
    circular = {edge for edge in graph.edges if any(set(edge) <= circle for circle in within)}
    height = max(y for _, y in at.values()) + 84

    implied = graph.implied()
    colours = {
        edge: _RED if edge in circular else _ORANGE if edge in graph.private else _PALE if edge in implied else _GREY
        for edge in graph.edges
    }
    drawn = sorted(graph.edges, key=lambda edge: (_ORDER.index(colours[edge]), edge))
    parts = [_arrow(at[a], at[b], colours[a, b]) for a, b in drawn]
    parts += [_box(name, *at[name], circle=any(name in circle for circle in within)) for name in graph.packages]
    legend = [
        (_GREY, "imports"),
        (_PALE, "imports directly and indirectly"),
        (_ORANGE, "imports private modules"),
        (_RED, "part of a circle"),
    ]
    parts += [_legend(place, colour, text, height) for place, (colour, text) in enumerate(legend)]
    markers = "".join(
        f'<marker id="a{colour[1:]}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        f'orient="auto"><path d="M0 0.8 7.5 4 0 7.2z" fill="{colour}"/></marker>'
        for colour in _ORDER
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" font-family="sans-serif" '
        f'font-size="14"><title>{escape(title)}</title><defs>{markers}</defs>'
        f'<rect width="100%" height="100%" fill="#fff"/>'
    )
    texts = [
        f'<text x="24" y="30" font-size="17" font-weight="bold" fill="{_INK}">{escape(title)}</text>',
        f'<text x="24" y="50" fill="{_INK}">{escape(graph.numbers())}</text>',
    ]
    return "\n".join([head, *texts, *parts, "</svg>", ""])


def _arrow(start: tuple[float, float], stop: tuple[float, float], colour: str) -> str:
    (x0, y0), (x1, y1) = start, stop
    wide = 1.2 if colour in (_GREY, _PALE) else 2.0
    mark = f'fill="none" stroke="{colour}" stroke-width="{wide}" marker-end="url(#a{colour[1:]})"'
    if y0 == y1:  # in one row, by an arc above it
        bow = 24 + abs(x1 - x0) / 6
        middle = f"{(x0 + x1) / 2:.0f} {y0 - 15 - bow:.0f}"
        return f'<path d="M{x0:.0f} {y0 - 15:.0f}Q{middle} {x1:.0f} {y1 - 16:.0f}" {mark}/>'
    down = _HEIGHT / 2
    bend = (y1 - y0) / 2.2
    return (
        f'<path d="M{x0:.0f} {y0 + down:.0f}C{x0:.0f} {y0 + bend:.0f} {x1:.0f} {y1 - bend:.0f} {x1:.0f} '
        f'{y1 - down - 1:.0f}" {mark}/>'
    )


def _box(name: str, x: float, y: float, *, circle: bool) -> str:
    edge = _RED if circle else "#52606d"
    return (
        f'<rect x="{x - _BOX / 2:.0f}" y="{y - _HEIGHT / 2:.0f}" width="{_BOX}" height="{_HEIGHT}" rx="6" '
        f'fill="#f0f4f8" stroke="{edge}"/>'
        f'<text x="{x:.0f}" y="{y + 5:.0f}" text-anchor="middle" fill="{_INK}">{escape(name)}</text>'
    )


def _legend(place: int, colour: str, text: str, height: float) -> str:
    x, y = 24 + 290 * place, height - 24
    return (
        f'<path d="M{x} {y - 5:.0f}h34" stroke="{colour}" stroke-width="2" marker-end="url(#a{colour[1:]})"/>'
        f'<text x="{x + 44}" y="{y:.0f}" fill="{_INK}">{escape(text)}</text>'
    )


def drawn() -> str:
    """The picture of the present sources, for the documents."""
    return picture(read(sources(None)), "Packages of weir, and which imports which")


def main(arguments: Iterable[str] | None = None) -> None:
    """Prints the numbers, and draws if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--at", metavar="COMMIT", help="commit to read (default: the files as they are)")
    parser.add_argument("--svg", metavar="FILE", type=Path, help="write the picture to this file")
    given = parser.parse_args(None if arguments is None else [*arguments])
    graph = read(sources(given.at))
    print(graph.numbers())
    if given.svg is not None:
        title = "Packages of weir, and which imports which"
        given.svg.write_text(picture(graph, f"{title} (at {given.at})" if given.at else title), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

"""Sweeps: dotted paths, their values, and the trees of the cells.

A value is put into the tree of nodes before parsing, and keeps its mark in the file. So a cell is parsed like a
scenario that was written out, and its problems point at the value of the sweep that caused them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from weir.language.problem import Invalid, Log, Mark, choose
from weir.language.tree import Entry, Map, Node, Scalar, Seq, describe, flow_text

__all__ = ["Factor", "Step", "Sweep", "parse_path", "parse_sweep", "path_text", "substitute"]

MAX_CELLS = 100_000
MANY_CELLS = 5_000
MAX_PATHS = 64
_MAX_NAME = 60
_MAX_LABEL = 200
_BRIEF = 40
"""Characters of a value that tells what its row is."""
_STEP = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)((?:\[[0-9]{1,6}\])*)\Z")
# Top-level keys that are not part of the experiment itself.
_HEAD = ("title", "source", "rationale", "tags", "seed", "repeat", "sweep", "quick", "realtime", "expect")


@dataclass(frozen=True)
class Step:
    """One step of a path: a key, or an index into a list."""

    name: str
    index: int | None
    key: Scalar


@dataclass(frozen=True)
class Factor:
    """The assignments of one row of values: paths and nodes, and their names in results."""

    values: tuple[tuple[tuple[Step, ...], Node], ...]
    names: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Sweep:
    """The axes of a sweep; each is a list of alternatives, and every combination of alternatives is one cell."""

    axes: tuple[tuple[Factor, ...], ...]

    def __len__(self) -> int:
        n = 1
        for axis in self.axes:
            n *= len(axis)
        return n

    def combinations(self) -> Iterator[tuple[Factor, ...]]:
        """The cells, with the last axis varying fastest."""
        return itertools.product(*self.axes)

    def probes(self, most: int) -> list[tuple[Factor, ...]]:
        """Cells to check: all or, of too many, each value once and a regular selection of the rest."""
        if len(self) <= most:
            return list(self.combinations())
        first = tuple(axis[0] for axis in self.axes)
        chosen = {first: None}
        for i, axis in enumerate(self.axes):
            chosen |= {(*first[:i], value, *first[i + 1 :]): None for value in axis}
        stride = -(-len(self) // most)
        chosen |= dict.fromkeys(itertools.islice(self.combinations(), 0, None, stride))
        return list(chosen)

    def values(self) -> dict[str, tuple[str, ...]]:
        """The factors by short name, each with the texts of its values."""
        found: dict[str, dict[str, None]] = {}
        for axis in self.axes:
            for factor in axis:
                for name, text in factor.names:
                    found.setdefault(name, {})[text] = None
        return {name: tuple(texts) for name, texts in found.items()}

    def meanings(self) -> dict[str, dict[str, str]]:
        """What the labels of values and of rows stand for, by factor: ``{"queue": {"deep": "16MB"}}``.

        Of rows with the same label, what they have in common.
        """
        found: dict[str, dict[str, str]] = {}
        rows: dict[str, list[dict[str, None]]] = {}
        for factor in (factor for axis in self.axes for factor in axis):
            names = [name for name in factor.names if name[0] != _CASE[0].name]
            texts = [_text_of(node) for _, node in factor.values]
            for (name, label), text in zip(names, texts, strict=True):
                if label != text:
                    found.setdefault(name, {})[label] = text
            for _, label in (name for name in factor.names if name[0] == _CASE[0].name):
                own = {f"{name} {text}": None for (name, _), text in zip(names, texts, strict=True)}
                rows.setdefault(label, []).append(own)
        for label, several in rows.items():
            common = [text for text in several[0] if all(text in other for other in several)]
            found.setdefault(_CASE[0].name, {})[label] = ", ".join(t for t in common if len(t) <= _BRIEF)
        return found

    def has(self, wanted: Mapping[str, str], same: Callable[[str, str], bool]) -> bool:
        """Whether a cell has these values of factors, by short name; ``same`` compares two texts of values."""
        return all(self._axis_has(number, wanted, same) for number in range(len(self.axes)))

    def _axis_has(self, number: int, wanted: Mapping[str, str], same: Callable[[str, str], bool]) -> bool:
        # Long sweeps are asked for each of their values, so that no answer may cost a pass over the axis.
        own = tuple((name, value) for name, value in wanted.items() if name in self._names[number])
        if not own or tuple(value for _, value in own) in self._texts(number, tuple(name for name, _ in own)):
            return True
        key = (number, own)
        if key not in self._answers:
            self._answers[key] = any(_fits(names, dict(own), same) for names in self._rows[number])
        return self._answers[key]

    def _texts(self, number: int, names: tuple[str, ...]) -> set[tuple[str, ...]]:
        """The values of the factors ``names`` together, in the rows of an axis that have all of them."""
        key = (number, names)
        if key not in self._together:
            rows = (row for row in self._rows[number] if all(name in row for name in names))
            self._together[key] = {tuple(row[name] for name in names) for row in rows}
        return self._together[key]

    def tied(self, one: str, other: str) -> bool:
        """Whether the values of two factors correspond one to one, in zipped rows."""
        return self.implies(one, other) and self.implies(other, one)

    def implies(self, one: str, other: str) -> bool:
        """Whether each value of the factor ``one`` implies one of ``other``, in zipped rows."""
        if (one, other) not in self._implications:
            self._implications[one, other] = any(_imply(rows, one, other) for rows in self._rows)
        return self._implications[one, other]

    @cached_property
    def _rows(self) -> tuple[tuple[dict[str, str], ...], ...]:
        """The values of each axis, by short name of their factors."""
        return tuple(tuple(dict(factor.names) for factor in axis) for axis in self.axes)

    @cached_property
    def _names(self) -> tuple[frozenset[str], ...]:
        return tuple(frozenset(name for row in rows for name in row) for rows in self._rows)

    @cached_property
    def _answers(self) -> dict[tuple[int, tuple[tuple[str, str], ...]], bool]:
        return {}

    @cached_property
    def _together(self) -> dict[tuple[int, tuple[str, ...]], set[tuple[str, ...]]]:
        return {}

    @cached_property
    def _implications(self) -> dict[tuple[str, str], bool]:
        return {}


def _imply(rows: Sequence[Mapping[str, str]], one: str, other: str) -> bool:
    pairs = {(row.get(one), row.get(other)) for row in rows}
    if len(pairs) < 2 or None in {value for pair in pairs for value in pair}:
        return False
    return len(pairs) == len({value for value, _ in pairs})


def _fits(names: Mapping[str, str], wanted: Mapping[str, str], same: Callable[[str, str], bool]) -> bool:
    return all(name not in names or same(names[name], value) for name, value in wanted.items())


def parse_path(key: Scalar, log: Log) -> tuple[Step, ...]:
    """The steps of a dotted path such as ``workload[0].start``; each has its own column."""
    steps: list[Step] = []
    column = 0
    for part in key.text.split("."):
        match = _STEP.match(part)
        mark = key.mark.shifted(column) if key.plain else key.mark
        if match is None or len(key.text) > 500:
            message = f"{describe(key)} is not a path such as `transport.cc` or `workload[0].until`"
            raise log.error(mark, message)
        steps.append(Step(match[1], None, Scalar(mark, match[1])))
        steps += [Step(f"[{i}]", int(i), Scalar(mark, match[1])) for i in re.findall(r"[0-9]+", match[2])]
        column += len(part) + 1
    return tuple(steps)


def substitute(node: Node, steps: tuple[Step, ...], value: Node, log: Log) -> Node:
    """A copy of ``node`` with ``value`` at the place of ``steps``; missing mappings on the way are created."""
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if step.index is not None:
        return _in_list(node, step, rest, value, log)
    if isinstance(node, Seq):
        return _in_named(node, step, rest, value, log)
    if not isinstance(node, Map):
        raise log.error(step.key.mark, f"`{step.name}` cannot be set in {describe(node)}; expected a mapping")
    below = node.get(step.name)
    if below is None or (isinstance(below, Scalar) and below.null):
        below = Map(step.key.mark, ())
    if rest and isinstance(below, Scalar):
        below = _written_out(below, step, rest[0], log)
    return node.with_entry(step.key, substitute(below, rest, value, log))


def _written_out(word: Scalar, step: Step, below: Step, log: Log) -> Map:
    """The mapping that a word abbreviates: ``codel`` for ``{codel: {}}``, a congestion control for ``{name: reno}``."""
    if below.name == word.text:
        return Map(word.mark, (Entry(Scalar(word.mark, word.text), Map(word.mark, ())),))
    if step.name == "cc":
        return Map(word.mark, (Entry(Scalar(word.mark, "name"), word),))
    message = f"`{below.name}` cannot be set: `{step.name}` is {describe(word)} here; write it out as a mapping"
    raise log.error(below.key.mark, message)


def _in_list(node: Node, step: Step, rest: tuple[Step, ...], value: Node, log: Log) -> Node:
    index = step.index or 0
    if not isinstance(node, Seq):
        raise log.error(step.key.mark, f"`{step.name}` is an index, but this is {describe(node)}, not a list")
    if index >= len(node.items):
        raise log.error(step.key.mark, f"no item {step.name}: the list has {len(node.items)}, from 0")
    items = list(node.items)
    items[index] = substitute(items[index], rest, value, log)
    return Seq(node.mark, tuple(items))


def _in_named(node: Seq, step: Step, rest: tuple[Step, ...], value: Node, log: Log) -> Node:
    """A list whose items have names: ``workload.elephants.until``."""
    names: list[str] = []
    for i, item in enumerate(node.items):
        name = item.get("name") if isinstance(item, Map) else None
        if isinstance(name, Scalar):
            names.append(name.text)
            if name.text == step.name:
                items = list(node.items)
                items[i] = substitute(item, rest, value, log)
                return Seq(node.mark, tuple(items))
    hint = choose(step.name, names) if names else "; give its index: `[0]`"
    raise log.error(step.key.mark, f"no item of this list is named `{step.name}`{hint}")


def parse_sweep(node: Node | None, log: Log) -> Sweep:
    """The sweep of a scenario; one cell without a sweep.

    Raises:
        Invalid: it is malformed, or has too many cells; the reasons are in ``log``.
    """
    if node is None:
        return Sweep(())
    axes = _axes(node, log)
    paths = [steps for axis in axes for steps, _, _ in axis[0]]
    if len(paths) > MAX_PATHS:
        raise log.error(node.mark, f"{len(paths)} swept paths are too many; the limit is {MAX_PATHS}")
    for steps in paths:
        if sum(path_text(steps) == path_text(other) for other in paths) > 1:
            raise log.error(steps[0].key.mark, f"`{path_text(steps)}` is swept twice")
    short = _short_names(paths)
    for steps in paths:
        if short[path_text(steps)] in _COLUMNS:
            text = f"`{path_text(steps)}` is a column of the tables of metrics; expected another name of a factor"
            raise log.error(steps[0].key.mark, text)
    sweep = Sweep(tuple(_named(axis, short, log) for axis in axes))
    if len(sweep) > MAX_CELLS:
        raise log.error(node.mark, f"a sweep of {len(sweep)} cells is too large; the limit is {MAX_CELLS}")
    return sweep


_COLUMNS = frozenset(
    {
        *("flow", "node", "link", "group", "direction", "repeat", "cell"),
        *("phase", "metric", "unit", "bin_low", "bin_high", "value", "censored", "sd", "n", "ci_low", "ci_high"),
    }
)
"""Columns of the tables that `weir.metrics` makes; a factor is one, too."""
_Row = list[tuple[tuple[Step, ...], Node, str | None]]
_CASE = (Step("case", None, Scalar(Mark(1, 1), "case")),)


def _axes(node: Node, log: Log) -> list[list[_Row]]:
    if isinstance(node, Seq):
        return [_rows(node, log)]
    if not isinstance(node, Map):
        raise log.error(node.mark, f"expected a mapping of dotted paths to lists of values, found {describe(node)}")
    axes: list[list[_Row]] = []
    failed = False
    for entry in node.entries:
        try:
            if entry.key.text == "zip":
                axes.append(_zip(entry.value, log))
            else:
                steps = _swept_path(entry.key, log)
                axes.append([[(steps, value, label)] for label, value in _values(entry.value, log)])
        except Invalid:
            failed = True
    if failed:
        raise Invalid
    return axes


def _swept_path(key: Scalar, log: Log) -> tuple[Step, ...]:
    steps = parse_path(key, log)
    if steps[0].name in _HEAD:
        raise log.error(key.mark, f"`{steps[0].name}` cannot be swept; only the experiment itself can")
    return steps


def _values(node: Node, log: Log) -> list[tuple[str | None, Node]]:
    """A list of values, or a mapping from labels to values."""
    if isinstance(node, Map) and node.entries:
        return [(_label(e.key, log), e.value) for e in node.entries]
    if isinstance(node, Seq) and node.items:
        return [(None, item) for item in node.items]
    raise log.error(
        node.mark, f"expected a list of values, found {'an empty one' if isinstance(node, Seq) else describe(node)}"
    )


def _zip(node: Node, log: Log) -> list[_Row]:
    if isinstance(node, Seq):
        return _rows(node, log)
    if not isinstance(node, Map) or not node.entries:
        raise log.error(node.mark, f"expected a list of mappings, found {describe(node)}")
    columns = [(_swept_path(e.key, log), _values(e.value, log), e.value.mark) for e in node.entries]
    length = len(columns[0][1])
    for _, values, mark in columns:
        if len(values) != length:
            raise log.error(
                mark, f"{len(values)} values, and {length} in the first list of this `zip`; expected as many"
            )
    return [[(steps, values[i][1], values[i][0]) for steps, values, _ in columns] for i in range(length)]


def _rows(node: Seq, log: Log) -> list[_Row]:
    """Rows of values taken together; all have the same keys."""
    rows: list[_Row] = []
    first: Map | None = None
    for item in node.items:
        if not isinstance(item, Map) or not item.entries:
            raise log.error(item.mark, f"expected a mapping of dotted paths to values, found {describe(item)}")
        first = first or item
        keys, expected = {e.key.text for e in item.entries}, {e.key.text for e in first.entries}
        if keys != expected:
            odd = sorted(keys ^ expected)[0]
            raise log.error(item.mark, f"every row needs the same keys; `{odd[:_MAX_NAME]}` is not in all of them")
        rows.append([_cell_value(e.key, e.value, log) for e in item.entries])
    if not rows:
        raise log.error(node.mark, "expected a list of mappings, found an empty one")
    return rows


def _cell_value(key: Scalar, value: Node, log: Log) -> tuple[tuple[Step, ...], Node, str | None]:
    if key.text != "case":
        return _swept_path(key, log), value, None
    if not isinstance(value, Scalar) or value.null:
        raise log.error(value.mark, f"expected a name of this row, found {describe(value)}")
    return _CASE, value, _label(value, log)


def _label(name: Scalar, log: Log) -> str:
    """The name of a value in results."""
    if "\n" in name.text or not 1 <= len(name.text) <= _MAX_LABEL:
        raise log.error(name.mark, f"{describe(name)} is no name: expected one line of 1 to {_MAX_LABEL} characters")
    return name.text


def path_text(steps: tuple[Step, ...]) -> str:
    return ".".join(s.name for s in steps).replace(".[", "[")


def _short_names(paths: list[tuple[Step, ...]]) -> dict[str, str]:
    """The shortest unique ends of the paths: ``cc``, or ``bottleneck_rate`` besides ``access_rate``.

    They are names of factors in checks, so they have no dots.
    """
    # The index of an item is part of its name only if needed, or if it is the last step.
    words = [[s.name.strip("[]").replace("-", "_") for s in steps] for steps in paths]
    plain = [
        [w for w, s in zip(own, steps, strict=True) if s.index is None] for own, steps in zip(words, paths, strict=True)
    ]
    ends = [own if steps[-1].index is None else full for own, full, steps in zip(plain, words, paths, strict=True)]
    names: dict[str, str] = {}
    for full, own, steps in zip(words, ends, paths, strict=True):
        candidates = ["_".join(own[-n:]) for n in range(1, len(own) + 1)]
        usable = (n for n in candidates if n[0].isalpha() and n not in _COLUMNS)
        unique = (n for n in usable if sum(_ends_with(other, n) for other in ends) == 1)
        names[path_text(steps)] = next(unique, "_".join(full))
    return names


def _ends_with(words: list[str], name: str) -> bool:
    return f"_{'_'.join(words)}".endswith(f"_{name}")


def _named(axis: list[_Row], short: dict[str, str], log: Log) -> tuple[Factor, ...]:
    factors: list[Factor] = []
    seen: set[tuple[tuple[str, str], ...]] = set()
    for row in axis:
        names = tuple((short[path_text(s)], _text_of(v) if label is None else label) for s, v, label in row)
        if names in seen:
            text = ", ".join(text for _, text in names)[:_MAX_NAME]
            raise log.error(row[0][1].mark, f"`{text}` is in this sweep already")
        seen.add(names)
        factors.append(Factor(tuple((steps, value) for steps, value, _ in row if steps is not _CASE), names))
    return tuple(factors)


def _text_of(value: Node) -> str:
    """The name in results of a value without a label: a single one's text, quoted or not."""
    if isinstance(value, Scalar) and value.text and value.text == value.text.strip() and "\n" not in value.text:
        return value.text
    return flow_text(value)

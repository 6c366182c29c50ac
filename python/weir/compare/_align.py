"""Aligns the cells of several runs.

Cells align by the values of the factors that the runs share; ``100ms`` equals ``0.1s``. A factor that has one value in
each run, but different ones, distinguishes the runs (two congestion controls, two stacks) and does not prevent
alignment. Every cell that does not align is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from weir.compare.errors import CompareError
from weir.run import Cell, Run
from weir.run.quantity import parse_quantity

__all__ = ["Alignment", "Group", "Labelled", "Unaligned", "align", "independent", "label_runs"]

_Key = tuple[tuple[object, ...], ...]


@dataclass(frozen=True)
class Labelled:
    """A run and its name in a comparison."""

    label: str
    run: Run

    @property
    def method(self) -> str:
        """The run's method; empty if its manifest does not name it."""
        found = self.run.manifest.get("method") or (self.run.cells[0].manifest.get("method") if self.run.cells else "")
        return str(found or "")


@dataclass(frozen=True)
class Group:
    """Corresponding cells of at least two runs, each run's repeats in the order of their numbers."""

    number: int
    factors: Mapping[str, str]
    """Values of the aligning factors, as the first run of them writes them."""
    cells: Mapping[str, tuple[Cell, ...]]
    """By label of the run."""
    told_by: tuple[str, ...] = ()
    """The factors that distinguish the group from others."""

    @property
    def shown(self) -> dict[str, str]:
        """The factors to show: those that distinguish the group, else all."""
        return {name: self.factors[name] for name in self.told_by} or dict(self.factors)

    @property
    def name(self) -> str:
        """The factors in words: ``cc reno, rtt 100ms``."""
        return ", ".join(f"{k} {v}" for k, v in self.shown.items()) or "all"

    def pairs(self, a: str, b: str) -> tuple[tuple[Cell, Cell], ...]:
        """Pairs of repeats of two runs with the same seeds, in the order of ``a``.

        If several repeats of a run have the same seed, their numbers must match, too.
        """
        seeds = [[cell.manifest.get("seed") for cell in self.cells[label]] for label in (a, b)]
        unique = all(len(set(some)) == len(some) for some in seeds)

        def key(cell: Cell) -> tuple[object, int]:
            return cell.manifest.get("seed"), 0 if unique else cell.repeat

        partners = {key(cell): cell for cell in self.cells[b] if key(cell)[0] is not None}
        return tuple((cell, partners[key(cell)]) for cell in self.cells[a] if key(cell) in partners)


@dataclass(frozen=True)
class Unaligned:
    """A cell without a counterpart, and the reason."""

    run: str
    cell: str
    factors: Mapping[str, str]
    reason: str


@dataclass(frozen=True)
class Alignment:
    """The cells of several runs, side by side."""

    factors: tuple[str, ...]
    """The factors by which cells align."""
    groups: tuple[Group, ...]
    unaligned: tuple[Unaligned, ...]
    notes: tuple[str, ...]
    """Differences between the runs as a whole, and everything that does not align."""


def independent(factors: Mapping[str, Sequence[str]], cells: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    """The factors that distinguish cells, without those that another factor determines (rows of ``zip``)."""
    order = sorted(factors, key=lambda name: -len(factors[name]))
    kept: list[str] = []
    for name in order:
        if len(factors[name]) > 1 and not any(_decides(other, name, cells) for other in kept):
            kept.append(name)
    return tuple(name for name in factors if name in kept)


def _decides(one: str, other: str, cells: Sequence[Mapping[str, str]]) -> bool:
    pairs = {(cell[one], cell[other]) for cell in cells}
    return len(pairs) == len({cell[one] for cell in cells})


def label_runs(runs: Sequence[Run], labels: Sequence[str | None]) -> tuple[Labelled, ...]:
    """Names each run: the given label, else its method, its folder or, if both are shared, its path.

    Raises:
        CompareError: two runs would have the same name.
    """
    methods = [Labelled("", run).method for run in runs]
    candidates = (methods, [run.path.resolve().name for run in runs], [str(run.path) for run in runs])
    free = [i for i, label in enumerate(labels) if label is None]
    chosen = next((names for names in candidates if len({names[i] for i in free} - {""}) == len(free)), candidates[-1])
    found = [label if label is not None else chosen[i] for i, label in enumerate(labels)]
    for name in found:
        if found.count(name) > 1:
            raise CompareError(
                f"two runs are called {name!r}; give each a name of its own: NAME={name}, or labels= in Python"
            )
    return tuple(Labelled(name, run) for name, run in zip(found, runs, strict=True))


def align(runs: Sequence[Labelled]) -> Alignment:
    """Puts the cells of ``runs`` side by side.

    Raises:
        CompareError: no cell of one run has a counterpart in another; the message says what does not align.
    """
    factors, notes = _shared(runs)
    cells: dict[_Key, dict[str, list[Cell]]] = {}
    for entry in runs:
        for cell in entry.run.cells:
            key = tuple(_canonical(cell.factors.get(name, "")) for name in factors)
            cells.setdefault(key, {}).setdefault(entry.label, []).append(cell)
    groups: list[Group] = []
    unaligned: list[Unaligned] = []
    for sides in cells.values():
        unique = {label: tuple(sorted(some, key=lambda c: c.repeat)) for label, some in sides.items() if _unique(some)}
        unaligned += [_left(label, c, _AMBIGUOUS) for label in sides.keys() - unique.keys() for c in sides[label]]
        if len(unique) > 1:
            first = next(iter(unique.values()))[0]
            groups.append(Group(len(groups), {name: first.factors[name] for name in factors}, unique))
        else:
            unaligned += [_left(label, c, _ALONE) for label, some in unique.items() for c in some]
    if not groups:
        raise CompareError(_nothing(runs, factors, notes))
    groups = _told_apart(factors, groups)
    return Alignment(factors, tuple(groups), tuple(unaligned), (*notes, *_summary(runs, groups, unaligned)))


_ALONE = "no other run has such a cell"
_AMBIGUOUS = "its run has several such cells, which differ in a factor that the other runs do not have"


def _told_apart(factors: Sequence[str], groups: Sequence[Group]) -> list[Group]:
    values = {name: list(dict.fromkeys(group.factors[name] for group in groups)) for name in factors}
    names = independent(values, [group.factors for group in groups])
    return [replace(group, told_by=names) for group in groups]


def _left(label: str, cell: Cell, reason: str) -> Unaligned:
    return Unaligned(label, cell.id, cell.factors, reason)


def _unique(cells: Iterable[Cell]) -> bool:
    repeats = [cell.repeat for cell in cells]
    return len(repeats) == len(set(repeats))


def _shared(runs: Sequence[Labelled]) -> tuple[tuple[str, ...], list[str]]:
    """The factors to align by, and remarks on the others."""
    kept: list[str] = []
    notes: list[str] = []
    for name in dict.fromkeys(name for entry in runs for name in entry.run.factors):
        values = {entry.label: entry.run.factors[name] for entry in runs if name in entry.run.factors}
        fixed = all(len(some) == 1 for some in values.values())
        if len(values) < len(runs):
            has = "; ".join(f"{label}: {', '.join(some)}" for label, some in values.items())
            notes.append(f"the factor {name} is not in every run, so nothing aligns by it ({has})")
        elif fixed and len({_canonical(some[0]) for some in values.values()}) > 1:
            notes.append(f"the runs differ in {name}: " + ", ".join(f"{some[0]} ({k})" for k, some in values.items()))
        else:
            kept.append(name)
    return tuple(kept), notes


def _summary(runs: Sequence[Labelled], groups: Sequence[Group], unaligned: Sequence[Unaligned]) -> list[str]:
    notes = []
    titles = {entry.label: str(entry.run.manifest.get("title", "")) for entry in runs}
    if len({title for title in titles.values() if title}) > 1:
        notes.append("the runs are of different scenarios: " + ", ".join(f"{t!r} ({k})" for k, t in titles.items()))
    for label in titles:
        left = [cell for cell in unaligned if cell.run == label]
        if left:
            notes.append(
                f"{len(left)} of the cells of {label} have no counterpart, the first {left[0].cell}: {left[0].reason}"
            )
        missing = sum(label not in group.cells for group in groups)
        if missing:
            notes.append(f"{label} lacks {missing} of the {len(groups)} cells compared")
    return [*notes, *_unpaired(tuple(titles), groups)]


def _unpaired(labels: Sequence[str], groups: Sequence[Group]) -> list[str]:
    """For each two runs, the repeats that are pairs, unless all are."""
    notes = []
    for a, b in combinations(labels, 2):
        some = [group for group in groups if a in group.cells and b in group.cells]
        most = [max(len(group.cells[a]), len(group.cells[b])) for group in some]
        pairs = [len(group.pairs(a, b)) for group in some]
        part = sum(2 <= n < of for n, of in zip(pairs, most, strict=True))
        none = sum(n < 2 <= of for n, of in zip(pairs, most, strict=True))
        if part:
            notes.append(
                f"in {part} of {len(some)} cells, {a} and {b} share the seeds of only some repeats: these are compared"
            )
        if none:
            notes.append(
                f"in {none} of {len(some)} cells, {a} and {b} share fewer than two seeds, "
                "so means over all repeats are compared, not pairs"
            )
    return notes


def _nothing(runs: Sequence[Labelled], factors: Sequence[str], notes: Sequence[str]) -> str:
    text = "no cell of one run has a counterpart in another"
    for name in factors:
        text += f"\n  {name}: " + "; ".join(f"{', '.join(r.run.factors[name][:8])} ({r.label})" for r in runs)
    return text + "".join(f"\n  {note}" for note in notes)


def _canonical(value: str) -> tuple[object, ...]:
    """A key that is equal for equivalent factor values (:func:`weir.run.quantity.same_value`)."""
    quantity = parse_quantity(value)
    if quantity is None:
        return (value,)
    return (quantity.dimension, float(f"{quantity.value:.9g}"))

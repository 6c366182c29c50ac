"""Supplies a check with numbers: metrics of the cells of a run, each computed once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from weir.metrics.bounds import after
from weir.metrics.errors import MetricError, nearest
from weir.metrics.expect.dimensions import reference_dimension, reference_scale
from weir.metrics.expect.syntax import MEMBERS, Call, Metric, Node, Quantified, children, walk
from weir.metrics.expect.values import Amount, UndecidedError
from weir.metrics.frame import baseline_finder
from weir.metrics.measure import Scalar, measure, to_scalar
from weir.metrics.reference import Reference
from weir.metrics.statistics import over_time
from weir.metrics.window import CellData, Window, window
from weir.run import Cell, Run, RunError
from weir.run.quantity import same_value

__all__ = ["Context", "Source"]


@dataclass(frozen=True)
class Context:
    """The factors and repeats that are fixed while a part of a check is evaluated."""

    bound: Mapping[str, str]
    """Factors fixed to one value: by ``where``, a quantifier, or ``over``."""
    allowed: Mapping[str, tuple[str, ...]]
    """Factors that ``where`` restricts to some values."""
    repeats: frozenset[int] | None = None
    """The repeats that count; ``None``: all repeats of a cell."""
    turns: frozenset[str] = frozenset()
    """Those of the factors ``bound`` that take each of their values in turn, because the check leaves them free."""

    def bind(self, values: Mapping[str, str], *, in_turn: bool = False) -> Context:
        """The context with these factors fixed in addition; ``in_turn`` if the check does not name them."""
        turns = self.turns | values.keys() if in_turn else self.turns - values.keys()
        return replace(self, bound={**self.bound, **values}, turns=turns)

    def only(self, repeats: Iterable[int]) -> Context:
        """The context with these repeats only."""
        return replace(self, repeats=frozenset(repeats))


_Key = tuple[object, ...]


@dataclass
class Source:
    """The cells of a run, and the metric values computed from them so far."""

    run: Run
    phase: str | None = None
    """Default phase of metrics that name none; ``None``: the whole run."""
    used: dict[str, Cell] = field(default_factory=dict)
    """Cells whose numbers were used, by id."""
    known: dict[tuple[str, _Key], Scalar | str] = field(default_factory=dict)
    """By cell and metric: the value, or the reason why it is undefined."""
    missing: bool = False
    """Whether a value was asked for whose cell was not executed; a comparison resets it."""
    _tied: dict[frozenset[str], frozenset[str]] = field(default_factory=dict)
    _implied: dict[frozenset[str], frozenset[str]] = field(default_factory=dict)
    _places: dict[_Key, list[Cell]] = field(default_factory=dict)
    """The cells at each point of the sweep."""

    def prepare(self, nodes: Iterable[tuple[Node, Context]], cells: Iterable[Cell] | None = None) -> None:
        """Computes all values that these checks need, one cell after another, so that a cell's tables are read once.

        ``cells`` are those to compute; by default all of the run.
        """
        wanted = list(nodes)
        for cell in self.run.cells if cells is None else cells:
            data = self._data(cell)
            for reference, over in self.needs(wanted, cell):
                self._compute(data, reference, over)

    def needs(self, nodes: Iterable[tuple[Node, Context]], cell: Cell) -> list[tuple[Reference, str]]:
        """The metrics of ``cell`` that these checks need, and the member that each is aggregated over."""
        wanted = [needed for node, context in nodes for needed in self._metrics(node, context)]
        return [(reference, over) for reference, over, place in wanted if self._matches(cell, reference, place)]

    def amount(self, reference: Reference, context: Context, over: str = "") -> Amount:
        """Mean over repeats of a metric at the point that ``context`` and the reference's own factors fix.

        ``over`` is empty, or ``function:member`` such as ``min:flow``.

        Raises:
            UndecidedError: no cell is there, several points match, or the metric is undefined.
        """
        cells = self._cells(reference, context)
        points = {tuple(cell.factors.items()) for cell in cells}
        if not cells:
            raise UndecidedError(f"no cell of this run has {self._place(reference, context)}")
        if len(points) > 1:
            free = [f for f in self.run.factors if len({dict(p).get(f) for p in points}) > 1]
            raise UndecidedError(f"{reference.text} matches several values of {', '.join(free)}")
        found: list[Scalar] = []
        reasons = []
        for cell in cells:
            if context.repeats is not None and cell.repeat not in context.repeats:
                continue
            self.used[cell.id] = cell
            value = self._value(cell, reference, over)
            if isinstance(value, str):
                reasons.append(value)
            elif not math.isnan(value.value):
                found.append(value)
        if not found:
            raise UndecidedError(
                reasons[0] if reasons else f"{reference.text} is undefined: nothing to compute it from"
            )
        scale = reference_scale(reference)
        mean = sum(v.value for v in found) / len(found) * scale
        bounds = reference.bounds if not over else after(over.partition(":")[0], reference.bounds)
        return Amount(
            mean,
            reference_dimension(reference),
            "more" if any(v.censored for v in found) else "exact",
            bounds.scaled(scale),
        )

    def pairs(self, node: Node, context: Context) -> tuple[tuple[int, ...], int]:
        """The repeats in which every metric of ``node`` has a value in every cell, and the number of repeats.

        Repeat k has the same seed in every cell, so these repeats are pairs.
        """
        common: set[int] | None = None
        every: set[int] = set()
        for reference, over, place in self._metrics(node, context):
            cells = self._cells(reference, place)
            every |= {cell.repeat for cell in cells}
            for point in dict.fromkeys(tuple(cell.factors.items()) for cell in cells):
                here = {
                    cell.repeat
                    for cell in cells
                    if tuple(cell.factors.items()) == point and self._defined(cell, reference, over)
                }
                common = here if common is None else common & here
        return tuple(sorted(common or ())), len(every)

    def _defined(self, cell: Cell, reference: Reference, over: str) -> bool:
        value = self._value(cell, reference, over)
        return not isinstance(value, str) and not math.isnan(value.value)

    def _metrics(self, node: Node, context: Context) -> Iterator[tuple[Reference, str, Context]]:
        """The metrics that ``node`` needs, the member that each is aggregated over, and the context of each."""
        left = [(node, context, "")]
        while left:
            part, place, over = left.pop()
            if isinstance(part, Metric):
                yield part.reference, over, place
            inner = ""
            if isinstance(part, Call) and part.over:
                if part.over[0] in MEMBERS:
                    inner = f"{part.function}:{part.over[0]}"
                else:
                    place = self.opened(part, place)
            left += [(child, place, inner) for child in children(part)]

    def opened(self, call: Call, context: Context) -> Context:
        """The context without the factors that a call ranges over, and without those tied to them."""
        tied = self.tied(call.over)
        return replace(context, bound={name: value for name, value in context.bound.items() if name not in tied})

    def _cells(self, reference: Reference, context: Context) -> list[Cell]:
        """The cells that a metric is about, in the order of the run."""
        place = (reference.factors, tuple(sorted(context.bound.items())), tuple(sorted(context.allowed.items())))
        if place not in self._places:
            self._places[place] = [cell for cell in self.run.cells if self._matches(cell, reference, context)]
        return self._places[place]

    def points(self, context: Context, names: Sequence[str]) -> list[dict[str, str]]:
        """The combinations of values of the factors ``names`` that occur in cells, in the order of the sweep.

        Raises:
            UndecidedError: the run has no such factor.
        """
        for name in names:
            self.check_factor(name)
        open_ = replace(context, bound={k: v for k, v in context.bound.items() if k not in names})
        found: dict[tuple[str, ...], None] = {}
        for cell in self.run.cells:
            if self._in_context(cell, open_, frozenset()):
                found[tuple(cell.factors.get(name, "") for name in names)] = None
        order = {name: {v: k for k, v in enumerate(self.run.factors[name])} for name in names}
        ranked = sorted(found, key=lambda p: [order[n].get(v, -1) for n, v in zip(names, p, strict=True)])
        return [dict(zip(names, point, strict=True)) for point in ranked]

    def check_factors(self, node: Node) -> None:
        """Verifies that the run was swept over the factors that the metrics of ``node`` name.

        Raises:
            UndecidedError: it was not swept over one of them.
        """
        for reference, _ in _wanted(node):
            for name, _value in reference.factors:
                self.check_factor(name)

    def check_factor(self, name: str) -> None:
        """Verifies that the run was swept over ``name``.

        Raises:
            UndecidedError: it was not.
        """
        if name not in self.run.factors:
            known = ", ".join(self.run.factors) or "it has none"
            raise UndecidedError(f"this run has no factor {name!r} ({known}).{nearest(name, self.run.factors)}")

    def free(self, node: Node, context: Context) -> list[str]:
        """The factors that neither ``node`` nor ``context`` fixes, in the order of the sweep."""
        unbound = self.unbound(node)
        return [name for name in self.run.factors if name in unbound and name not in context.bound]

    def unbound(self, node: Node) -> set[str]:
        """The factors with several values that some metric in ``node`` does not fix."""
        several = {name for name, values in self.run.factors.items() if len(values) > 1}
        found: set[str] = set()
        left: list[tuple[Node, frozenset[str]]] = [(node, frozenset())]
        while left:
            part, fixed = left.pop()
            if isinstance(part, Metric):
                found |= several - self.implied(dict(part.reference.factors)) - fixed
            elif isinstance(part, Call):
                fixed |= self.tied(part.over)
            elif isinstance(part, Quantified):
                fixed |= {choice.factor for choice in part.choices}
            left += [(child, fixed) for child in children(part)]
        return found

    def tied(self, names: Iterable[str]) -> frozenset[str]:
        """The factors ``names`` and those zipped with one of them, so that their values correspond one to one."""
        key = frozenset(names)
        if key not in self._tied:
            self._tied[key] = self._find_tied(key)
        return self._tied[key]

    def _find_tied(self, names: frozenset[str]) -> frozenset[str]:
        both = {(one, other) for one in names for other in self._implied_by(one)}
        return names | {other for one, other in both if one in self._implied_by(other)}

    def implied(self, names: Iterable[str]) -> frozenset[str]:
        """The factors ``names`` and those zipped with one of them whose value each of its values implies."""
        key = frozenset(names)
        if key not in self._implied:
            self._implied[key] = key.union(*(self._implied_by(name) for name in key))
        return self._implied[key]

    def _implied_by(self, name: str) -> set[str]:
        values = self.run.factors.get(name, ())
        if not self.run.complete or len(values) < 2:
            return set()  # an unfinished grid can look like a zip
        rows = [(cell.factors.get(name), cell.factors) for cell in self.run.cells]
        return {
            other
            for other, own in self.run.factors.items()
            if len(own) > 1 and len({(value, row.get(other)) for value, row in rows}) == len(values)
        }

    def telling(self, values: Mapping[str, str]) -> dict[str, str]:
        """Those of the factors ``values`` that tell where a value belongs: without what others of them imply.

        The name of a row, ``case``, comes first.
        """
        kept: dict[str, str] = {}
        for name in sorted(values, key=lambda name: name != "case"):
            if name not in self.implied(kept):
                kept[name] = values[name]
        return {name: value for name, value in values.items() if name in kept}

    def _matches(self, cell: Cell, reference: Reference, context: Context) -> bool:
        own = dict(reference.factors)
        for name in own:
            self.check_factor(name)
        if any(not same_value(cell.factors.get(k, ""), v) for k, v in own.items()):
            return False
        return self._in_context(cell, context, self.tied(own) | (self.implied(own) & context.turns))

    @staticmethod
    def _in_context(cell: Cell, context: Context, released: frozenset[str]) -> bool:
        for name, value in context.bound.items():
            if name not in released and not same_value(cell.factors.get(name, ""), value):
                return False
        return all(
            name in released or any(same_value(cell.factors.get(name, ""), v) for v in values)
            for name, values in context.allowed.items()
        )

    def _place(self, reference: Reference, context: Context) -> str:
        values = {**context.bound, **dict(reference.factors)}
        texts = [f"{k} = {v}" for k, v in values.items()]
        texts += [f"{k} in {', '.join(v)}" for k, v in context.allowed.items() if k not in values]
        return " and ".join(texts) or "that"

    def _value(self, cell: Cell, reference: Reference, over: str) -> Scalar | str:
        key = (cell.id, (*reference.key, over))
        if key not in self.known:
            self._compute(self._data(cell), reference, over)
        return self.known[key]

    def _data(self, cell: Cell) -> CellData:
        return CellData(cell)

    def _compute(self, data: CellData, reference: Reference, over: str) -> None:
        key = (data.cell.id, (*reference.key, over))
        if key in self.known:
            return
        try:
            self.known[key] = self._scalar(data, reference, over)
        except (MetricError, RunError) as error:
            self.known[key] = str(error)

    def _scalar(self, data: CellData, reference: Reference, over: str) -> Scalar:
        is_link = reference.metric.scope == "link"
        find = baseline_finder(self.run)
        phase = reference.phase or self.phase

        def baseline(factors: Mapping[str, str]) -> Window:
            return window(self._data(find(data.cell, factors)), phase, reference.selector, is_link)

        here = window(data, phase, reference.selector, is_link)
        function, _, member = over.partition(":")
        measured = measure(reference, here, baseline, split_flows=member == "flow")
        if not over:
            return to_scalar(measured, reference.text)
        if measured.axis != member:
            raise MetricError(f"{reference.text} has no value for each {member}, so it cannot be taken over {member}")
        values = measured.values
        if function == "spread":
            value = over_time(values, "max") - over_time(values, "min")
        else:
            value = over_time(values, function)
        return Scalar(value, bool(measured.censored.any()))


def _wanted(node: Node) -> list[tuple[Reference, str]]:
    """The metrics that a node needs, and the member within a cell that each is aggregated over."""
    inner: dict[int, str] = {}
    for part in walk(node):
        if isinstance(part, Call) and part.over and part.over[0] in ("flow", "node", "link"):
            inner[id(part.parts[0])] = f"{part.function}:{part.over[0]}"
    return [(part.reference, inner.get(id(part), "")) for part in walk(node) if isinstance(part, Metric)]

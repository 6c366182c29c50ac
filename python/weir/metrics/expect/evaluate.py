"""Judges claims on a run.

A check is evaluated at every combination of the factors that it leaves free. It holds if it holds at each (with ``for
some``, at one). A metric's value is its mean over repeats. With repeats, a comparison holds or fails only if the
confidence interval of its margin excludes zero (:mod:`weir.metrics.expect.sides`). Repeats are paired: repeat k of one
cell ran the same random draws as repeat k of another. With one repeat, the value decides.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weir.metrics.expect.comparison import Comparison
from weir.metrics.expect.parser import parse_check
from weir.metrics.expect.source import Context, Source
from weir.metrics.expect.syntax import Choice, Logic, Node, Not, Quantified
from weir.metrics.expect.values import UndecidedError
from weir.metrics.expect.verdict import Expectation, Measurement, Outcome, Verdict, percent
from weir.metrics.scanner import ExpectError
from weir.run import Run
from weir.run.quantity import same_value

__all__ = ["Judge", "evaluate", "judges_of", "usable"]

_MANY = 5


def evaluate(run: Run, expectations: Iterable[Expectation | Mapping[str, Any]], level: float = 0.95) -> list[Verdict]:
    """Judges each expectation on ``run``; a claim that cannot be judged is ``undecided`` and says why.

    ``expectations`` are the entries of a scenario's ``expect`` list. ``level`` is the confidence level of the intervals
    that decide with repeats: at 0.95, 2.5 % of the comparisons with a zero margin hold and 2.5 % fail.

    Raises:
        ValueError: ``level`` is not between 0 and 1.
    """
    if not 0 < level < 1:
        raise ValueError(f"level {level}: expected a number between 0 and 1, such as 0.95")
    source = Source(run)
    judges = judges_of(source, expectations, level)
    ready = [(judge.node, judge.context) for judge in judges if isinstance(judge, Judge) and not judge.reason]
    if partial := next((cell for cell in run.cells if cell.partial is not None), None):
        for node_judge in judges:
            if isinstance(node_judge, Judge):
                node_judge.reason = node_judge.reason or f"cell {partial.id} ended early: {partial.partial}"
        ready = []
    source.prepare(usable(source, ready))
    return [judge.verdict() if isinstance(judge, Judge) else judge for judge in judges]


def judges_of(
    source: Source, expectations: Iterable[Expectation | Mapping[str, Any]], level: float
) -> list[Judge | Verdict]:
    """A judge for each expectation, in the context of its ``where``; the verdict, if its check is unreadable."""
    judges: list[Judge | Verdict] = []
    for entry in expectations:
        expectation = Expectation.of(entry)
        try:
            judge = Judge(expectation, parse_check(expectation.check), source, level)
        except ExpectError as error:
            judges.append(_unreadable(expectation, error))
            continue
        try:
            judge.context = judge.start()
        except UndecidedError as reason:
            judge.reason = str(reason)
        judges.append(judge)
    return judges


def usable(source: Source, ready: Sequence[tuple[Node, Context]]) -> list[tuple[Node, Context]]:
    """Those of ``ready`` whose metrics name factors that the run has."""
    found = []
    for node, context in ready:
        try:
            source.check_factors(node)
            found.append((node, context))
        except UndecidedError:
            continue
    return found


def _unreadable(expectation: Expectation, error: ExpectError) -> Verdict:
    explanation = f"The check cannot be read: {error}."
    return Verdict(
        expectation.claim,
        expectation.source,
        expectation.check,
        expectation.where or {},
        "undecided",
        (),
        (),
        explanation,
        (explanation,),
        expectation.note,
        expectation.expected,
        basis=expectation.basis,
    )


@dataclass
class Judge:
    """Judges one expectation."""

    expectation: Expectation
    node: Node
    source: Source
    level: float
    context: Context = field(default_factory=lambda: Context({}, {}))
    reason: str = ""
    measured: list[Measurement] = field(default_factory=list)
    known: dict[tuple[object, ...], Measurement] = field(default_factory=dict)
    """By comparison and its free factors; other factors do not change it."""

    def start(self) -> Context:
        """The context that ``where`` fixes."""
        bound: dict[str, str] = {}
        allowed: dict[str, tuple[str, ...]] = {}
        for path, value in (self.expectation.where or {}).items():
            name = str(path).rpartition(".")[2]
            self.source.check_factor(name)
            if isinstance(value, list | tuple):
                allowed[name] = tuple(str(v) for v in value)
            else:
                bound[name] = str(value)
            self._check_values(name, allowed.get(name) or (bound[name],))
        return Context(bound, allowed)

    def _check_values(self, name: str, wanted: Sequence[str]) -> None:
        have = self.source.run.factors[name]
        if not any(same_value(h, w) for h in have for w in wanted):
            raise UndecidedError(f"no cell of this run has {name} = {' or '.join(wanted)}; it has {', '.join(have)}")

    def verdict(self) -> Verdict:
        """The verdict."""
        self.source.used.clear()
        found = _Truth(value=None)
        if not self.reason:
            try:
                found = self._free(self.node, self.context)
            except UndecidedError as reason:
                self.reason = str(reason)
        outcome = found.outcome
        leads: dict[int, float] = {}
        for m, lead in found.by:
            leads[id(m)] = min(lead, leads.get(id(m), lead))
        ranked = sorted(
            self.measured, key=lambda m: (id(m) not in leads, m.outcome != outcome, leads.get(id(m), _rank(m)))
        )
        cells = self.source.used
        warnings = list(self.source.run.notes)
        warnings += [f"cell {cell.id}: {text}" for cell in cells.values() for text in cell.warnings]
        if outcome != "undecided" and all(m.repeats < 2 for m in ranked):
            warnings.append("one repeat: no confidence interval")
        return Verdict(
            self.expectation.claim,
            self.expectation.source,
            self.expectation.check,
            self.expectation.where or {},
            outcome,
            tuple(ranked),
            tuple(cells),
            self._explain(outcome, ranked),
            tuple(dict.fromkeys(warnings)),
            self.expectation.note,
            self.expectation.expected,
            self.level,
            self.expectation.basis,
            len(leads),
        )

    def _explain(self, outcome: Outcome, ranked: list[Measurement]) -> str:
        if self.reason:
            return f"Undecided: {self.reason}."
        same = [m for m in ranked if m.outcome == outcome]
        text = {"holds": "Holds", "fails": "Fails", "undecided": "Undecided"}[outcome]
        if outcome == "undecided" and all(m.within_chance for m in same):
            text += f", because the {percent(self.level)} interval of the margin includes zero"
        if len(ranked) > 1:
            text += f" ({len(same)} of {len(ranked)} comparisons)"
        more = f"; and {len(same) - _MANY} more" if len(same) > _MANY else ""
        return f"{text}: " + "; ".join(str(m) for m in same[:_MANY]) + more + "."

    def at(self, context: Context) -> tuple[Outcome, list[Measurement]]:
        """The outcome at the factors that ``context`` fixes, and the comparisons made there."""
        self.known.clear()
        before = len(self.measured)
        return self._truth(self.node, context).outcome, self.measured[before:]

    def _free(self, node: Node, context: Context) -> _Truth:
        """Evaluates at each combination of the factors that the check leaves free."""
        free = self.source.free(node, context)
        if not free or isinstance(node, Quantified):
            return self._truth(node, context)
        return _all(self._truth(node, context.bind(point, in_turn=True)) for point in self.source.points(context, free))

    def _truth(self, node: Node, context: Context) -> _Truth:
        match node:
            case Quantified():
                return self._quantified(node, context)
            case Logic(operator=operator, parts=parts):
                combine = _all if operator == "and" else _any
                return combine([self._truth(part, context) for part in parts])
            case Not(part=part):
                return self._truth(part, context).negated()
            case _:
                return self._leaf(node, context)

    def _quantified(self, node: Quantified, context: Context) -> _Truth:
        points = self._chosen(node.choices, context)
        results = [self._free(node.body, context.bind(point)) for point in points]
        return _all(results) if node.kind == "each" else _any(results)

    def _chosen(self, choices: Sequence[Choice], context: Context) -> list[dict[str, str]]:
        names = [choice.factor for choice in choices]
        limits = {c.factor: c.values for c in choices if c.values}
        found = [
            point
            for point in self.source.points(context, names)
            if all(any(same_value(point[name], v) for v in values) for name, values in limits.items())
        ]
        if not found:
            wanted = "; ".join(f"{name} in {', '.join(values)}" for name, values in limits.items())
            raise UndecidedError(f"no cell of this run has {wanted or ', '.join(names)}")
        return found

    def _leaf(self, node: Node, context: Context) -> _Truth:
        unbound = self.source.unbound(node)
        shown = {k: v for k, v in context.bound.items() if k in unbound}
        key = (id(node), *sorted(shown.items()))
        measurement = self.known.get(key)
        if measurement is None:
            place = self.source.telling(shown)
            measurement = self.known[key] = Comparison(self.source, node, self.level).measure(context, place)
            self.measured.append(measurement)
        truth = {"holds": True, "fails": False, "undecided": None}[measurement.outcome]
        return _Truth(truth, ((measurement, _rank(measurement)),))


@dataclass(frozen=True)
class _Truth:
    """Whether a part of a check is true, and the comparisons that make it so."""

    value: bool | None
    by: tuple[tuple[Measurement, float], ...] = ()
    """Each with its lead: how far it is from making the part false; negative if it makes it false."""

    @property
    def outcome(self) -> Outcome:
        return "undecided" if self.value is None else "holds" if self.value else "fails"

    @property
    def lead(self) -> float:
        """That of the weakest comparison."""
        return min((lead for _, lead in self.by), default=0.0)

    def negated(self) -> _Truth:
        return _Truth(None if self.value is None else not self.value, tuple((m, -lead) for m, lead in self.by))


def _all(results: Iterable[_Truth]) -> _Truth:
    """True if every part is. The false parts make it false; else the open ones leave it open."""
    found = list(results)
    values = {one.value for one in found}
    value = False if False in values else None if None in values else True
    return _Truth(value, tuple(pair for one in found if one.value is value for pair in one.by))


def _any(results: Iterable[_Truth]) -> _Truth:
    """True if one part is. Of the parts that decide it, the one that is farthest from being false counts."""
    found = list(results)
    values = {one.value for one in found}
    value = True if True in values else None if None in values else False
    able = [one for one in found if one.value is value]
    if value is None:
        return _Truth(None, tuple(pair for one in able for pair in one.by))
    return max(able, key=lambda one: one.lead, default=_Truth(value=False))


def _rank(m: Measurement) -> float:
    """Sort key: smallest margin first, relative to the threshold if there is one."""
    if math.isnan(m.margin):
        return math.inf
    scale = abs(m.threshold) if isinstance(m.threshold, float) and m.threshold and math.isfinite(m.threshold) else 1.0
    return m.margin / scale

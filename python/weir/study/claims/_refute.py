"""Can a check fail? Changes the numbers that a check reads, within what its cells allow, until it does.

Each comparison is tried alone, and each end of ``within`` and ``between``: a bound beyond what a run can reach decides
nothing, although the check as a whole may fail. The numbers are stored results where there are some, else made up.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from weir.metrics.expect import Expectation as Claim
from weir.metrics.expect.evaluate import Judge
from weir.metrics.expect.parser import parse_check
from weir.metrics.expect.stored import KeptSource, kept_name
from weir.metrics.expect.syntax import Between, Binary, Call, Compare, Logic, Node, Number, Quantified, Within, walk
from weir.metrics.expect.verdict import Outcome
from weir.run import Run
from weir.run.plan import plan_of
from weir.run.quantity import ONE
from weir.scenario import Expectation, Scenario
from weir.study.claims._changes import Numbers, Places, changes, made_up, nearly_equal
from weir.study.claims._limits import limits_of
from weir.study.claims._record import skeleton

__all__ = ["Weakness", "parts_of", "weaknesses"]

_CANNOT_FAIL = "no plausible result makes it fail"
_CANNOT_HOLD = "no plausible result makes it hold"
_NO_SIZE = "it holds for values that differ by a thousandth; give the size of the effect"


@dataclass(frozen=True)
class Weakness:
    """A part of a check that no plausible result refutes, or that none fulfils."""

    claim: str
    part: str
    why: str

    def __str__(self) -> str:
        return f"{self.claim}: {self.part}: {self.why}"


def weaknesses(scenario: Scenario, kept: Mapping[str, Mapping[str, object]]) -> list[Weakness]:
    """What is weak about the checks of ``scenario``: parts that cannot fail, or that cannot hold although they should.

    A rank correlation must also fail for values that are as good as equal.

    Args:
        scenario: its cells and claims.
        kept: stored values by cell and name, as far as there are some.
    """
    trial = _Trial(scenario, kept)
    return [weak for entry in scenario.expect for weak in trial.of(entry)]


def parts_of(node: Node) -> Iterator[Node]:
    """The comparisons of a check, each alone with its quantifiers; those with two ends as two comparisons.

    Those within a share over repeats are comparisons, too.
    """
    match node:
        case Quantified(body=body):
            for part in parts_of(body):
                yield dataclasses.replace(node, body=part, text=part.text)
        case Logic(parts=parts):
            for one in parts:
                yield from parts_of(one)
        case Between(part=part, low=low, high=high):
            yield Compare(node.column, f"{part.text} >= {low.text}", ">=", part, low)
            yield Compare(node.column, f"{part.text} <= {high.text}", "<=", part, high)
        case Within(left=left, tolerance=tolerance, right=right):
            least, most = _end(right, tolerance, -1), _end(right, tolerance, 1)
            yield Compare(node.column, f"{left.text} >= {least.text}", ">=", left, least)
            yield Compare(node.column, f"{left.text} <= {most.text}", "<=", left, most)
        case Compare(left=Call(function="share", parts=(inner,)) as share):
            for one in parts_of(inner):
                text = f"share({one.text} over repeat) {node.operator} {node.right.text}"
                yield dataclasses.replace(node, text=text, left=dataclasses.replace(share, parts=(one,)))
        case _:
            yield node


def _end(right: Node, tolerance: Number, sign: int) -> Binary:
    """One end of ``within tolerance of right``."""
    text = f"{tolerance.text} {'above' if sign > 0 else 'below'} {right.text}"
    if not tolerance.percent:
        return Binary(right.column, text, "+" if sign > 0 else "-", right, tolerance)
    factor = Number(right.column, tolerance.text, 1 + sign * tolerance.value, ONE, percent=False)
    return Binary(right.column, text, "*", factor, right)


class _Trial:
    """The cells of a scenario, and what each metric can be there."""

    def __init__(self, scenario: Scenario, kept: Mapping[str, Mapping[str, object]]) -> None:
        cells = [cell for cell in scenario.cells() if cell.repeat == 0]
        bare = {cell.id: cell for cell in skeleton(scenario).cells}
        self.run = Run(Path(), [bare[cell.id] for cell in cells], {"stored": True}, ())
        self.plans = {cell.id: plan_of(Path(cell.id), cell.plan()) for cell in cells}
        self.kept = kept
        self.source = KeptSource(self.run, {})

    def of(self, entry: Expectation) -> Iterator[Weakness]:
        """The weaknesses of one claim."""
        node = parse_check(entry.check)
        for part in parts_of(node):
            found = self._outcomes(entry, part)
            if "fails" not in found:
                yield Weakness(entry.claim, part.text, _CANNOT_FAIL)
            if "holds" not in found and entry.expected == "holds":
                yield Weakness(entry.claim, part.text, _CANNOT_HOLD)
        if any(isinstance(part, Call) and part.function == "spearman" for part in walk(node)):
            numbers, _ = self._numbers(entry, node)
            if any(self._verdict(entry, node, equal) == "holds" for equal in nearly_equal(numbers)):
                yield Weakness(entry.claim, node.text, _NO_SIZE)

    def _outcomes(self, entry: Expectation, node: Node) -> set[Outcome]:
        """The outcomes that changes of the numbers give; ends as soon as both are found."""
        numbers, places = self._numbers(entry, node)
        found: set[Outcome] = set()
        for changed in changes(numbers, places):
            found.add(self._verdict(entry, node, changed))
            if found >= {"holds", "fails"}:
                break
        return found

    def _numbers(self, entry: Expectation, node: Node) -> tuple[Numbers, Places]:
        """The numbers that ``node`` reads, and their limits."""
        judge = self._judge(entry, node)
        numbers: Numbers = {}
        places = Places(list(self.run.cells), dict(self.run.factors), {})
        for cell in self.run.cells:
            for reference, over in self.source.needs([(node, judge.context)], cell):
                name = kept_name(reference, over)
                limits = places.limits[cell.id, name] = limits_of(self.plans[cell.id], reference)
                known = self.kept.get(cell.id, {}).get(name)
                numbers.setdefault(cell.id, {})[name] = known if isinstance(known, float) else made_up(limits)
        return numbers, places

    def _judge(self, entry: Expectation, node: Node) -> Judge:
        judge = Judge(Claim(entry.check, where=entry.where), node, self.source, 0.95)
        judge.context = judge.start()
        return judge

    def _verdict(self, entry: Expectation, node: Node, numbers: Numbers) -> Outcome:
        self.source.exchange(numbers)
        return self._judge(entry, node).verdict().outcome

"""Verdicts on the papers' claims from stored results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from weir.metrics.expect import Expectation, Verdict, evaluate_stored
from weir.run import Cell, Run
from weir.scenario import Expectation as Claimed
from weir.scenario import Scenario, Version
from weir.study.claims._execute import digest_of
from weir.study.claims._papers import Claim, Papers
from weir.study.claims._record import skeleton
from weir.study.claims._store import Result, Store, Unit

__all__ = ["Answer", "Judged", "Part", "State", "judge", "kept_cells", "states", "version_of"]

_DECIDING = ("full", "quick")
Outcome = Literal["reproduces", "reproduces under an assumption", "in part", "refuted", "open"]


@dataclass(frozen=True)
class Answer:
    """What one method says of a part of a claim."""

    unit: Unit
    verdict: Verdict
    cells: int
    of: int
    """Number of cells of the sweep that were executed, and that there are."""
    old: bool
    """Whether some of its cells were executed with an earlier set-up."""
    hint: str = "undecided"
    """What the cells that were executed say of the check, as if the sweep had no others."""

    @property
    def decided(self) -> bool:
        """Whether it holds or fails."""
        return self.verdict.outcome != "undecided"


@dataclass(frozen=True)
class Part:
    """A part of a claim: one check of a scenario, by every method that judged it."""

    scenario: str
    text: str
    source: str
    paper: str
    """The paper's figure, if the scenario gives it."""
    tolerance: str
    """How far ours may be from it, with the reason."""
    refuted_by: str
    """The result that would refute it."""
    note: str
    expected: str
    """``holds``, or ``fails`` if the scenario knows that it does, for the reason in ``note``."""
    capacity_bps: int
    """Rate of the bottleneck at the papers' size."""
    answers: tuple[Answer, ...]
    """The one at the papers' size first, then reduced ones."""
    realtime_only: bool = False
    """Whether the version for real time decides it: it is about what only real machines have."""
    fitted: str = ""
    """What of the set-up was chosen to give this figure; empty if nothing was."""
    beyond: str = ""
    """Why the paper does not claim it; empty if it does."""
    check: str = ""
    """The check, at the papers' size."""
    chance: str = ""
    """Which other seed or clock reverses the verdict of the one repeat; empty if none is known."""

    @property
    def answer(self) -> Answer | None:
        """The answer that counts: the first that decides, at the papers' size or at the reduced one.

        If chance alone leaves a size open, a smaller one does not decide either; nor does it if the cells of the larger
        size that were executed say the contrary. Versions for real time are too small to decide: they compare the
        methods. Only what no other version has is decided by them.
        """
        deciding = ("realtime",) if self.realtime_only else _DECIDING
        hints: set[str] = set()
        for one in (a for a in self.answers if a.unit.version in deciding):
            if one.decided or one.verdict.within_chance:
                return None if hints - {one.verdict.outcome} else one
            hints |= {one.hint} - {"undecided"}
        return None

    @property
    def contradicted(self) -> bool:
        """Whether a reduced size decides it, and the executed cells of the papers' size say the contrary."""
        return self.answer is None and any(a.decided and a.unit.version in _DECIDING for a in self.answers)

    @property
    def counts(self) -> bool:
        """Whether it counts for the claim: a part beyond the paper never does, a fitted one only if it fails.

        A fitted one that fails by chance counts as undecided.
        """
        fails = self.answer is not None and self.answer.verdict.outcome == "fails"
        return not self.beyond and (not self.fitted or fails)

    @property
    def outcome(self) -> str:
        """``holds``, ``fails`` or ``undecided``, which it also is if chance decided its one repeat."""
        return "undecided" if self.answer is None or self.chance else self.answer.verdict.outcome


@dataclass(frozen=True)
class Judged:
    """A claim of a paper with its parts."""

    claim: Claim
    parts: tuple[Part, ...]

    @property
    def counted(self) -> tuple[Part, ...]:
        """The parts that count."""
        return tuple(part for part in self.parts if part.counts)

    @property
    def outcome(self) -> Outcome:
        """Of the parts that count: open if fewer are decided than not, else the verdict of those that are decided.

        If they all hold, but half of the claim's sentence has no part, it reproduces in part.
        """
        outcomes = {part.outcome for part in self.counted} - {"undecided"}
        if not outcomes or 2 * self.count("undecided") > len(self.counted):
            return "open"
        if len(outcomes) > 1:
            return "in part"
        if "holds" not in outcomes:
            return "refuted"
        if self.claim.half:
            return "in part"
        return "reproduces under an assumption" if self.assumed else "reproduces"

    @property
    def assumed(self) -> bool:
        """Whether something that the paper does not say was chosen for it: an assumption, or a fit to its figures."""
        return bool(self.claim.assumes) or any(part.fitted for part in self.parts)

    @property
    def reduced(self) -> bool:
        """Whether a part that counts is decided at a reduced size only."""
        return any(part.answer is not None and part.answer.unit.version == "quick" for part in self.counted)

    @property
    def in_real_time(self) -> tuple[Part, ...]:
        """The parts that count and that a version for real time decided."""
        return tuple(p for p in self.counted if p.answer is not None and p.answer.unit.version == "realtime")

    def count(self, outcome: str) -> int:
        """Number of parts that count and have this outcome."""
        return sum(part.outcome == outcome for part in self.counted)


@dataclass
class State:
    """The stored results of a unit beside its scenario."""

    unit: Unit
    scenario: Scenario
    held: Mapping[str, Result]

    @cached_property
    def plans(self) -> Mapping[str, str]:
        """The digest of the plan of every cell, as the scenario has it now."""
        return {cell.id: digest_of(cell.plan()) for cell in self.scenario.cells()}

    @cached_property
    def used(self) -> Mapping[str, Result]:
        """The results of cells that the sweep still has."""
        cells = {cell.id: cell for cell in self.scenario.cells()}
        return {
            name: result
            for name, result in self.held.items()
            if name in cells and dict(cells[name].factors) == dict(result.factors)
        }

    @cached_property
    def old(self) -> frozenset[str]:
        """Cells whose result is of an earlier set-up."""
        return frozenset(name for name, result in self.used.items() if result.plan != self.plans[name])

    def verdicts(self) -> list[Verdict]:
        """The verdicts on the scenario's claims."""
        bare = skeleton(self.scenario)
        cells = [
            Cell(cell.id, cell.path, cell.factors, cell.repeat, {"warnings": list(self.used[cell.id].warnings)})
            if cell.id in self.used
            else cell
            for cell in bare.cells
        ]
        run = Run(bare.path, cells, bare.manifest, ())
        return self._judged(run)

    def hints(self) -> list[str]:
        """The outcomes of the scenario's claims if it had no cells but those that were executed."""
        if len(self.used) == len(self.scenario.cells()):
            return ["undecided" for _ in self.scenario.expect]
        bare = skeleton(self.scenario)
        run = Run(bare.path, [cell for cell in bare.cells if cell.id in self.used], bare.manifest, ())
        return [verdict.outcome for verdict in self._judged(run)]

    def _judged(self, run: Run) -> list[Verdict]:
        checks = [Expectation(e.check, e.claim, e.source, e.where, e.note) for e in self.scenario.expect]
        return evaluate_stored(run, checks, {name: r.values for name, r in self.used.items()})


def states(papers: Papers, scenarios: Mapping[str, Scenario], store: Store) -> dict[Unit, State]:
    """Every unit that has results, in the order in which they count: larger versions first."""
    order = [(method, version) for method, versions in papers.versions.items() for version in versions]
    found = {}
    for name, scenario in scenarios.items():
        for method, version in order:
            unit = Unit(name, version, method)
            if held := store.cells(unit):
                found[unit] = State(unit, scenario.version(version_of(version)), held)
    return found


def version_of(text: str) -> Version:
    """A version of a scenario by its name in ``claims.toml``."""
    assert text in ("full", "quick", "realtime"), text
    return text  # type: ignore[return-value]


def judge(papers: Papers, scenarios: Mapping[str, Scenario], known: Mapping[Unit, State]) -> list[Judged]:
    """The verdict on every claim."""
    verdicts = {unit: _by_claim(state) for unit, state in known.items()}
    found = []
    for claim in papers.claims:
        parts = [
            part for name, scenario in scenarios.items() for part in _parts(claim, name, scenario, known, verdicts)
        ]
        found.append(Judged(claim, tuple(parts)))
    return found


def _by_claim(state: State) -> dict[tuple[str, str], tuple[Verdict, str]]:
    """Verdict and hint of each claim, by its text and source."""
    said = zip(state.scenario.expect, state.verdicts(), state.hints(), strict=True)
    return {(expectation.claim, expectation.source): (verdict, hint) for expectation, verdict, hint in said}


def _parts(
    claim: Claim,
    name: str,
    scenario: Scenario,
    known: Mapping[Unit, State],
    verdicts: Mapping[Unit, Mapping[tuple[str, str], tuple[Verdict, str]]],
) -> list[Part]:
    found = []
    for one in expected_of(scenario):
        if one.basis.get("id") != claim.id:
            continue
        key = (one.claim, one.source)
        answers = [
            _answer(known[unit], *said[key]) for unit, said in verdicts.items() if unit.scenario == name and key in said
        ]
        text = one.claim.removeprefix(f"{claim.id}: ")
        basis = one.basis
        found.append(
            Part(
                name,
                text,
                one.source,
                basis.get("paper", ""),
                basis.get("tolerance", ""),
                basis.get("refuted_by", ""),
                one.note,
                one.expected,
                _capacity(scenario),
                tuple(answers),
                one.realtime_only,
                basis.get("fitted", ""),
                basis.get("beyond", ""),
                one.check,
                basis.get("chance", ""),
            )
        )
    return found


def expected_of(scenario: Scenario) -> list[Claimed]:
    """The claims of a scenario: those of the full version, and those that only the version for real time decides."""
    if not any(one.realtime_only for one in scenario.unjudged):
        return list(scenario.expect)
    return [*scenario.expect, *(one for one in scenario.version("realtime").expect if one.realtime_only)]


def _capacity(scenario: Scenario) -> int:
    return max(int(link["rate_bps"]) for link in scenario.cells()[0].plan()["links"])


def _answer(state: State, verdict: Verdict, hint: str) -> Answer:
    old = bool(state.old & set(verdict.cells))
    return Answer(state.unit, verdict, len(state.used), len(state.scenario.cells()), old, hint)


def kept_cells(state: State, where: Mapping[str, Sequence[str]]) -> list[tuple[str, Result]]:
    """The results of a unit whose factors have these values, in the order of the sweep."""
    return [
        (name, result)
        for name, result in sorted(state.used.items())
        if all(result.factors.get(factor) in values for factor, values in where.items())
    ]

"""The result of a survey: claims and figures of each scenario by every method, and which methods agree."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any

from weir.compare import Agreement, Comparison, apart, of_figures, of_outcomes, tolerance_of
from weir.metrics.expect import Measurement, Verdict, evaluate
from weir.run import Run
from weir.scenario import Scenario, Unjudged
from weir.study import Done
from weir.study.survey._chance import Chance

__all__ = ["Claim", "Entry", "Figure", "Pair", "Said", "Survey", "claims_of", "figures_of"]

Pair = tuple[str, str]


@dataclass(frozen=True)
class Said:
    """One method's verdict on a claim."""

    outcome: str
    shown: str
    """The deciding figure."""
    value: float | None
    settled: bool
    within_chance: bool = False
    """Whether it is undecided because its repeats differ by more than the margin."""


@dataclass(frozen=True)
class Claim:
    """One claim, by every method."""

    text: str
    check: str
    source: str
    note: str
    expected: str
    place: str
    """The cells of the figures, if the claim is about several."""
    against: str
    """The threshold of the figures."""
    said: Mapping[str, Said]
    agreement: Agreement
    distances: Mapping[Pair, float | None]
    """Of the figures, relative to their mean."""
    seeds: tuple[Said, ...] = ()
    """Verdicts of the simulator with other seeds."""

    @property
    def by_chance(self) -> bool:
        """Whether the simulator reaches both outcomes, depending on the seed."""
        return len({s.outcome for s in self.seeds} & {"holds", "fails"}) == 2

    @property
    def outcome(self) -> str:
        """The majority's outcome; ``disputed`` without a majority."""
        if not self.agreement.together:
            decided = [s.outcome for s in self.said.values() if s.outcome != "undecided"]
            return decided[0] if len(decided) == 1 else "disputed" if decided else "undecided"
        return self.said[self.agreement.together[0]].outcome

    @property
    def settled(self) -> bool:
        """Whether the majority holds, or fails as the scenario expects."""
        if self.outcome == "undecided":  # no contradiction if only repeats leave it open
            return all(said.within_chance for said in self.said.values() if said.outcome == "undecided")
        return self.outcome in ("holds", self.expected)

    def to_json(self) -> dict[str, Any]:
        """The claim as JSON types."""
        said = {
            m: {"outcome": s.outcome, "within_chance": s.within_chance, "shown": s.shown, "value": s.value}
            for m, s in self.said.items()
        }
        return {"claim": self.text, "check": self.check, "source": self.source, "note": self.note,
                "expected": self.expected, "place": self.place, "methods": said, "outcome": self.outcome,
                **_agreement_json(self.agreement), "distances": _pairs_json(self.distances),
                "seeds": [{"outcome": s.outcome, "value": s.value} for s in self.seeds],
                "by_chance": self.by_chance}  # fmt: skip


@dataclass(frozen=True)
class Figure:
    """One metric in one cell and phase, by every method."""

    cell: int
    place: str
    phase: str
    metric: str
    unit: str
    values: Mapping[str, float | None]
    agreement: Agreement
    distances: Mapping[Pair, float | None]
    seeds: tuple[float, ...] = ()
    """Values of the simulator with other seeds."""

    @property
    def by_chance(self) -> bool:
        """Whether the methods differ by no more than the simulator does with other seeds."""
        known = [v for v in self.values.values() if v is not None]
        return len(self.seeds) > 1 and max(known) - min(known) <= max(self.seeds) - min(self.seeds)

    @property
    def size(self) -> float:
        """The largest distance of a pair."""
        return max((d for d in self.distances.values() if d is not None), default=0.0)

    def to_json(self) -> dict[str, Any]:
        """The figure as JSON types."""
        return {"cell": self.place, "phase": self.phase or None, "metric": self.metric, "unit": self.unit,
                "values": dict(self.values), **_agreement_json(self.agreement),
                "distances": _pairs_json(self.distances), "seeds": list(self.seeds),
                "by_chance": self.by_chance}  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """One scenario of a survey."""

    name: str
    scenario: Scenario
    executions: Mapping[str, Done]
    runs: Mapping[str, Run]
    """Of the methods that have a result."""
    claims: tuple[Claim, ...]
    figures: tuple[Figure, ...]
    comparison: Comparison | None = field(repr=False)

    @property
    def unjudged(self) -> tuple[Unjudged, ...]:
        """Claims that this version does not decide."""
        return self.scenario.unjudged

    def to_json(self) -> dict[str, Any]:
        """The entry as JSON types."""
        return {
            "name": self.name,
            "title": self.scenario.title,
            "methods": {name: _execution_json(done) for name, done in self.executions.items()},
            "claims": [claim.to_json() for claim in self.claims],
            "not_judged": [{"claim": u.claim, "source": u.source, "reason": u.reason} for u in self.unjudged],
            "figures": [figure.to_json() for figure in self.figures],
        }


@dataclass(frozen=True)
class Survey:
    """The catalogue by several methods."""

    methods: tuple[str, ...]
    missing: Mapping[str, str]
    """Methods that this machine does not have, and what it lacks for them."""
    version: str
    entries: tuple[Entry, ...]
    date: str

    @cached_property
    def claims(self) -> tuple[tuple[Entry, Claim], ...]:
        """All judged claims, with their scenarios."""
        return tuple((entry, claim) for entry in self.entries for claim in entry.claims)

    @cached_property
    def disputed(self) -> tuple[tuple[Entry, Claim], ...]:
        """The claims on which two methods reach different outcomes."""
        return tuple(pair for pair in self.claims if pair[1].agreement.kind in ("majority", "split"))

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Every two available methods that were to be compared."""
        return tuple(combinations([m for m in self.methods if m not in self.missing], 2))

    def same_verdict(self, pair: Pair) -> tuple[int, int]:
        """Number of claims with the same outcome by both methods, and number that both decide."""
        both = [[c.said[m].outcome for m in pair if m in c.said] for _, c in self.claims]
        decided = [o for o in both if len(o) == 2 and "undecided" not in o]
        return sum(o[0] == o[1] for o in decided), len(decided)

    def same_figures(self, pair: Pair) -> tuple[int, int]:
        """Number of figures on which two methods agree, and number that both have."""
        agreed, known = 0, 0
        for figure in (f for entry in self.entries for f in entry.figures):
            a, b = (figure.values.get(m) for m in pair)
            if a is not None and b is not None:
                known += 1
                agreed += tolerance_of(figure.metric).covers(a, b)
        return agreed, known

    def median_distance(self, pair: Pair, metric: str) -> float | None:
        """The median distance of a metric over all cells and phases; ``None`` if both never have it."""
        found = sorted(
            d
            for entry in self.entries
            for figure in entry.figures
            if figure.metric == metric and (d := figure.distances.get(pair)) is not None
        )
        return found[len(found) // 2] if found else None

    def odd_ones(self) -> dict[str, int]:
        """Number of verdicts with which each method stands alone against the agreeing others."""
        return {m: sum(c.agreement.odd == (m,) for _, c in self.claims) for m in self.methods if m not in self.missing}

    @cached_property
    def differing(self) -> tuple[tuple[Entry, Figure], ...]:
        """The figures on which methods disagree, with their scenarios."""
        kinds = ("majority", "split")
        return tuple((entry, f) for entry in self.entries for f in entry.figures if f.agreement.kind in kinds)

    @property
    def unsettled(self) -> tuple[str, ...]:
        """Claims whose majority contradicts their scenarios."""
        return tuple(f"{entry.name}: {claim.text}" for entry, claim in self.claims if not claim.settled)

    @property
    def failed(self) -> tuple[str, ...]:
        """Executions with failed cells."""
        return tuple(
            f"{entry.name} by {done.task.side.method}: {done.failures[0]}"
            for entry in self.entries
            for done in entry.executions.values()
            if done.failures
        )

    def to_json(self) -> dict[str, Any]:
        """What ``weir catalogue --method ... --json`` prints."""
        same, figures = ({p: f(p) for p in self.pairs} for f in (self.same_verdict, self.same_figures))
        return {
            "format": 1,
            "date": self.date,
            "version": self.version,
            "methods": list(self.methods),
            "missing": dict(self.missing),
            "pairs": [
                {
                    "methods": list(p),
                    "claims": {"same": same[p][0], "of": same[p][1]},
                    "figures": {"agree": figures[p][0], "of": figures[p][1]},
                }
                for p in self.pairs
            ],
            "odd_one_out": self.odd_ones(),
            "unsettled": list(self.unsettled),
            "failed": list(self.failed),
            "scenarios": [entry.to_json() for entry in self.entries],
        }


def _execution_json(done: Done) -> dict[str, Any]:
    return {"folder": str(done.task.folder), "wall_s": round(done.wall_s, 3), "cells": done.cells,
            "executed": done.executed, "failures": list(done.failures), "warnings": list(done.warnings),
            "not_run": done.reason or None}  # fmt: skip


def claims_of(scenario: Scenario, runs: Mapping[str, Run], chance: Chance) -> tuple[Claim, ...]:
    """The claims of a scenario, judged on the run of each method."""
    judged = {method: evaluate(run, run.manifest.get("expect", ())) for method, run in runs.items()}
    found = []
    for number, expectation in enumerate(scenario.expect):
        verdicts = {m: some[number] for m, some in judged.items() if number < len(some)}
        if verdicts:
            note = " ".join(expectation.note.split())
            seeds = chance.verdicts[number] if number < len(chance.verdicts) else ()
            found.append(_claim(verdicts, seeds, note, expectation.expected))
    return tuple(found)


def _claim(verdicts: Mapping[str, Verdict], seeds: Sequence[Verdict], note: str, expected: str) -> Claim:
    first = next(iter(verdicts.values()))
    key = _telling(verdicts)
    chosen = {m: _measured(v, key) for m, v in verdicts.items()}
    said = {m: _said(verdict, chosen[m]) for m, verdict in verdicts.items()}
    some = next((x for x in chosen.values() if x is not None), None)
    return Claim(
        text=first.claim or first.check,
        check=first.check,
        source=first.source,
        note=note,
        expected=expected,
        place="" if some is None else ", ".join(f"{k} {v}" for k, v in some.factors.items()),
        against="" if some is None or some.threshold == "" else some.show(some.threshold),
        said=said,
        agreement=of_outcomes({m: s.outcome for m, s in said.items()}),
        distances=_distances({m: s.value for m, s in said.items()}),
        seeds=tuple(_said(verdict, _measured(verdict, key)) for verdict in seeds),
    )


def _measured(verdict: Verdict, key: tuple[object, ...] | None) -> Measurement | None:
    return next((m for m in verdict.measured if _key(m) == key), None)


def _key(measurement: Measurement) -> tuple[object, ...]:
    return measurement.text, tuple(sorted(measurement.factors.items()))


def _telling(verdicts: Mapping[str, Verdict]) -> tuple[object, ...] | None:
    """The comparison to show for every method: the deciding one if the claim fails, else the closest."""
    for wanted in ("fails", "holds", "undecided"):
        for verdict in verdicts.values():
            if verdict.outcome == wanted and verdict.decisive is not None:
                return _key(verdict.decisive)
    return None


def _said(verdict: Verdict, measurement: Measurement | None) -> Said:
    if measurement is None or (isinstance(measurement.value, float) and math.isnan(measurement.value)):
        reason = verdict.explanation if verdict.outcome == "undecided" else ""
        return Said(verdict.outcome, reason, None, verdict.settled, verdict.within_chance)
    value = measurement.value if isinstance(measurement.value, float) else None
    return Said(verdict.outcome, measurement.show(measurement.value), value, verdict.settled, verdict.within_chance)


def figures_of(comparison: Comparison, chance: Chance) -> tuple[Figure, ...]:
    """Each metric over all flows in every cell and phase, the largest distance first."""
    found = []
    frame = comparison.values
    frame = frame.filter(frame["flow"].is_null())
    for part in frame.partition_by(["cell", "metric", "phase"], maintain_order=True):
        rows = part.to_dicts()
        values: dict[str, float | None] = dict.fromkeys(comparison.labels)
        values |= {row["run"]: row["value"] for row in rows}
        first = rows[0]
        tolerance = tolerance_of(first["metric"])
        found.append(
            Figure(
                cell=first["cell"],
                place=comparison.groups[first["cell"]].name,
                phase=first["phase"] or "",
                metric=first["metric"],
                unit=first["unit"],
                values=values,
                agreement=of_figures(values, tolerance),
                distances=_distances(values, tolerance.absolute),
                seeds=chance.figures.get(
                    (comparison.groups[first["cell"]].name, first["phase"] or "", first["metric"]), ()
                ),
            )
        )
    return tuple(sorted(found, key=lambda f: (f.agreement.kind in ("all", "alone"), -f.size)))


def _distances(values: Mapping[str, float | None], floor: float = 0.0) -> dict[Pair, float | None]:
    return {(a, b): apart(values[a], values[b], floor) for a, b in combinations(values, 2)}


def _agreement_json(found: Agreement) -> dict[str, Any]:
    return {"agreement": found.kind, "together": list(found.together), "odd": list(found.odd), "words": found.text}


def _pairs_json(distances: Mapping[Pair, float | None]) -> list[dict[str, Any]]:
    return [{"methods": list(pair), "relative": distance} for pair, distance in distances.items()]

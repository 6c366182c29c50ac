"""The result of judging a claim."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from weir.run.quantity import ONE, Dimension, format_quantity, format_share

__all__ = ["Expectation", "Measurement", "Outcome", "Verdict", "percent"]

Outcome = Literal["holds", "fails", "undecided"]

_BASIS = ("id", "paper", "tolerance", "refuted_by", "fitted", "beyond", "chance")


@dataclass(frozen=True)
class Expectation:
    """A claim of a scenario, and the check that decides it."""

    check: str
    claim: str = ""
    source: str = ""
    where: Mapping[str, Any] | None = None
    """Factor values that the claim is about; a list means any of them."""
    note: str = ""
    """A remark for readers, such as why the claim is known to fail."""
    expected: Literal["holds", "fails"] = "holds"
    """The known outcome."""
    basis: Mapping[str, str] = field(default_factory=dict)
    """What else the scenario says about the claim: ``id``, ``paper``, ``tolerance``, ``refuted_by``, ``fitted``,
    ``beyond``, ``chance``; each if given."""

    @classmethod
    def of(cls, entry: Expectation | Mapping[str, Any]) -> Expectation:
        """Converts an entry of a scenario's ``expect`` list; unknown keys are ignored."""
        if isinstance(entry, Expectation):
            return entry
        return cls(
            check=str(entry["check"]),
            claim=str(entry.get("claim") or ""),
            source=str(entry.get("source") or ""),
            where=entry.get("where"),
            note=str(entry.get("note") or ""),
            expected="fails" if entry.get("expected") == "fails" else "holds",
            basis={name: str(entry[name]) for name in _BASIS if entry.get(name)},
        )


@dataclass(frozen=True)
class Measurement:
    """One comparison of a check at one combination of factors.

    Numbers are means over the repeats, in base units (bit, second) of ``dimension``. Intervals are at ``level``; both
    ends are ``nan`` with one repeat. A positive margin means that the comparison holds.
    """

    text: str
    factors: Mapping[str, str]
    outcome: Outcome
    value: float | str
    low: float
    high: float
    threshold: float | str
    margin: float
    margin_low: float
    margin_high: float
    repeats: int
    dimension: Dimension
    note: str = ""
    within_chance: bool = False
    """Undecided because the margin's interval includes zero: repeats differ by more than the margin."""
    level: float = 0.95
    fixed: bool = True
    """Whether the threshold is constant, so that the value's interval decides as the margin's does."""
    tolerance: float = 0.0
    """How far the value may be from the threshold, on either side."""
    percent: bool = False
    """Whether people read the numbers in percent."""
    numbers: tuple[tuple[str, float], ...] = ()
    """Of ``argmin`` and ``argmax``: the values of the factor with their amounts, the one that leads first."""

    @property
    def same(self) -> bool:
        """Whether at least two repeats all have the same margin."""
        return self.repeats > 1 and self.margin_low == self.margin_high

    @property
    def against(self) -> bool:
        """Whether to print a threshold beside the value; a word that equals the wanted one needs none."""
        return self.threshold != "" and not (isinstance(self.value, str) and self.value == self.threshold)

    def show(self, value: float | str) -> str:
        """Formats a number of this measurement for people."""
        if isinstance(value, str):
            return value
        return format_share(value) if self.percent else format_quantity(value, self.dimension)

    @property
    def limit(self) -> str:
        """The threshold, how far from it the value may be, and how far it is if the printed digits do not show that."""
        shown = self.show(self.threshold)
        if self.tolerance:
            return f"{shown} ± {self.show(self.tolerance)}"
        if isinstance(self.value, str) or isinstance(self.threshold, str) or shown != self.show(self.value):
            return shown
        apart = abs(self.value - self.threshold)
        return f"{shown}, {self.show(apart)} apart" if apart > 0 else f"{shown}, equal"

    def __str__(self) -> str:
        place = ", ".join(f"{k} = {v}" for k, v in self.factors.items())
        text = f"{place}: " if place else ""
        if self.outcome == "undecided" and (isinstance(self.value, float) and math.isnan(self.value)):
            return f"{text}{self.note}"
        text += self.show(self.value)
        if self.against:
            text += f" against {self.limit}"
        return text + "".join(f"; {part}" for part in (self.spread, self.note) if part)

    @property
    def spread(self) -> str:
        """The interval that decides, in words; empty with one repeat."""
        if self.same:
            return f"the same in all {self.repeats} repeats"
        low, high = (self.low, self.high) if self.fixed else (self.margin_low, self.margin_high)
        if math.isnan(low):
            return ""
        what = "" if self.fixed else f" of the margin {self.show(self.margin)}"
        ends = f"{self.show(low)} to {self.show(high)}"
        return f"{percent(self.level)} interval{what}: {ends}, {self.repeats} repeats"


def percent(level: float) -> str:
    """Formats a confidence level for people: ``95 %``."""
    return f"{100 * level:.4g} %"


@dataclass(frozen=True)
class Verdict:
    """The judgement of one claim on one run."""

    claim: str
    source: str
    check: str
    where: Mapping[str, Any]
    outcome: Outcome
    measured: tuple[Measurement, ...]
    """All comparisons made, the decisive ones first."""
    cells: tuple[str, ...]
    """Ids of the cells used."""
    explanation: str
    warnings: tuple[str, ...]
    note: str = ""
    """The scenario's note on the claim."""
    expected: Literal["holds", "fails"] = "holds"
    """The outcome that the scenario expects."""
    level: float = 0.95
    """Confidence level of the intervals."""
    basis: Mapping[str, str] = field(default_factory=dict)
    """As in the expectation."""
    deciding: int = 0
    """How many of ``measured``, from the first on, make the claim hold or fail, or leave it open."""

    @property
    def settled(self) -> bool:
        """Whether the claim holds, or fails as the scenario expects."""
        return self.outcome in ("holds", self.expected)

    @property
    def within_chance(self) -> bool:
        """Whether it is undecided because repeats differ by more than the margin, so that more repeats can decide it.

        Any other undecided claim has no value on this run and cannot be judged.
        """
        doubtful = [m for m in self.measured if m.outcome == "undecided"]
        return self.outcome == "undecided" and bool(doubtful) and all(m.within_chance for m in doubtful)

    @property
    def news(self) -> str:
        """The outcome compared with the one that the scenario expects; empty if no particular one is expected."""
        if self.expected == "holds":
            return ""
        return {
            "holds": "holds, although the scenario says that it fails",
            "fails": "known to fail",
            "undecided": "the scenario says that it fails",
        }[self.outcome]

    @property
    def decisive(self) -> Measurement | None:
        """The comparison that settled the claim: of those that make it hold or fail, the one with the smallest margin.

        If the claim holds, that is the closest one; if it fails, the one farthest from holding. Of the parts of an
        ``or``, only the one that is farthest from failing counts at each combination of factors.
        """
        return self.measured[0] if self.measured else None

    def to_json(self) -> dict[str, Any]:
        """The verdict as JSON types; undefined numbers are ``None``."""
        return {
            "claim": self.claim,
            "source": self.source,
            "check": self.check,
            "where": dict(self.where),
            "outcome": self.outcome,
            "within_chance": self.within_chance,
            "level": self.level,
            "measured": [_measurement_json(m) for m in self.measured],
            "cells": list(self.cells),
            "explanation": self.explanation,
            "warnings": list(self.warnings),
            "note": self.note,
            "expected": self.expected,
            **self.basis,
        }


def _measurement_json(m: Measurement) -> dict[str, Any]:
    def number(value: float | str) -> float | str | None:
        return value if isinstance(value, str) else value if math.isfinite(value) else None

    return {
        "text": m.text,
        "factors": dict(m.factors),
        "outcome": m.outcome,
        "value": number(m.value),
        "ci": [number(m.low), number(m.high)],
        "threshold": number(m.threshold),
        "margin": number(m.margin),
        "margin_ci": [number(m.margin_low), number(m.margin_high)],
        "within_chance": m.within_chance,
        "repeats": m.repeats,
        "unit": {ONE: "1", (1, -1): "bit/s", (0, 1): "s", (1, 0): "bit"}.get(
            m.dimension, f"bit^{m.dimension[0]} s^{m.dimension[1]}"
        ),
        "shown": str(m),
    }

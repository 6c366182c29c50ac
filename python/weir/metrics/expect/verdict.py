"""What judging a claim gives."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from weir.run.quantity import ONE, Dimension, format_quantity

__all__ = ["Expectation", "Measurement", "Outcome", "Verdict"]

Outcome = Literal["holds", "fails", "undecided"]


@dataclass(frozen=True)
class Expectation:
    """A claim of a scenario and the check that decides it."""

    check: str
    claim: str = ""
    source: str = ""
    where: Mapping[str, Any] | None = None
    """Factor values that the claim is about; a list means any of them."""
    note: str = ""
    """What a reader should know, such as why a claim is known to fail."""
    expected: Literal["holds", "fails"] = "holds"
    """The outcome that is known."""

    @classmethod
    def of(cls, entry: Expectation | Mapping[str, Any]) -> Expectation:
        """An entry of a scenario's ``expect`` list as an expectation; unknown keys are ignored."""
        if isinstance(entry, Expectation):
            return entry
        return cls(
            check=str(entry["check"]),
            claim=str(entry.get("claim") or ""),
            source=str(entry.get("source") or ""),
            where=entry.get("where"),
            note=str(entry.get("note") or ""),
            expected="fails" if entry.get("expected") == "fails" else "holds",
        )


@dataclass(frozen=True)
class Measurement:
    """One comparison of a check, in one combination of factors.

    Numbers are in base units (bit, second) of ``dimension``, means over the repeats; intervals are at 95 % (both ends
    ``nan`` with one repeat); a margin is positive where the comparison holds.
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

    @property
    def sure(self) -> bool | None:
        """Whether the margin's interval leaves zero out, or is a point; ``None`` without an interval."""
        if math.isnan(self.margin_low):
            return None
        if self.margin_low == self.margin_high:
            return True  # every repeat gave the same
        return not self.margin_low <= 0 <= self.margin_high

    def show(self, value: float | str) -> str:
        """A number of this measurement for people."""
        return value if isinstance(value, str) else format_quantity(value, self.dimension)

    def __str__(self) -> str:
        place = ", ".join(f"{k} = {v}" for k, v in self.factors.items())
        text = f"{place}: " if place else ""
        if self.outcome == "undecided" and (isinstance(self.value, float) and math.isnan(self.value)):
            return f"{text}{self.note}"
        text += self.show(self.value)
        if isinstance(self.value, float) and not math.isnan(self.low):
            text += f" (95 % interval {self.show(self.low)} to {self.show(self.high)}, {self.repeats} repeats)"
        if self.threshold != "":
            text += f" against {self.show(self.threshold)}"
        return text + (f"; {self.note}" if self.note else "")


@dataclass(frozen=True)
class Verdict:
    """The judgement of one claim on one run."""

    claim: str
    source: str
    check: str
    where: Mapping[str, Any]
    outcome: Outcome
    measured: tuple[Measurement, ...]
    """Every comparison made, the decisive ones first."""
    cells: tuple[str, ...]
    """Ids of the cells used."""
    explanation: str
    warnings: tuple[str, ...]
    note: str = ""
    """What the scenario says about the claim."""
    expected: Literal["holds", "fails"] = "holds"
    """What the scenario says the outcome is."""

    @property
    def settled(self) -> bool:
        """Whether it holds, or fails as the scenario says that it does."""
        return self.outcome in ("holds", self.expected)

    @property
    def news(self) -> str:
        """What the outcome means beside the one that the scenario expects; empty if it is as with any claim."""
        if self.expected == "holds":
            return ""
        return {
            "holds": "holds, although the scenario says that it fails",
            "fails": "known to fail",
            "undecided": "the scenario says that it fails",
        }[self.outcome]

    @property
    def decisive(self) -> Measurement | None:
        """The comparison that settled it: the one with the least margin of those with the verdict's outcome."""
        return self.measured[0] if self.measured else None

    def to_json(self) -> dict[str, Any]:
        """The verdict as JSON types; undefined numbers are ``None``."""
        return {
            "claim": self.claim,
            "source": self.source,
            "check": self.check,
            "where": dict(self.where),
            "outcome": self.outcome,
            "measured": [_measurement_json(m) for m in self.measured],
            "cells": list(self.cells),
            "explanation": self.explanation,
            "warnings": list(self.warnings),
            "note": self.note,
            "expected": self.expected,
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
        "repeats": m.repeats,
        "unit": {ONE: "1", (1, -1): "bit/s", (0, 1): "s", (1, 0): "bit"}.get(
            m.dimension, f"bit^{m.dimension[0]} s^{m.dimension[1]}"
        ),
        "shown": str(m),
    }

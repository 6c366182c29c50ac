"""What chance alone makes: the same scenario in the simulator with other seeds.

With one repeat by each method, a claim may come out differently because of a few losses. The simulator costs little, so
that it can say how often a claim holds with other seeds, and how far figures spread; a difference between methods that
is no larger says nothing about the methods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from weir.compare import compare
from weir.metrics.expect import Verdict, evaluate
from weir.run import Run

__all__ = ["Chance", "chance_of"]

Place = tuple[str, str, str]
"""Cell, phase and metric."""


@dataclass(frozen=True)
class Chance:
    """A scenario with several seeds."""

    verdicts: tuple[tuple[Verdict, ...], ...] = ()
    """Of each claim, one a seed."""
    figures: Mapping[Place, tuple[float, ...]] = field(default_factory=dict)
    """Values, one a seed."""


def chance_of(run: Run) -> Chance:
    """What the repeats of ``run``, each on its own, say about its claims and figures."""
    repeats = sorted({cell.repeat for cell in run.cells})
    parts = [
        Run(run.path, [cell for cell in run.cells if cell.repeat == number], run.manifest, ()) for number in repeats
    ]
    judged = [evaluate(part, run.manifest.get("expect", ())) for part in parts]
    verdicts = tuple(zip(*judged, strict=True)) if judged else ()
    return Chance(verdicts, _figures(parts))


def _figures(parts: list[Run]) -> dict[Place, tuple[float, ...]]:
    if len(parts) < 2:
        return {}
    comparison = compare(parts, labels=[f"seed {number}" for number in range(len(parts))], flows=False)
    found: dict[Place, list[float]] = {}
    for row in comparison.values.iter_rows(named=True):
        if row["flow"] is None and row["value"] is not None:
            place = comparison.groups[row["cell"]].name, row["phase"] or "", row["metric"]
            found.setdefault(place, []).append(row["value"])
    return {place: tuple(values) for place, values in found.items()}

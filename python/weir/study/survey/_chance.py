"""The influence of chance: the same scenario in the simulator with other seeds.

With one repeat per method, a few losses may change the outcome of a claim. The simulator is cheap, so it measures how
often a claim holds with other seeds, and how far figures spread. A difference between methods that is no larger says
nothing about the methods.
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
    """Of each claim, one per seed."""
    figures: Mapping[Place, tuple[float, ...]] = field(default_factory=dict)
    """Values, one per seed."""


def chance_of(run: Run) -> Chance:
    """Claims and figures of each repeat of ``run`` by itself."""
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

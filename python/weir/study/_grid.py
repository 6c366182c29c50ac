"""The common cells of all sides of a study: of a scenario, or drawn at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from weir.scenario import load
from weir.study._cells import Chosen, covering, sample
from weir.study._draw import CCS, draws
from weir.study._execute import Task
from weir.study._sides import Side

__all__ = ["QUICK_CELLS", "Grid"]

QUICK_CELLS = 12
"""Default number of cells of a quick sample, and of draws."""


@dataclass(frozen=True)
class Grid:
    """The cells to execute."""

    scenario: Path | None
    """A scenario file; ``None``: random draws."""
    quick: bool = False
    overrides: Mapping[str, str] = field(default_factory=dict)
    """Overrides for every side."""
    cells: int | None = None
    """Number of combinations of factors, or of draws; ``None``: all (draws: a dozen)."""
    pairs: int | None = None
    """Minimum number of times that every two values of two factors meet; ``None``: ``cells`` decides."""
    seed: int = 1
    most_bps: float = 1e9
    """Upper bound of the rates of random draws."""
    ccs: Sequence[str] = CCS
    """Congestion controls of random draws."""
    claims: bool = False
    """Whether runs carry the scenario's claims although they may be of a sample."""

    def of(self, side: Side) -> Chosen:
        """The cells as ``side`` executes them.

        Raises:
            StudyError: fewer than one cell is asked for.
            weir.scenario.ScenarioError: the scenario is wrong.
        """
        overrides = {**self.overrides, **side.overrides}
        if self.scenario is None:
            return draws(self.cells or QUICK_CELLS, self.seed, overrides, most_bps=self.most_bps, ccs=self.ccs)
        scenario = load(self.scenario, quick=self.quick, overrides=overrides, sampled=True)
        if self.pairs is not None:
            return covering(scenario, self.pairs, self.seed)
        chosen = sample(scenario, self.cells, self.seed)
        return replace(chosen, expect=scenario.expect) if self.claims else chosen

    def task(self, side: Side, cells: Chosen, folder: Path) -> Task:
        """The execution of ``cells`` by ``side``."""
        settings: dict[str, Any] = {"quick": self.quick, "set": {**self.overrides, **side.overrides}}
        return Task(side, cells, folder, settings)

    def with_repeats(self, number: int) -> Grid:
        """Returns the grid with ``number`` seeds per cell."""
        return replace(self, overrides={**self.overrides, "repeat": str(number)})

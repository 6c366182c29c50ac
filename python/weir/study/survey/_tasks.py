"""The tasks of a survey: each scenario by each method that this machine has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weir import methods
from weir.scenario import Scenario, Version
from weir.study import Side, Task, folder_name

__all__ = ["SEEDS", "tasks_of"]

SEEDS = "seeds"
"""Folder name of the simulator's runs with other seeds."""


def tasks_of(
    scenarios: Mapping[str, Scenario],
    seeds: Mapping[str, Scenario],
    names: Sequence[str],
    out: Path,
    version: Version = "full",
) -> list[Task]:
    """All tasks, method by method with real-time methods last; ``seeds`` are for the simulator."""
    return [
        *(_task(name, _seeds(scenario), scenario, out, version) for name, scenario in seeds.items()),
        *(_task(name, Side(m, m), scenario, out, version) for m in names for name, scenario in scenarios.items()),
    ]


def _seeds(scenario: Scenario) -> Side:
    return Side(SEEDS, methods.DEFAULT, {"repeat": str(scenario.repeat)})


def _task(name: str, side: Side, scenario: Scenario, out: Path, version: Version) -> Task:
    # The settings of `weir run` with the same options, so that both continue the same run.
    settings: dict[str, Any] = {} if version == "full" else {version: True}
    settings |= {"set": dict(side.overrides)} if side.overrides else {}
    return Task(side, scenario, out / folder_name(name) / side.folder, settings, name)

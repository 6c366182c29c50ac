"""The subject of ``weir run``: a scenario, an existing run, or one cell of either."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli._one import OneCell, choose
from weir.cli._scenarios import load, parse_set, print_problems, settings, slug

if TYPE_CHECKING:
    from weir.scenario import Scenario, Version

__all__ = ["Asked", "find"]


@dataclass(frozen=True)
class Asked:
    """What to execute, and the name of its run."""

    scenario: Scenario | OneCell
    folder: Path
    """Default folder of its run."""
    settings: Mapping[str, Any]
    """Settings that distinguish it from other runs of the scenario."""
    method: str | None = None
    """Method of the existing run."""


def find(
    name: str, version: Version, overrides: Sequence[str], cell: str | None, *, method: str | None, quiet: bool
) -> Asked:
    """Finds the scenario ``name``, or that of the run in the folder ``name``; with ``cell``, only that cell.

    ``method`` is the one that the user named. Without it, a run's method is used if this user made the run there.

    Raises:
        click.BadParameter: neither exists, there is no such cell, or an option does not apply to a run.
        weir.engine.FolderError: the run's state or scenario is damaged; or its method cannot be trusted.
        weir.scenario.ScenarioError: the scenario is wrong.
    """
    if Path(name).is_dir():
        asked = _run(Path(name), version, overrides, method=method, alone=cell is None, quiet=quiet)
    else:
        loaded = load(name, version=version, overrides=overrides, quiet=quiet)
        folder = Path("runs") / slug(name, version=version)
        asked = Asked(loaded, folder, settings(version=version, overrides=overrides))
    return asked if cell is None else _one(asked, cell)


def _one(asked: Asked, text: str) -> Asked:
    assert not isinstance(asked.scenario, OneCell)
    one = choose(asked.scenario, text)
    folder = asked.folder.with_name(f"{asked.folder.name}-{one.cell.id}")
    return Asked(one, folder, {**asked.settings, "cell": one.cell.id}, asked.method)


def _run(
    folder: Path, version: Version, overrides: Sequence[str], *, method: str | None, alone: bool, quiet: bool
) -> Asked:
    from weir import engine, scenario

    held = engine.origin_of(folder)
    if held is None:
        raise click.BadParameter(f"{folder} is a folder; a scenario is a YAML file, and the folder holds no run")
    if version != "full":
        raise click.BadParameter(f"the run in {folder} already has its version", param_hint=f"--{version}")
    if alone and overrides:
        raise click.BadParameter(f"the run in {folder} continues with its own settings; --set needs --cell")
    only = held.settings.get("cell")
    if only is not None and not alone:
        raise click.BadParameter(
            f"the run in {folder} contains only the cell {only}; name the scenario, or the whole run"
        )
    if method is None and not held.own:
        raise engine.FolderError(engine.unproven(folder, held.method))
    changed = dict(held.settings)
    if overrides:
        changed["set"] = {**changed.get("set", {}), **parse_set(overrides)}
    loaded = scenario.parse(
        held.text,
        held.file,
        quick=bool(changed.get("quick")),
        realtime=bool(changed.get("realtime")),
        overrides=changed.get("set", {}),
    )
    if not quiet:
        print_problems(loaded.problems, file=sys.stderr)
    named = folder if folder.name not in ("", "..") else folder.resolve()
    return Asked(loaded if only is None else choose(loaded, str(only)), named, changed, held.method)

"""Tests whether a method is still as close to a reference as a published validation says.

The document's data hold the reference's measurements in each cell, so the reference itself is not needed: the cells of
the method under test are executed again, and the errors are compared with the published ones.
"""

from __future__ import annotations

import json
import math
import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from weir import engine, study
from weir.plan import plan_hash
from weir.run import Run
from weir.scenario import load
from weir.study import CCS, Chosen, How, Side, StudyError, Task, draws, opened, parse_sides
from weir.study.validation._errors import ERRORS, Aim, Summary, aims, errors_of, summarise
from weir.study.validation._values import Values, by_cell

__all__ = ["Change", "Regression", "Stored", "check", "read_stored"]

_KINDS = tuple(kind for kind in ERRORS if kind.scalar)
_MARGIN = 0.25
"""Share of its aim by which the median and the 90th percentile of an error may rise."""
_GROWTH = 1.5
"""Factor by which the error of a cell may grow, in addition to its aim: a large error's exact size means little."""
_MOVED = 0.01
"""Relative change of a reference's value that is worth a note."""

_Key = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Stored:
    """A published validation, as ``weir validate --document`` wrote its data."""

    path: Path
    data: Mapping[str, Any]
    cells: tuple[Mapping[str, Any], ...]

    @property
    def methods(self) -> str:
        """The two sides."""
        return ",".join(self.data["methods"])

    @property
    def settings(self) -> Mapping[str, Any]:
        """Overrides of the scenario."""
        found: Mapping[str, Any] = self.data["settings"]
        return found

    def some(self, number: int | None, seed: int) -> Stored:
        """Draws ``number`` cells at random; ``None``: all."""
        if number is None or number >= len(self.cells):
            return self
        places = sorted(random.Random(f"cells {seed}").sample(range(len(self.cells)), number))
        return replace(self, cells=tuple(self.cells[i] for i in places))


def read_stored(path: Path) -> Stored:
    """Reads the data of a document.

    Raises:
        StudyError: the file has no such data, or is too old to name its scenario.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StudyError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise StudyError(f"{path} is not JSON: {error}") from None
    if not isinstance(data, dict) or data.get("format") != 1 or "settings" not in data or not data.get("cells"):
        raise StudyError(f"{path}: expected the data that `weir validate --document` writes, with cells")
    return Stored(path, data, tuple(data["cells"]))


@dataclass(frozen=True)
class Change:
    """One kind of error: as published, and now."""

    name: str
    before: Summary
    now: Summary


@dataclass(frozen=True)
class Regression:
    """The result for a published validation."""

    stored: Stored
    changes: tuple[Change, ...]
    failures: tuple[str, ...]
    """Errors that grew by more than chance and the margin allow, in words."""
    notes: tuple[str, ...]
    same: int
    """Cells in which every value of the method under test equals the published one."""

    def to_json(self) -> dict[str, Any]:
        """The regression as JSON types."""
        changes = {c.name: {"before": c.before.to_json(), "now": c.now.to_json()} for c in self.changes}
        return {"against": str(self.stored.path), "date": self.stored.data["date"], "cells": len(self.stored.cells),
                "same": self.same, "errors": changes, "failures": list(self.failures),
                "notes": list(self.notes)}  # fmt: skip


def check(
    stored: Stored,
    locate: Callable[[str], Path],
    *,
    methods: str | None = None,
    overrides: Mapping[str, str] | None = None,
    how: How | None = None,
) -> Regression:
    """Executes the cells again and compares the errors with the published ones.

    An error got worse if its median or its 90th percentile rose by more than a quarter of its aim. In a cell it got
    worse if it exceeds 1.5 times its old value plus its aim, or plus the cell's chance if that is larger.

    Args:
        stored: the published validation.
        locate: returns the path of a scenario by name.
        methods: two sides, to execute the reference again as well; default: the tested side alone.
        overrides: values of the scenario changed for the side under test, to see that a change is noticed.
        how: processes and display.

    Raises:
        StudyError: a cell does not exist any more, or was not executed.
        weir.scenario.ScenarioError: the scenario is wrong.
        weir.methods.MethodError: a method cannot run here.
    """
    sides = parse_sides(methods or stored.methods)
    notes: list[str] = []
    forced = replace(how or How(), force=True)
    test = _executed(stored, sides[0], locate, overrides or {}, notes, forced)
    published = {_key(cell): {m: pair[1] for m, pair in cell["values"].items()} for cell in stored.cells}
    reference: Mapping[_Key, Values] = published
    if methods is not None:
        reference = _executed(stored, sides[1], locate, {}, notes, forced)
        notes += _moved(published, reference)
    now = {key: errors_of(values, reference[key]) for key, values in test.items()}
    return _judged(stored, now, test, aims(sides[1].method), tuple(notes))


def _key(cell: Mapping[str, Any]) -> _Key:
    return tuple(sorted(cell["factors"].items()))


def _executed(
    stored: Stored,
    side: Side,
    locate: Callable[[str], Path],
    overrides: Mapping[str, str],
    notes: list[str],
    how: How,
) -> dict[_Key, Values]:
    """The values of each cell by one side; notes name plans that differ from the published ones."""
    plain = _chosen(stored, {**stored.settings["set"], **side.overrides}, locate)
    changed = sum(_hashes(cells) != _published(cells, stored) for cells in _grouped(plain, stored).values())
    if changed and side.name == stored.data["methods"][0]:
        notes.append(
            f"the plans of {changed} cells are not those measured on {stored.data['date']}: the scenario, or its "
            "compilation, has changed since"
        )
    chosen = _chosen(stored, {**stored.settings["set"], **side.overrides, **overrides}, locate)
    with tempfile.TemporaryDirectory(prefix="weir-validate-") as folder:
        task = Task(side, chosen, Path(folder) / "run", {})
        done = study.execute(task, how)
        if done.failures:
            raise StudyError(f"{side.name}: {done.failures[0]}")
        return _values(opened(task.folder), chosen, stored)


def _chosen(stored: Stored, overrides: Mapping[str, str], locate: Callable[[str], Path]) -> Chosen:
    """The published cells, as they are compiled today.

    Raises:
        StudyError: one of them does not exist any more.
    """
    every = _all(stored, overrides, locate)
    repeats = {_key(cell): int(cell["repeats"]) for cell in stored.cells}
    names = stored.cells[0]["factors"]
    kept = [c for c in every.cells() if c.repeat < repeats.get(_of(c.factors, names), 0)]
    missing = repeats.keys() - {_of(c.factors, names) for c in kept}
    if missing:
        place = ", ".join(f"{k} {v}" for k, v in next(iter(missing)))
        raise StudyError(f"{stored.path}: {len(missing)} of its cells do not exist (any more), such as {place}")
    return replace(every, chosen=tuple(kept))


def _all(stored: Stored, overrides: Mapping[str, str], locate: Callable[[str], Path]) -> Chosen:
    name = stored.data.get("scenario")
    if name is None:
        drawn = stored.data["draws"]
        number = 1 + max(int(cell["factors"]["draw"]) for cell in stored.cells)
        ccs = drawn.get("ccs", CCS)
        return draws(number, int(drawn["seed"]), overrides, most_bps=float(drawn["most_bps"]), ccs=ccs)
    scenario = load(locate(str(name)), quick=bool(stored.settings["quick"]), overrides=overrides, sampled=True)
    return Chosen(scenario.title, scenario.text, scenario.file, tuple(scenario.cells()), tuple(scenario.factors))


def _of(factors: Mapping[str, str], names: Mapping[str, str]) -> _Key:
    return tuple(sorted((name, factors[name]) for name in names if name in factors))


def _grouped(chosen: Chosen, stored: Stored) -> dict[_Key, list[engine.Cell]]:
    found: dict[_Key, list[engine.Cell]] = {}
    for cell in chosen.cells():
        found.setdefault(_of(cell.factors, stored.cells[0]["factors"]), []).append(cell)
    return found


def _hashes(cells: Sequence[engine.Cell]) -> list[str]:
    return [plan_hash(cell.plan()) for cell in cells]


def _published(cells: Sequence[engine.Cell], stored: Stored) -> list[str]:
    key = _of(cells[0].factors, stored.cells[0]["factors"])
    return list(next(cell["plans"] for cell in stored.cells if _key(cell) == key))


def _values(run: Run, chosen: Chosen, stored: Stored) -> dict[_Key, Values]:
    """Means over repeats, by cell and metric."""
    measured = by_cell(run)
    found: dict[_Key, dict[str, float | None]] = {}
    for key, cells in _grouped(chosen, stored).items():
        repeats = [measured[cell.id] for cell in cells if cell.id in measured]
        for metric in dict.fromkeys(name for one in repeats for name in one):
            known = [one[metric] for one in repeats if metric in one]
            found.setdefault(key, {})[metric] = sum(known) / len(known)
    return {**found}


def _moved(published: Mapping[_Key, Values], measured: Mapping[_Key, Values]) -> list[str]:
    """Cells in which the reference itself differs from its published values."""
    moved = []
    for key, values in published.items():
        pairs = [(m, v, measured[key].get(m)) for m, v in values.items() if v is not None]
        far = [m for m, was, now in pairs if now is None or abs(now - was) > _MOVED * max(abs(was), 1e-4)]
        if far:
            moved.append(f"{', '.join(f'{k} {v}' for k, v in key)} ({', '.join(far)})")
    if not moved:
        return []
    return [f"the reference has moved by more than {_MOVED:.0%} in {len(moved)} cells, such as {moved[0]}"]


def _judged(
    stored: Stored,
    now: Mapping[_Key, Mapping[str, float]],
    values: Mapping[_Key, Values],
    limits: Mapping[str, Aim],
    notes: tuple[str, ...],
) -> Regression:
    changes, failures = [], []
    for kind in _KINDS:
        aim = limits.get(kind.name)
        before = [_number(cell["errors"].get(kind.name)) for cell in stored.cells]
        after = [now[_key(cell)][kind.name] for cell in stored.cells]
        change = [summarise(side, aim) for side in (before, after)]
        if change[0] is not None and change[1] is not None:
            changes.append(Change(kind.name, change[0], change[1]))
            if aim is not None and aim.p90 is not None:
                failures += _worse(changes[-1], aim.p90)
                failures += _worse_cells(kind.name, stored, before, after, aim.p90)
        elif change[0] is not None:
            failures.append(f"{kind.name}: no cell defines it any more")
    same = sum(_equal(cell, values[_key(cell)]) for cell in stored.cells)
    return Regression(stored, tuple(changes), tuple(failures), notes, same)


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _worse(change: Change, aim: float) -> list[str]:
    pairs = (
        ("median", change.before.median, change.now.median),
        ("90th percentile", change.before.p90, change.now.p90),
    )
    return [
        f"{change.name}: the {what} rose from {100 * was:.2g} % to {100 * now:.2g} %"
        for what, was, now in pairs
        if now > was + _MARGIN * aim
    ]


def _worse_cells(name: str, stored: Stored, before: Sequence[float], after: Sequence[float], aim: float) -> list[str]:
    found = []
    for cell, was, now in zip(stored.cells, before, after, strict=True):
        allowed = _GROWTH * (0.0 if math.isnan(was) else was) + max(aim, (cell.get("chance") or {}).get(name, 0.0))
        if now > allowed or math.isnan(was) != math.isnan(now):
            place = ", ".join(f"{k} {v}" for k, v in cell["factors"].items())
            found.append(f"{name}: from {100 * was:.2g} % to {100 * now:.2g} % at {place}")
    return found


def _equal(cell: Mapping[str, Any], values: Values) -> bool:
    """Whether all means are those published, but for their last bits, which the order of summation decides."""
    return all(_same(pair[0], values.get(m)) for m, pair in cell["values"].items() if pair[0] is not None)


def _same(published: float, measured: float | None) -> bool:
    return measured is not None and math.isclose(published, measured, rel_tol=1e-12)

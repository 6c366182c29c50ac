"""Executes some stored cells again and compares every stored figure: a simulation comes out exactly as before."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from weir import engine, methods
from weir.scenario import Scenario
from weir.study._cells import Chosen
from weir.study._execute import opened
from weir.study.claims._execute import Work, result_of
from weir.study.claims._judge import State, states
from weir.study.claims._papers import Papers
from weir.study.claims._store import Result, Store, Unit

__all__ = ["Verified", "verify"]

_MAX_CELL_PACKETS = 12_000_000
"""Of the cells with more data packets, which take more than some seconds, one is drawn."""

_MOST_OF_A_UNIT = 8
"""Small cells that are drawn of a unit at most: one of them has three quarters of all cells."""


@dataclass(frozen=True)
class Verified:
    """The outcome."""

    cells: tuple[str, ...]
    """The cells that were executed."""
    failures: tuple[str, ...]
    """Stored figures that came out differently although the plan is the same."""
    stale: tuple[str, ...]
    """Units whose set-up was changed after their results were stored, with the command that makes them anew."""


def verify(
    papers: Papers,
    scenarios: Mapping[str, Scenario],
    store: Store,
    *,
    seed: str,
    packets: int = 80_000_000,
    tell: Callable[[str], None] = lambda _: None,
) -> Verified:
    """Draws cells at random, executes them and compares the values with the stored ones.

    Of the first method it draws small cells and a large one; of each other method in virtual time, one cell if it is
    available.

    Args:
        papers: what is stored of a cell.
        scenarios: by name.
        store: the stored results.
        seed: determines the draw, such as the date.
        packets: small cells of the first method are drawn until they have this many data packets together.
        tell: receives progress.

    Raises:
        weir.engine.EngineError: interrupted.
    """
    first, *others = (name for name in papers.versions if methods.get(name).clock == "virtual")
    usable = {first, *(name for name in others if methods.get(name).available() is None)}
    known = {unit: state for unit, state in states(papers, scenarios, store).items() if unit.method in usable}
    drawn = _draw(_of(known, first), seed, packets)
    for method in others:
        drawn += _draw(_of(known, method), seed, 0)[:1]
    failures: list[str] = []
    for unit, cell in drawn:
        tell(f"{unit}: {cell}")
        failures += _different(known[unit], cell, papers)
    return Verified(tuple(f"{unit}: {cell}" for unit, cell in drawn), tuple(failures), tuple(_stale(known)))


def _of(known: Mapping[Unit, State], method: str) -> dict[Unit, State]:
    return {unit: state for unit, state in known.items() if unit.method == method}


def _draw(known: Mapping[Unit, State], seed: str, packets: int) -> list[tuple[Unit, str]]:
    candidates = [
        (unit, name, result.packets)
        for unit, state in sorted(known.items())
        for name, result in sorted(state.used.items())
        if name not in state.old
    ]
    random.Random(f"claims {seed}").shuffle(candidates)
    found: list[tuple[Unit, str]] = []
    of_units: Counter[Unit] = Counter()
    total = 0
    for unit, name, size in candidates:
        if size > _MAX_CELL_PACKETS or of_units[unit] == _MOST_OF_A_UNIT:
            continue
        of_units[unit] += 1
        total += size
        if found and total > packets:
            break
        found.append((unit, name))
    return found + [(unit, name) for unit, name, size in candidates if size > _MAX_CELL_PACKETS][:1]


def _different(state: State, name: str, papers: Papers) -> list[str]:
    held = state.used[name]
    now = _again(state, name, papers)
    place = f"{state.unit}: {name} ({', '.join(f'{k} = {v}' for k, v in held.factors.items())})"
    found = [
        f"{place}: {key} is {now.values[key]}, stored is {value}"
        for key, value in held.values.items()
        if key in now.values and now.values[key] != value
    ]
    found += [
        f"{place}: curve {key} differs" for key, value in held.drawn.items() if now.drawn.get(key, value) != value
    ]
    return found


def _again(state: State, name: str, papers: Papers) -> Result:
    scenario, unit = state.scenario, state.unit
    work = Work(unit, scenario, papers.recorded.get(unit.scenario), (), 1, {})
    needed = {name} | work.wanted.baselines(work.sweep[name])
    cells = tuple(cell for cell in scenario.cells() if cell.id in needed)
    planned = next(cell for cell in cells if cell.id == name)
    chosen = Chosen(scenario.title, scenario.text, scenario.file, cells, tuple(scenario.factors))
    with tempfile.TemporaryDirectory() as folder:
        engine.run(chosen, Path(folder) / "run", method=unit.method, workers=1)
        return result_of(work, planned, {cell.id: cell for cell in opened(Path(folder) / "run").cells})


def _stale(known: Mapping[Unit, State]) -> list[str]:
    return [
        f"{unit}: {len(state.old)} cells were executed with an earlier set-up; "
        f"`make claims ARGS='--only {unit.scenario} --version {unit.version} --method {unit.method}'` makes them anew"
        for unit, state in known.items()
        if state.old
    ]

"""``weir plan``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir._duration import estimate_text
from weir.cli import _errors
from weir.cli._capacity import capacities, show_capacities
from weir.cli._choice import show_methods
from weir.cli._common import console, emit_json, examples, json_option, json_text, plural, print_table, say
from weir.cli._factors import short_names, told_factors
from weir.cli._on import inventory_of, method_on, on_option, require_use
from weir.cli._remarks import print_remarks
from weir.cli._scenarios import complete_scenario, load, scenario_options

if TYPE_CHECKING:
    from weir.engine import Cell, Estimate
    from weir.methods import Method
    from weir.scenario import Version

__all__ = ["command"]

_EPILOG = examples(
    ("weir plan my.yaml", "cells, their time and memory, and the method that weir would choose"),
    ("weir plan my.yaml --cell 0003-r0", "the plan of one cell, as JSON"),
    ("weir plan my.yaml --method emul", "whether this machine can carry it in real time"),
)


@click.command(epilog=_EPILOG)
@click.argument("scenario", metavar="FILE|NAME", shell_complete=complete_scenario)
@scenario_options
@click.option("--cell", "cell_id", metavar="ID", help="Print the plan of this cell as JSON.")
@click.option("--method", metavar="NAME", help="Show this method. Default: compare all methods.")
@on_option
@click.option("--force", is_flag=True, help="Exit with 0 even if this machine cannot carry it.")
@json_option
def command(
    scenario: str,
    version: Version,
    overrides: tuple[str, ...],
    cell_id: str | None,
    method: str | None,
    on: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Show the cells of a scenario with estimates of packets, time and memory, without executing them.

    The times are those of --method. Without it they are the simulator's, empty for cells that it cannot execute, and a
    second table compares the methods.

    For a method in real time, the output says whether this machine can carry each cell. The command exits with 1 if it
    cannot.
    """
    from weir import methods

    cells = load(scenario, version=version, overrides=overrides).cells()
    on, _ = inventory_of(on, {})
    method = method or method_on(on)
    require_use(on, [method] if method else [])
    executor = methods.get(method or methods.DEFAULT, None if on is None else str(on))
    if cell_id is not None:
        say(json_text(_find(cells, cell_id).plan(), indent=None if as_json else 2))
    elif (found := capacities(executor, cells)) is not None:
        if not show_capacities(cells, found, as_json=as_json) and not force:
            raise click.exceptions.Exit(_errors.FAILED)
    else:
        _show_estimates(executor, cells, as_json=as_json, strict=method is not None)
        if method is None and not as_json:
            show_methods(cells)


def _show_estimates(executor: Method, cells: Sequence[Cell], *, as_json: bool, strict: bool) -> None:
    plans = [cell.plan() for cell in cells]
    outlooks = [_look(executor, plan, strict=strict) for plan in plans]
    if as_json:
        emit_json([_as_dict(cell, outlook) for cell, outlook in zip(cells, outlooks, strict=True)])
        return
    factors = list(cells[0].factors)
    values = [tuple(cell.factors.values()) for cell in cells]
    told = told_factors(factors, values)
    names = [short_names(column) for column in zip(*values, strict=True)]
    print_table(
        (
            "cell",
            *(factors[i] for i in told),
            "flows",
            "simulated" if executor.clock == "virtual" else "measured",
            "packets",
            "time",
            "memory",
        ),
        [
            (cell.id, *(names[i][own[i]] for i in told), *_shown(outlook))
            for cell, own, outlook in zip(cells, values, outlooks, strict=True)
        ],
        right=range(1 + len(told), 6 + len(told)),
    )
    packets = sum(outlook.estimate.packets for outlook in outlooks)
    seconds = [outlook.seconds for outlook in outlooks if outlook.seconds is not None]
    total = estimate_text(sum(seconds) + (executor.besides_s(plans) if seconds else 0.0))
    about = f"about {total} of method {executor.name}{' on one processor' if executor.clock == 'virtual' else ''}"
    if len(seconds) < len(cells):
        about = f"the time of {plural(len(cells) - len(seconds), 'cell')} by method {executor.name} is unknown"
    console().print()
    console().print(f"{plural(len(cells), 'cell')}, at most {packets:.2g} packets: {about}")
    print_remarks(executor, plans)


@dataclass(frozen=True)
class _Outlook:
    """The estimate for a cell."""

    estimate: Estimate
    seconds: float | None
    """Wall time of the method; ``None`` if unknown."""
    memory_bytes: int


def _look(executor: Method, plan: dict[str, Any], *, strict: bool) -> _Outlook:
    """The estimate of ``executor`` for ``plan``; without a time if it cannot execute it.

    Raises:
        weir.methods.UnfitMethodError: it cannot execute it, and ``strict`` is set.
    """
    from weir.engine import estimate
    from weir.methods import UnfitMethodError

    found = estimate(plan)
    if (why := executor.obstacle(plan)) is not None:
        if not strict:
            return _Outlook(found, None, found.memory_bytes)
        raise UnfitMethodError(f"method {executor.name!r} cannot execute this: {why}")
    memory = executor.memory_bytes(plan)
    return _Outlook(found, executor.foreseen_s(plan, found.packets), found.memory_bytes if memory is None else memory)


def _find(cells: Sequence[Cell], cell_id: str) -> Cell:
    for cell in cells:
        if cell.id == cell_id:
            return cell
    few = ", ".join(cell.id for cell in cells[:5])
    raise click.BadParameter(f"no cell {cell_id!r}; there are {few}{', ...' if len(cells) > 5 else ''}")


def _as_dict(cell: Cell, outlook: _Outlook) -> dict[str, Any]:
    return {
        "id": cell.id,
        "factors": dict(cell.factors),
        "repeat": cell.repeat,
        "flows": outlook.estimate.flows,
        "simulated_s": outlook.estimate.end_s,
        "packets": outlook.estimate.packets,
        "seconds": None if outlook.seconds is None else round(outlook.seconds, 3),
        "memory_bytes": outlook.memory_bytes,
    }


def _shown(outlook: _Outlook) -> tuple[str, ...]:
    return (
        str(outlook.estimate.flows),
        f"{outlook.estimate.end_s:g} s",
        f"{outlook.estimate.packets:.2g}",
        "?" if outlook.seconds is None else estimate_text(outlook.seconds),
        f"{outlook.memory_bytes / 1e6:.0f} MB",
    )

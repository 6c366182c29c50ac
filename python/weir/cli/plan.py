"""``weir plan``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from weir.cli import _errors
from weir.cli._capacity import show_capacity
from weir.cli._choice import show_methods
from weir.cli._common import console, emit_json, examples, json_option, json_text, plural, print_table, say
from weir.cli._scenarios import complete_scenario, load, scenario_options

if TYPE_CHECKING:
    from weir.engine import Cell, Estimate
    from weir.scenario import Version

__all__ = ["command"]

_EPILOG = examples(
    ("weir plan my.yaml", "cells, what they would take, and which method would be chosen"),
    ("weir plan my.yaml --cell 0003-r0", "the plan of one cell, as JSON"),
    ("weir plan my.yaml --method emul", "whether this machine carries it in real time"),
)
_PACKETS_PER_S = 5e6
"""Order of magnitude of the simulator's speed, for a first idea only; `make bench` measures it."""


@click.command(epilog=_EPILOG)
@click.argument("scenario", metavar="FILE|NAME", shell_complete=complete_scenario)
@scenario_options
@click.option("--cell", "cell_id", metavar="ID", help="Print the plan of this cell.")
@click.option("--method", metavar="NAME", help="What would execute it; without, all methods are compared.")
@click.option("--force", is_flag=True, help="What this machine does not carry is no failure.")
@json_option
def command(
    scenario: str,
    version: Version,
    overrides: tuple[str, ...],
    cell_id: str | None,
    method: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Show the cells of a scenario with estimates of packets, time and memory; nothing is executed.

    For a method with a real clock: whether this machine carries each cell, with 1 as exit code if it does not.
    """
    from weir import methods

    cells = load(scenario, version=version, overrides=overrides).cells()
    executor = methods.get(method or "sim")
    if cell_id is not None:
        say(json_text(_find(cells, cell_id).plan(), indent=None if as_json else 2))
    elif isinstance(executor, methods.Sized):
        if not show_capacity(executor, cells, as_json=as_json) and not force:
            raise click.exceptions.Exit(_errors.FAILED)
    else:
        _show_estimates(cells, as_json=as_json)
        if method is None and not as_json:
            show_methods(cells)


def _show_estimates(cells: Sequence[Cell], *, as_json: bool) -> None:
    from weir.engine import estimate

    estimates = [estimate(cell.plan()) for cell in cells]
    if as_json:
        emit_json([_as_dict(cell, e) for cell, e in zip(cells, estimates, strict=True)])
        return
    factors = list(cells[0].factors)
    print_table(
        ("cell", *factors, "flows", "simulated", "packets", "time", "memory"),
        [(cell.id, *cell.factors.values(), *_shown(e)) for cell, e in zip(cells, estimates, strict=True)],
        right=range(1 + len(factors), 6 + len(factors)),
    )
    packets = sum(e.packets for e in estimates)
    about = _span(packets / _PACKETS_PER_S)
    console().print()
    console().print(f"{plural(len(cells), 'cell')}, at most {packets:.2g} packets: about {about} on one processor")


def _find(cells: Sequence[Cell], cell_id: str) -> Cell:
    for cell in cells:
        if cell.id == cell_id:
            return cell
    few = ", ".join(cell.id for cell in cells[:5])
    raise click.BadParameter(f"no cell {cell_id!r}; there are {few}{', ...' if len(cells) > 5 else ''}")


def _as_dict(cell: Cell, e: Estimate) -> dict[str, Any]:
    return {
        "id": cell.id,
        "factors": dict(cell.factors),
        "repeat": cell.repeat,
        "flows": e.flows,
        "simulated_s": e.end_s,
        "packets": e.packets,
        "memory_bytes": e.memory_bytes,
    }


def _shown(e: Estimate) -> tuple[str, ...]:
    return (
        str(e.flows),
        f"{e.end_s:g} s",
        f"{e.packets:.2g}",
        _span(e.packets / _PACKETS_PER_S),
        f"{e.memory_bytes / 1e6:.0f} MB",
    )


def _span(seconds: float) -> str:
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"

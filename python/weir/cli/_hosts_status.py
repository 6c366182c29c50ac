"""``weir hosts status``: what is reserved, and how far a run is."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli._common import console, emit_json, examples, json_option, plural, print_table
from weir.cli._hosts_reserve import show_reserved

if TYPE_CHECKING:
    from weir.stages.tasks import Task

__all__ = ["status"]


@click.command(
    epilog=examples(
        ("weir hosts status", "all reservations of weir's on this account"),
        ("weir hosts status grid.yaml", "those that are kept for this inventory"),
        ("weir hosts status runs/my", "the stages of a run: done, active, failed, interrupted"),
    )
)
@click.argument("inventory", metavar="[INVENTORY|DIR]", required=False, type=click.Path(path_type=Path))
@json_option
def status(inventory: Path | None, as_json: bool) -> None:
    """Show what is reserved: nodes, state in the scheduler's words, time that is left. Or how far a run is.

    Asks each scheduler. Reservations of active runs are shown as well, if no INVENTORY is named. DIR is the folder of a
    run on machines; nothing is asked for it.
    """
    if inventory is not None and inventory.is_dir():
        _show_run(inventory, as_json)
    else:
        show_reserved(inventory, as_json)


def _show_run(run: Path, as_json: bool) -> None:
    from weir.engine import in_use
    from weir.stages import tasks

    try:
        found = tasks.read(run)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="DIR") from error
    active = in_use(run)
    rows = [(task, "interrupted" if task.state == "active" and not active else task.state) for task in found]
    complete = len(list(run.glob("cells/*/manifest.json"))) - len(_partial(run))
    if as_json:
        listed = [{**asdict(task), "state": state} for task, state in rows]
        emit_json({"tasks": listed, "active": active, "complete_cells": complete})
        return
    if not found:
        console().print(f"{run} has no tasks: it is no run on machines, or has not begun")
        return
    print_table(("stage", "state", "since", "cell", "nodes", "what"), [_row(task, state) for task, state in rows])
    how = "is active" if active else "is not active; the command that made it continues it where cells are missing"
    console().print(f"{plural(complete, 'cell')} complete; the run {how}")
    stages = {task.stage for task, state in rows if state != "interrupted" or task.stage != "clean"}
    if not active and stages & tasks.CHANGES and "clean" not in stages:
        console().print(
            "its process ended before the stage clean: the nodes restore themselves, at the latest 20 s later; "
            "`weir clean --on INVENTORY --dry-run` lists what is left"
        )


def _partial(run: Path) -> list[Path]:
    """The cells that ended before their plan."""
    import json

    found = []
    for file in run.glob("cells/*/manifest.json"):
        try:
            if "key" not in json.loads(file.read_bytes()):
                found.append(file)
        except (ValueError, TypeError):
            found.append(file)
    return found


def _row(task: Task, state: str) -> tuple[str, ...]:
    nodes = "" if not task.nodes else task.nodes[0] if len(task.nodes) == 1 else f"{task.nodes[0]} ... {task.nodes[-1]}"
    what = task.error or (plural(task.cells, "cell") if task.cells else "")
    return task.stage, state, task.since, task.cell or "", nodes, what

"""``weir hosts``."""

from __future__ import annotations

import click

from weir.cli import _hosts_check, _hosts_reserve, _hosts_show, _hosts_stages, _hosts_status
from weir.cli._common import examples

__all__ = ["command"]

_EPILOG = examples(
    ("weir hosts show grid.yaml --out grid.svg", "a picture of an inventory"),
    ("weir hosts check grid.yaml", "ask every node of an inventory what it is"),
    ("weir hosts reserve grid.yaml", "reserve the nodes of an inventory"),
    ("weir hosts status", "what is reserved"),
    ("weir hosts status runs/my", "what a run has done, and what it does"),
    ("weir hosts release grid.yaml", "give them back"),
    ("weir hosts archive runs/my", "a run as one file"),
    ("weir hosts clean grid.yaml", "undo what lost experiments changed"),
)


@click.group(epilog=_EPILOG)
def command() -> None:
    """Use real machines: an inventory says which, how they are reached and how they are reserved."""


_COMMANDS = (
    _hosts_show.show,
    _hosts_check.check,
    _hosts_reserve.reserve,
    _hosts_reserve.release,
    _hosts_status.status,
    _hosts_stages.deploy,
    _hosts_stages.configure,
    _hosts_stages.collect,
    _hosts_stages.archive,
    _hosts_stages.clean,
)
for _each in _COMMANDS:
    command.add_command(_each)

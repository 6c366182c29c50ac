"""The option ``--on``: the inventory of the machines on which a method executes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from weir.engine import Cell

__all__ = ["inventory_of", "method_on", "obstacles", "on_option", "require_use"]

_SETTING = "on"

on_option = click.option(
    "--on",
    metavar="INVENTORY",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Machines on which it is executed, over SSH (docs/hosts.md).",
)


def inventory_of(on: Path | None, settings: Mapping[str, Any]) -> tuple[Path | None, dict[str, Any]]:
    """The inventory that the user named, or that of the run with ``settings``; and the settings without it.

    Raises:
        weir.inventory.InventoryError: it is wrong.
    """
    from weir import inventory

    rest = {name: value for name, value in settings.items() if name != _SETTING}
    if on is None and isinstance(settings.get(_SETTING), str):
        on = Path(settings[_SETTING])
    if on is not None:
        inventory.load(on)
    return on, rest


def method_on(on: Path | None) -> str | None:
    """The method that takes an inventory, if there is one to take."""
    from weir import methods

    if on is None:
        return None
    known = ((name, methods.registered(name)) for name in methods.names())
    return next((name for name, method in known if method is not None and method.takes_inventory), None)


def require_use(on: Path | None, names: Sequence[str]) -> None:
    """Refuses an inventory that no method would use, and a method without one.

    Raises:
        click.UsageError: so it is.
    """
    from weir import methods

    taking = [name for name in names if methods.get(name).takes_inventory]
    if on is not None and not taking:
        raise click.UsageError(f"--on: method {', '.join(names)} runs on this machine, and takes no inventory")
    if on is None and taking:
        raise click.UsageError(f"method {taking[0]} needs machines: name their inventory, --on INVENTORY")


def obstacles(cells: Sequence[Cell], on: Path | None) -> Iterator[str]:
    """Why ``cells`` cannot be executed on the machines of the inventory ``on``, each reason once."""
    from weir import methods

    name = method_on(on)
    if name is None:
        return
    method = methods.get(name, str(on))
    found = (why for cell in cells if (why := method.obstacle(cell.plan())) is not None)
    yield from (f"on {on}: {why}" for why in dict.fromkeys(found))

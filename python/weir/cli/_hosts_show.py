"""``weir hosts show``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli._common import emit_json, examples, json_option, print_table, say

if TYPE_CHECKING:
    from weir.inventory import Inventory

__all__ = ["show"]

_EPILOG = examples(
    ("weir hosts show grid.yaml", "its sets, connections and roles"),
    ("weir hosts show grid.yaml --out grid.svg", "and a picture of them; also .pdf and .png"),
)
_FORMATS = (".svg", ".pdf", ".png")


@click.command(epilog=_EPILOG)
@click.argument("inventory", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Draw a picture: .svg, .pdf or .png.")
@json_option
def show(inventory: Path, out: Path | None, as_json: bool) -> None:
    """Show an inventory as weir reads it, without asking any node."""
    from dataclasses import asdict

    from weir.inventory import load
    from weir.language import show_duration, show_rate

    machines = load(inventory)
    if out is not None:
        _draw(machines, out)
    if as_json:
        emit_json(
            {
                "inventory": machines.file,
                "network": machines.network,
                "sets": {
                    alias: {
                        "nodes": [asdict(node) for node in each.nodes],
                        "size": each.size,
                        "reserve": None if each.reserve is None else asdict(each.reserve),
                    }
                    for alias, each in machines.sets.items()
                },
                "connections": [asdict(connection) for connection in machines.connections],
                "roles": {role.name: [str(part) for part in role.parts] for role in machines.roles},
            }
        )
        return
    rows = [
        (
            each.alias,
            str(each.size),
            show_rate(each.rate_bps) if each.rate_bps else "",
            each.template.interface or "",
            f"reserved by {each.reserve.by}" if each.reserve is not None else _first_and_last(machines, each.alias),
            ", ".join(
                f"{role.name}: {part}" for role in machines.roles for part in role.parts if part.set == each.alias
            ),
        )
        for each in machines.sets.values()
    ]
    print_table(("set", "nodes", "rate", "interface", "which", "roles"), rows, right=(1, 2))
    for connection in machines.connections:
        words = [
            *([show_rate(connection.rate_bps)] if connection.rate_bps is not None else []),
            *([f"RTT {show_duration(connection.rtt_ns)}"] if connection.rtt_ns is not None else []),
        ]
        say(f"{' - '.join(connection.between)}: {', '.join(words) or 'connected'}")
    if out is not None:
        say(f"drew {out}")


def _roles(machines: Inventory, alias: str) -> str:
    return ", ".join(f"{role.name}: {part}" for role in machines.roles for part in role.parts if part.set == alias)


def _first_and_last(machines: Inventory, alias: str) -> str:
    nodes = machines.sets[alias].nodes
    return nodes[0].name if len(nodes) == 1 else f"{nodes[0].name} ... {nodes[-1].name}"


def _draw(machines: Inventory, out: Path) -> None:
    """Writes the picture.

    Raises:
        click.BadParameter: the name of the file has another end than that of a format.
        OSError: it cannot be written.
    """
    from weir.report.machines import draw

    kind = out.suffix.lower()
    if kind not in _FORMATS:
        raise click.BadParameter(
            f"{out.name}: expected a name that ends with {', '.join(_FORMATS)}", param_hint="--out"
        )
    svg = draw(machines)
    if kind == ".svg":
        out.write_text(svg, encoding="utf-8")
        return
    import vl_convert

    out.write_bytes(vl_convert.svg_to_pdf(svg) if kind == ".pdf" else vl_convert.svg_to_png(svg, scale=3))

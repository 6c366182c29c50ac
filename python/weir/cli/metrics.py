"""``weir metrics``."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import click

from weir.cli._common import console, emit_json, examples, json_option, print_table

if TYPE_CHECKING:
    from weir.metrics import MetricInfo

__all__ = ["command"]

_EPILOG = examples(
    ("weir metrics", "list all metrics"),
    ("weir metrics --category fairness", "list one category"),
    ("weir metrics jain", "describe one metric: formula, unit, source and parameters"),
)


def _complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from weir.metrics import names

    return [name for name in names() if name.startswith(incomplete)]


@click.command(epilog=_EPILOG)
@click.argument("name", required=False, shell_complete=_complete)
@click.option("--category", metavar="NAME", help="List only this category.")
@json_option
def command(name: str | None, category: str | None, as_json: bool) -> None:
    """List the metrics, or describe one: formula, unit, category, interested party and source."""
    from weir.metrics import Category, catalogue, get

    if category is not None and category not in set(Category):
        raise click.BadParameter(f"{category!r} is none of {', '.join(Category)}", param_hint="--category")
    infos = [get(name)] if name is not None else [i for i in catalogue() if category in (None, i.category)]
    if as_json:
        emit_json([_as_dict(info) for info in infos])
    elif name is not None:
        _describe(infos[0])
    else:
        rows = [(i.name, i.category.value, i.unit, i.summary) for i in infos]
        print_table(("metric", "category", "unit", "what it is"), rows, styles=("bold",))


def _as_dict(info: MetricInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "symbol": info.symbol,
        "formula": info.formula,
        "unit": info.unit,
        "category": info.category.value,
        "scope": info.scope,
        "kind": info.kind,
        "views": [view.value for view in info.views],
        "source": info.source,
        "params": [{"name": p.name, "unit": p.unit, "default": p.default, "doc": p.doc} for p in info.params],
        "tables": list(info.tables),
        "doc": info.doc,
    }


def _describe(info: MetricInfo) -> None:
    out = console()
    out.print(info.name, style="bold")
    facts = {
        "formula": info.formula,
        "unit": info.unit,
        "category": info.category.value,
        "one value": f"a {info.scope} ({info.kind})",
        "asked by": ", ".join(view.value for view in info.views),
        "source": info.source,
        "tables": ", ".join(info.tables),
    }
    for label, value in facts.items():
        out.print(f"  {label:<10} {value}")
    for param in info.params:
        default = "required" if param.required else f"default {param.default}"
        out.print(f"  {'parameter':<10} {param.name} ({param.unit}, {default}): {param.doc}")
    out.print()
    for paragraph in info.doc.split("\n\n"):
        out.print(textwrap.indent(paragraph, "  "))
        out.print()

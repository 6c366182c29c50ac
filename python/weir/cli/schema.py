"""``weir schema``."""

from __future__ import annotations

import click

from weir.cli._common import examples, json_option, say

__all__ = ["command", "inventory_schema", "scenario_schema"]

_EPILOG = examples(
    ("weir schema", "every table of a run"),
    ("weir schema samples", "one table"),
    ("weir schema scenario > scenario.schema.json", "the JSON schema of scenarios, for your editor"),
    ("weir schema inventory", "the JSON schema of inventories of machines"),
    ("weir schema plan", "the JSON schema of plans, which methods execute"),
)


@click.command(epilog=_EPILOG)
@click.argument("name", metavar="[TABLE|inventory|plan|scenario]", required=False)
@json_option
def command(name: str | None, as_json: bool) -> None:
    """Print the columns of a run's tables, or the JSON schema of a plan, a scenario or an inventory."""
    if name in _SCHEMAS:
        say(_SCHEMAS[name](), end="")
        return
    from weir.run import TABLES, describe_tables

    if name is not None and name not in TABLES:
        raise click.BadParameter(f"no table {name!r}; there are {', '.join(TABLES)}, inventory, plan and scenario")
    names = None if name is None else [name]
    say(describe_tables(names, "json" if as_json else "text"), end="")


def _plan_schema() -> str:
    from weir import _weir

    return _weir.plan_schema()


def scenario_schema() -> str:
    """The JSON schema of scenarios, as text."""
    import json

    from weir.scenario import schema

    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def inventory_schema() -> str:
    """The JSON schema of inventories, as text."""
    import json

    from weir.inventory import schema

    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


_SCHEMAS = {"inventory": inventory_schema, "plan": _plan_schema, "scenario": scenario_schema}

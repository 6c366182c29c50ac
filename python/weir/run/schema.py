"""The output of ``weir schema``: the tables of a run, as text, Markdown or JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable
from typing import Literal

from weir.run.tables import TABLES, Column, Table

__all__ = ["describe_tables"]


def describe_tables(names: Iterable[str] | None = None, format: Literal["text", "markdown", "json"] = "text") -> str:  # noqa: A002
    """Describes the tables ``names`` (all of them if ``None``): columns, Arrow types and meaning.

    Raises:
        KeyError: no such table.
        ValueError: no such format.
    """
    tables = [TABLES[name] for name in (TABLES if names is None else names)]
    if format == "json":
        return json.dumps({table.name: _as_json(table) for table in tables}, indent=2) + "\n"
    if format not in ("text", "markdown"):
        raise ValueError(f"no format {format!r}; expected text, markdown or json")
    render = _as_markdown if format == "markdown" else _as_text
    return "\n".join(render(table) for table in tables)


def _type(column: Column) -> str:
    return str(column.type) + (" or null" if column.nullable else "")


def _as_json(table: Table) -> dict[str, object]:
    return {
        "doc": table.doc,
        "columns": [{"name": c.name, "type": str(c.type), "nullable": c.nullable, "doc": c.doc} for c in table.columns],
    }


def _as_markdown(table: Table) -> str:
    rows = [f"| `{c.name}` | {_type(c)} | {c.doc} |" for c in table.columns]
    return "\n".join(
        [f"### `{table.name}`", "", table.doc, "", "| column | type | meaning |", "|---|---|---|", *rows, ""]
    )


def _as_text(table: Table) -> str:
    width = max(len(c.name) for c in table.columns)
    lines = [table.name, textwrap.fill(table.doc, 110, initial_indent="  ", subsequent_indent="  "), ""]
    for column in table.columns:
        lines.append(f"  {column.name:<{width}}  {_type(column)}")
        lines.append(
            textwrap.fill(column.doc, 110, initial_indent=" " * (width + 4), subsequent_indent=" " * (width + 4))
        )
    return "\n".join([*lines, ""])

"""Runs: the folder that a method writes and that all later steps read.

``open_run`` returns a :class:`Run`; ``tables`` documents the columns; ``schema`` prints them. This package computes no
metric (see ``weir.metrics``) and writes nothing.

The reader is loaded on first use, because it needs Polars: the processes that execute cells read nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weir.run.errors import DamageError, ReadError, RunError
from weir.run.plan import Flow, Link, Phase, Plan
from weir.run.schema import describe_tables
from weir.run.tables import TABLES, Column, Table, arrow_schema

if TYPE_CHECKING:
    from weir.run.reader import Cell, Run, RunWarning, open_cell, open_run

__all__ = [
    "TABLES",
    "Cell",
    "Column",
    "DamageError",
    "Flow",
    "Link",
    "Phase",
    "Plan",
    "ReadError",
    "Run",
    "RunError",
    "RunWarning",
    "Table",
    "arrow_schema",
    "describe_tables",
    "open_cell",
    "open_run",
]

_READER = frozenset({"Cell", "Run", "RunWarning", "open_cell", "open_run"})


def __getattr__(name: str) -> Any:
    if name in _READER:
        from weir.run import reader

        return getattr(reader, name)
    raise AttributeError(f"module 'weir.run' has no attribute {name!r}")

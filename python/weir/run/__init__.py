"""Runs: the folder that a method writes and that all later steps read.

``open_run`` returns a :class:`Run`; ``tables`` documents the columns; ``schema`` prints them. This package computes no
metric (see ``weir.metrics``) and writes nothing.
"""

from __future__ import annotations

from weir.run.errors import DamageError, ReadError, RunError
from weir.run.plan import Flow, Link, Phase, Plan
from weir.run.reader import Cell, Run, RunWarning, open_cell, open_run
from weir.run.schema import describe_tables
from weir.run.tables import TABLES, Column, Table, arrow_schema

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

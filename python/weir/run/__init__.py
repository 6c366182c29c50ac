"""Runs: the folder that a method writes and that everything after it reads.

``open_run`` gives a :class:`Run`; ``tables`` documents the columns; ``schema`` prints them. Nothing here computes a
metric (see ``weir.metrics``) and nothing writes.
"""

from __future__ import annotations

from weir.run.errors import DamageError, ReadError, RunError
from weir.run.plan import Flow, Link, Phase, Plan
from weir.run.reader import Cell, MetricOptions, Run, RunWarning, open_cell, open_run
from weir.run.schema import describe_tables
from weir.run.tables import TABLES, Column, Table, arrow_schema

__all__ = [
    "TABLES",
    "Cell",
    "Column",
    "DamageError",
    "Flow",
    "Link",
    "MetricOptions",
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

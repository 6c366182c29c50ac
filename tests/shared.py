"""The command line, a small scenario, and what a method makes of it, for the tests of every folder."""

from __future__ import annotations

import io
import json
import os
import sys
from collections import defaultdict
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pytest

from weir import _terminal, methods, scenario
from weir.cli import main as entry

ROOT = Path(__file__).parent.parent


# The command line ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """What it printed with ``--json``."""
        found: dict[str, Any] = json.loads(self.out)
        return found


Weir = Callable[..., Ran]
"""Runs the command line, as a user would see it."""


def forget_consoles() -> None:
    """A console keeps the standard output that it was made with."""
    _terminal.console.cache_clear()
    _terminal.error_console.cache_clear()


def called(*arguments: object) -> Ran:
    """``called("schema", "plan")`` runs ``weir schema plan`` in this process."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["weir", *map(str, arguments)])
        forget_consoles()
        with pytest.raises(SystemExit) as ended:
            entry()
        forget_consoles()
    return Ran(ended.value.code if isinstance(ended.value.code, int) else 0, out.getvalue(), err.getvalue())


def argv(*arguments: str) -> list[str]:
    """``weir`` with these arguments, for a process of its own."""
    return [sys.executable, "-m", "weir.cli", *arguments]


def environment(*folders: Path, **more: str) -> dict[str, str]:
    """The environment of a process that finds the package, and modules in ``folders``."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "python", *folders))), **more}


# Scenarios -----------------------------------------------------------------------------------------------------------

_DUMBBELL = """\
title: {title}
source: a test
seed: 1
topology:
  dumbbell:
    pairs: {pairs}
    access: {{{access}}}
    bottleneck: {{{bottleneck}}}
    rtt: {rtt}
transport: {{{transport}}}
workload:
  - {{{workload}}}
measure: {{{measure}}}
"""
_TINY = {
    "title": "Tiny",
    "pairs": 2,
    "access": "rate: 100Mbps, clocks: 0.01%",
    "bottleneck": "rate: 5Mbps, queue: 30packets",
    "rtt": "20ms",
    "transport": "cc: reno",
    "workload": "name: flows, between: pairs, kind: bulk, until: 3s",
    "measure": "goodput: 500ms, tcp: 50ms, links: 50ms",
}


def dumbbell(more: str = "", **values: object) -> str:
    """A scenario of bulk flows over a dumbbell, other ``values`` in its places, and the sections ``more``."""
    return _DUMBBELL.format(**{**_TINY, **values}) + more


def plan_of(text: str) -> dict[str, Any]:
    """The plan of the first cell of a scenario."""
    return scenario.parse(text).cells()[0].plan()


class Memory:
    """A sink that keeps everything."""

    def __init__(self) -> None:
        self.batches: defaultdict[str, list[pa.RecordBatch]] = defaultdict(list)
        self.files: dict[str, io.BytesIO] = {}

    def write(self, table: str, rows: pa.RecordBatch) -> None:
        self.batches[table].append(rows)

    def open(self, name: str) -> BinaryIO:
        return self.files.setdefault(name, io.BytesIO())

    def table(self, name: str) -> pa.Table:
        return pa.Table.from_batches(self.batches[name]).unify_dictionaries().combine_chunks()

    def columns(self, name: str) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = self.table(name).to_pydict()
        return columns

    def text(self, name: str) -> str:
        return self.files[name].getvalue().decode()


def execute(method: str, plan: dict[str, Any]) -> tuple[Memory, methods.Outcome]:
    """``plan`` executed by ``method``: its tables and what it said."""
    sink = Memory()
    return sink, methods.get(method).execute(json.dumps(plan), sink, lambda *_: None)

"""Helpers for tests of every folder: the command line, a small scenario, and the execution of a plan by a method."""

from __future__ import annotations

import functools
import io
import json
import math
import os
import socket
import sys
import threading
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
from weir.cli._scenarios import catalogue_files
from weir.run import checksums
from weir.run.checksums import FORMAT

ROOT = Path(__file__).parent.parent


# The command line ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ran:
    """The result of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """Its output with ``--json``, parsed."""
        found: dict[str, Any] = json.loads(self.out)
        return found


Weir = Callable[..., Ran]
"""Runs the command line like a user."""


def forget_consoles() -> None:
    """Discards the consoles: they keep the standard output of their creation."""
    _terminal.console.cache_clear()
    _terminal.error_console.cache_clear()


def called(*arguments: object) -> Ran:
    """``called("schema", "plan")`` runs ``weir schema plan`` in this process."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["weir", *map(str, arguments)])
        # A run that takes long says now and then how far it is: what is printed would depend on the machine.
        patch.setattr("weir.engine._display._LINE_EVERY_S", math.inf)
        patch.setattr("weir.cli.run._LONG_S", threading.TIMEOUT_MAX)
        forget_consoles()
        with pytest.raises(SystemExit) as ended:
            entry()
        forget_consoles()
    return Ran(ended.value.code if isinstance(ended.value.code, int) else 0, out.getvalue(), err.getvalue())


def argv(*arguments: str) -> list[str]:
    """``weir`` with these arguments, for a separate process."""
    return [sys.executable, "-m", "weir.cli", *arguments]


def environment(*folders: Path, **more: str) -> dict[str, str]:
    """The environment of a process that can import the package, and modules in ``folders``."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "python", *folders))), **more}


# Runs ----------------------------------------------------------------------------------------------------------------


def seal_cell(folder: Path) -> dict[str, Any]:
    """Adds checksums to a hand-written cell manifest, as a run of weir does; returns the manifest."""
    manifest = folder / "manifest.json"
    names = [str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and p != manifest]
    return _sealed(manifest, {"format": FORMAT, **json.loads(manifest.read_text())}, names)


def seal_run(folder: Path) -> Path:
    """Adds checksums to a run and its cells; returns the folder."""
    sealed = {cell.parent.name: seal_cell(cell.parent) for cell in sorted(folder.glob("cells/*/manifest.json"))}
    manifest = folder / "manifest.json"
    if manifest.exists():
        found = json.loads(manifest.read_text())
        for cell in found["cells"]:
            if cell["id"] in sealed:
                cell["checksum"] = sealed[cell["id"]]["checksums"]["manifest"]
        names = ["scenario.yaml"] if (folder / "scenario.yaml").exists() else []
        _sealed(manifest, {**found, "format": FORMAT}, names)
    return folder


def forget_checksums(folder: Path) -> None:
    """Removes checksums, as in a run of an older version."""
    for file in (*folder.glob("cells/*/manifest.json"), folder / "manifest.json"):
        document = json.loads(file.read_text())
        document.pop("checksums")
        document["format"] = 1
        for cell in document.get("cells", ()):
            cell.pop("checksum", None)
        file.write_text(json.dumps(document))


def _sealed(file: Path, content: dict[str, Any], names: list[str]) -> dict[str, Any]:
    sealed = checksums.seal(content, file.parent, names)
    file.write_text(json.dumps(sealed))
    return sealed


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
    """A scenario of bulk flows over a dumbbell, with ``values`` for its fields, and the sections ``more``."""
    return _DUMBBELL.format(**{**_TINY, **values}) + more


_CHANGING = """
title: A bottleneck that changes
topology:
  dumbbell:
    pairs: 2
    access: {{rate: {access}}}
    bottleneck: {{rate: 20Mbps, queue: {queue}}}
    rtt: 10ms
workload:
  - {{name: af, kind: cbr, between: "pairs[0]", rate: {each}, dscp: af11}}
  - {{name: be, kind: cbr, between: "pairs[1]", rate: {each}}}
duration: 4s
changes:
  - {{at: 2s, link: bottleneck, {change}}}
measure: {{links: 100ms}}
"""


def changing(queue: str, change: str, access: str = "100Mbps", each: str = "19Mbps") -> str:
    """A scenario of two constant rates through a link of 20 Mb/s with ``queue``, which changes after 2 of 4 s."""
    return _CHANGING.format(queue=queue, change=change, access=access, each=each)


_MARKING = """
title: Random marks
topology:
  dumbbell:
    pairs: 2
    access: {{rate: 100Mbps}}
    bottleneck: {{rate: {rate}, queue: {{marks: {{size: 1000packets, p: {p}}}}}}}
    rtt: 10ms
transport: {{cc: dctcp}}
workload:
  - {{name: capable, kind: bulk, between: "pairs[0]", transport: {{ecn: true}}, until: {until}}}
  - {{name: other, kind: cbr, between: "pairs[1]", rate: 4Mbps, until: {until}}}
measure: {{goodput: 1s, tcp: 1s, links: 1s}}
"""


def marking(p: float = 0.1, rate: str = "20Mbps", until: str = "3s") -> str:
    """A flow of DCTCP and one of UDP, which has no ECN, through a queue that marks at random."""
    return _MARKING.format(p=p, rate=rate, until=until)


def marks_of(sink: Memory, plan: dict[str, Any]) -> tuple[int, int]:
    """The packets that the bottleneck marked, and those that the flow with ECN sent."""
    links = sink.columns("links")
    marked = sum(
        marks
        for link, marks in zip(links["link"], links["mark_packets"], strict=True)
        if plan["links"][link]["name"] == "bottleneck"
    )
    flows = sink.columns("flows")
    return marked, dict(zip(flows["flow"], flows["sent_packets"], strict=True))[0]


def assert_share(found: tuple[int, int], p: float) -> None:
    """Five standard errors of a binomial count: a fair draw fails once in two million seeds."""
    marked, packets = found
    assert abs(marked - p * packets) < 5 * math.sqrt(p * (1 - p) * packets), f"{marked} of {packets} are marked"


@functools.cache
def of_catalogue(name: str) -> scenario.Scenario:
    """A scenario of the catalogue, loaded once for all tests of a process."""
    return scenario.load(catalogue_files()[name])


def plan_of(text: str) -> dict[str, Any]:
    """The plan of the first cell of a scenario."""
    return scenario.parse(text).cells()[0].plan()


class Memory:
    """A sink that keeps everything in memory."""

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
    """Executes ``plan`` by ``method``; returns its tables and outcome."""
    sink = Memory()
    return sink, methods.get(method).execute(json.dumps(plan), sink, lambda *_: None)


_SOCK_DCCP, _IPPROTO_DCCP = 6, 33


def has_dccp() -> bool:
    """Whether this kernel has DCCP."""
    try:
        socket.socket(socket.AF_INET, _SOCK_DCCP, _IPPROTO_DCCP).close()
    except OSError:
        return False
    return True

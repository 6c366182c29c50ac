"""Executes the catalogue's real-time versions by several methods, among them ``hosts`` on test beds of this machine:

    sudo .venv/bin/python benches/catalogue_hosts.py --table catalogue-hosts.md           all scenarios, an hour
    sudo .venv/bin/python benches/catalogue_hosts.py demo E6/completion-time --times 1    two of them
    sudo .venv/bin/python benches/catalogue_hosts.py examples/my.yaml                     a scenario of one's own
    sudo .venv/bin/python benches/catalogue_hosts.py E2/congestion-collapse --emulator    with its own topology

For each cell, the links of its plan say what test bed it needs: the rate, the queue, the round-trip time and the losses
of the bottleneck, the rate of the hosts' links. Its nodes send segments of TCP one by one, or in trains, as ``emul``
would (``methods.emul.offload``). Cells that need the same one are executed there, one test bed after the other.
With ``--emulator``, one test bed serves all cells: a node between the others is the network of each cell's plan,
whatever its topology. Methods with a real clock take turns, ``--times`` times, so that load of the machine meets all of
them.

It prints the verdict of each claim by each method; ``--table`` writes a page with them, and replaces only the rows of
the scenarios that are named where the page exists. Runs are kept below ``--out``,
and the same command continues after an interruption; executions that an earlier call made beyond ``--times`` count too.
Exits with 1 if a claim holds by one method and fails by another.
It needs root and a server of OpenSSH; a test bed has up to 42 nodes.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import platform
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import weir
from weir import scenario, testbed
from weir.cli._scenarios import catalogue_files
from weir.hosts.rates import packets_alone, packets_per_s
from weir.methods._document import plan_of
from weir.metrics.expect import Verdict, evaluate
from weir.run import Run
from weir.scenario import Cell, Scenario

METHODS = ("sim", "emul", "hosts")
ONCE = ("sim",)
"""Methods whose results do not depend on the machine's load: one execution is enough."""
BED = "catalogue"
_INTERFACE = "weir0"
"""Of the experiment, in each node of a test bed."""
_WEIR = (sys.executable, "-m", "weir")


class NoBedError(Exception):
    """A test bed cannot be what a cell needs."""


@dataclass(frozen=True)
class Execution:
    """One scenario by one method, once."""

    method: str
    verdicts: tuple[Verdict, ...]
    warnings: int
    load: float
    """Of the machine, over a minute, at its begin."""


@dataclass
class Entry:
    """One scenario."""

    name: str
    scenario: Scenario
    executions: list[Execution] = field(default_factory=list)
    without: dict[str, str] = field(default_factory=dict)
    """Why a method did not execute it."""

    def by(self, method: str) -> list[Execution]:
        """Its executions by ``method``."""
        return [each for each in self.executions if each.method == method]

    def rows(self) -> Iterator[Row]:
        """Its claims."""
        methods = list(dict.fromkeys(each.method for each in self.executions))
        for number, verdict in enumerate(self.executions[0].verdicts):
            said = {method: [each.verdicts[number] for each in self.by(method)] for method in methods}
            yield Row(verdict.claim, said)


@dataclass(frozen=True)
class Row:
    """One claim by all methods."""

    claim: str
    said: Mapping[str, Sequence[Verdict]]

    def outcomes(self, method: str) -> set[str]:
        """What its executions by ``method`` decide."""
        return {verdict.outcome for verdict in self.said.get(method, ())} & {"holds", "fails"}

    def agreement(self, one: str, other: str) -> str | None:
        """How two methods agree: ``same`` or ``differs`` if each decides a claim in one way; ``varies`` if executions
        by one of them decide it differently; ``None``: one never decides it.
        """
        ours, theirs = self.outcomes(one), self.outcomes(other)
        if not ours or not theirs:
            return None
        if len(ours) > 1 or len(theirs) > 1:
            return "varies"
        return "same" if ours == theirs else "differs"


def links_of(cell: Cell) -> testbed.LinkOptions:
    """The links of a test bed that are those of the cell's plan.

    Raises:
        NoBedError: a test bed has no such links.
    """
    plan = cell.plan()
    links = {link["name"]: link for link in plan["links"]}
    trunk = links["bottleneck"]
    loss = trunk["loss"]
    if loss is not None and loss["kind"] != "bernoulli":
        raise NoBedError(
            "it loses packets by their number since the begin; on a test bed, the calibration's packets come first"
        )
    flow = next(flow for flow in plan["flows"] if trunk in [plan["links"][number] for number in flow["path"]])
    way = [plan["links"][number] for number in (*flow["path"], *flow["reverse_path"])]
    rtt_ns = sum(link["delay"]["delay_ns"] for link in way)
    queue = trunk["queue"]["limit"]
    # The hosts' own clocks, a hundredth of a per cent, are left out.
    access = min(link["rate_bps"] for link in links.values() if link["name"].endswith(("->src0", "->dst0")))
    return testbed.LinkOptions(
        rtt=f"{rtt_ns}ns",
        rate=f"{trunk['rate_bps']}bps",
        queue=f"{queue['bytes']}B" if queue["packets"] is None else f"{queue['packets']}packets",
        loss=None if loss is None else f"{100 * loss['p']:g}%",
        access=f"{access}bps",
    )


def pairs_of(cell: Cell) -> int:
    """Number of nodes that each site needs."""
    return sum(node["name"].startswith("src") for node in cell.plan()["nodes"])


def emulator_of(cells: Sequence[Cell]) -> testbed.LinkOptions:
    """The links of nodes to a node between: ten times as fast as any that it emulates, or 1 Gb/s.

    Raises:
        NoBedError: a host has another role than to be an end of a pair.
    """
    plans = [cell.plan() for cell in cells]
    names = {plan["nodes"][flow[end]]["name"] for plan in plans for flow in plan["flows"] for end in ("from", "to")}
    if other := sorted(name for name in names if not name.startswith(("src", "dst"))):
        raise NoBedError(f"{other[0]} is no end of a pair")
    fastest = max(link["rate_bps"] for plan in plans for link in plan["links"])
    return testbed.LinkOptions(access=f"{max(10 * fastest, 10**9)}bps")


def sends_alone(cell: Cell) -> bool:
    """Whether hosts of the cell send each segment separately."""
    plan = plan_of(cell.plan())
    per_s, _ = packets_per_s(plan)
    return packets_alone(plan, per_s)


@dataclass(frozen=True)
class Wanted:
    """A test bed that cells need."""

    links: testbed.LinkOptions
    alone: bool = False
    """Whether its nodes send each segment separately."""

    @contextlib.contextmanager
    def up(self, nodes: int, *, between: bool) -> Iterator[testbed.Bed]:
        """The test bed, with ``nodes`` at each site, for a while."""
        bed = testbed.up(testbed.Request(nodes=nodes, links=self.links, name=BED, emulator=between))
        try:
            if self.alone:
                for node in bed.nodes:
                    done = bed.run(node.name, ["ip", "link", "set", "dev", _INTERFACE, "gso_max_segs", "1"])
                    if done.code:
                        raise RuntimeError(f"{node.name}: {done.err.decode().strip()}")
            yield bed
        finally:
            testbed.down(BED)


def beds_of(cells: Sequence[Cell]) -> dict[Wanted, list[Cell]]:
    """The cells by the test bed that they need."""
    found: dict[Wanted, list[Cell]] = {}
    for cell in cells:
        found.setdefault(Wanted(links_of(cell), sends_alone(cell)), []).append(cell)
    return found


def run(name: str, out: Path, *more: str) -> Run:
    """Executes what is missing of a run of ``weir run``.

    Raises:
        RuntimeError: it failed.
    """
    command = [*_WEIR, "run", name, *more, "--out", str(out), "--no-verdict", "--no-report", "--quiet", "--force"]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"`{' '.join(command[2:])}` failed: {done.stderr.strip()}")
    return weir.open(out)


def on_beds(entry: Entry, version: Sequence[str], out: Path, *, between: bool) -> Run:
    """Executes all cells of ``entry`` on test beds, or on one with a node between.

    Raises:
        NoBedError: see :func:`links_of`.
        RuntimeError: a run failed.
    """
    cells = entry.scenario.cells()
    beds = {Wanted(emulator_of(cells)): cells} if between else beds_of(cells)
    parts: list[Run] = []
    for needed, cells in beds.items():
        targets = [((), out)] if len(beds) == 1 else [(("--cell", cell.id), out / cell.id) for cell in cells]
        if not all((folder / "manifest.json").is_file() for _, folder in targets):
            with needed.up(max(map(pairs_of, cells)), between=between) as bed:
                on = ("--method", "hosts", "--on", str(bed.inventory))
                parts += [run(entry.name, folder, *version, *on, *cell) for cell, folder in targets]
        else:
            parts += [weir.open(folder) for _, folder in targets]
    cells = [cell for part in parts for cell in part.cells]
    return Run(out, cells, parts[0].manifest, tuple(text for part in parts for text in part.warnings))


def execute(entry: Entry, method: str, version: Sequence[str], out: Path, *, between: bool) -> None:
    """Executes ``entry`` by ``method`` and judges its claims."""
    print(f"{entry.name} by {method} since {time.strftime('%H:%M:%S')} ...", file=sys.stderr, flush=True)
    begin = time.monotonic()
    try:
        if method == "hosts":
            made = on_beds(entry, version, out, between=between)
        else:
            made = run(entry.name, out, *version, "--method", method)
    except (NoBedError, RuntimeError) as error:
        entry.without[method] = str(error)
        print(f"{entry.name} by {method}: {error}", file=sys.stderr, flush=True)
        return
    claims = [
        {"claim": e.claim, "check": e.check, "where": dict(e.where or {}), "expected": e.expected, "source": e.source}
        for e in entry.scenario.expect
    ]
    verdicts = tuple(evaluate(made, claims))
    load = float(made.manifest["host"]["load_1min"])  # when it was executed: this call may only judge it
    entry.executions.append(Execution(method, verdicts, len(made.warnings), load))
    count = Counter(verdict.outcome for verdict in verdicts)
    took = time.monotonic() - begin
    print(f"{entry.name:<24} {method:<6} {took:4.0f} s  load {load:4.1f}  {dict(count)}", flush=True)


def shown(verdicts: Sequence[Verdict]) -> str:
    """Outcomes with their deciding figures."""
    return "; ".join(f"{each.outcome} ({figure})" if (figure := _figure(each)) else each.outcome for each in verdicts)


def _figure(verdict: Verdict) -> str:
    return "" if verdict.decisive is None else str(verdict.decisive).rpartition(": ")[2].partition(";")[0]


def summary(entries: Sequence[Entry]) -> str:
    """When the entries were executed, how often, and at which load."""
    loads = [each.load for entry in entries for each in entry.executions if each.method not in ONCE] or [0.0]
    times = [count for entry in entries if (count := max(map(len, map(entry.by, {*METHODS} - {*ONCE}))))]
    least, most = min(times, default=0), max(times, default=0)
    often = f"{least}" if least == most else f"{least} to {most}"
    return (
        f"on {_date()}, by methods with a real clock in turns, {often} {'times' if most > 1 else 'time'} each; the "
        f"load of the machine at the begin of a run was {min(loads):.1f} to {max(loads):.1f}."
    )


def updated(page: str, fresh: str, what: str) -> str:
    """``page`` with the rows of ``fresh`` instead of its own of the same scenarios and claims; ``what`` goes on top.

    Raises:
        SystemExit: a claim is there twice.
    """
    rows = {_key(line): line for line in fresh.splitlines() if line.startswith("| ")}
    heads = {_key(line) for line in fresh.splitlines() if line.startswith(("| scenario", "| claim"))}
    lines = page.splitlines()
    count = Counter(_key(line) for line in lines if line.startswith("| "))
    if twice := [key for key in rows if count[key] > 1]:
        raise SystemExit(f"--table: the page has several claims `{twice[0]}`; execute all scenarios")
    made = [rows.get(_key(line), line) if line.startswith("| ") and _key(line) not in heads else line for line in lines]
    first = next(number for number, line in enumerate(made) if line.startswith("| "))
    return "\n".join([*made[:first], what, "", *made[first:]]) + "\n"


def _key(line: str) -> str:
    """The first cell of a row, without a mark."""
    return line.split(" | ")[0].removeprefix("| ").removeprefix("**differs** ").removeprefix("**varies** ")


def table(entries: Sequence[Entry], methods: Sequence[str]) -> str:
    """The results as a page."""
    done = [entry for entry in entries if entry.executions]
    lines = [
        "<!-- Written by `benches/catalogue_hosts.py`; do not edit. -->",
        "",
        "# The catalogue on a test bed",
        "",
        f"Each scenario's real-time version by {', '.join(f'`{m}`' for m in methods)}, Linux {platform.release()}, "
        f"{os.cpu_count()} processors, weir {weir.__version__}: {summary(done)}",
        "",
        f"| scenario | claims judged | {' | '.join(f'hold by `{m}`' for m in methods)} | `hosts` as `emul` |",
        f"|---|--:|{'--:|' * len(methods)}--:|",
        *(_summary(entry, methods) for entry in done),
        "",
        "A claim counts as held if it held each time. The last column counts the claims that `emul` and `hosts` decide",
        "alike, of those that both decide. A claim **varies** if executions by one method decide differently: then no",
        "verdict compares methods.",
        "",
        "## Claims",
        "",
        f"| claim | {' | '.join(f'`{m}`' for m in methods)} |",
        f"|---|{'---|' * len(methods)}",
    ]
    for entry in done:
        for row in entry.rows():
            cells = " | ".join(_cell(shown(row.said.get(method, ()))) for method in methods)
            agreement = row.agreement("emul", "hosts")
            mark = f"**{agreement}** " if agreement in ("differs", "varies") else ""
            lines.append(f"| {mark}{_cell(row.claim)} | {cells} |")
    missing = [(entry.name, method, why) for entry in entries for method, why in entry.without.items()]
    if missing:
        lines += ["", "## Not executed", ""]
        lines += [f"- `{name}` by `{method}`: {why}" for name, method, why in missing]
    return "\n".join(lines) + "\n"


def _summary(entry: Entry, methods: Sequence[str]) -> str:
    rows = list(entry.rows())
    held = [str(sum(row.outcomes(m) == {"holds"} for row in rows)) if entry.by(m) else "" for m in methods]
    count = Counter(row.agreement("emul", "hosts") for row in rows)
    varies = f", {count['varies']} vary" if count["varies"] else ""
    of = f"{count['same']} of {count['same'] + count['differs']}{varies}"
    return f"| `{entry.name}` | {len(rows)} | {' | '.join(held)} | {of} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _date() -> str:
    today = datetime.datetime.now(datetime.UTC)
    return f"{today.day} {today:%B %Y}"


def _to_json(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    return [
        {
            "name": entry.name,
            "without": entry.without,
            "executions": [
                {
                    "method": each.method,
                    "load": each.load,
                    "warnings": each.warnings,
                    "claims": [{"claim": v.claim, "outcome": v.outcome, "figure": _figure(v)} for v in each.verdicts],
                }
                for each in entry.executions
            ],
        }
        for entry in entries
    ]


def kept(place: Path, methods: Sequence[str]) -> int:
    """Complete executions below ``place`` by each method with a real clock, of the method that has most."""
    return max((len([*place.glob(f"{method}-*/manifest.json")]) for method in methods if method not in ONCE), default=0)


def _entries(names: Sequence[str]) -> tuple[list[Entry], Callable[[Entry], tuple[str, ...]]]:
    files = catalogue_files()
    found = []
    for name in names or files:
        if name in files:
            found.append(Entry(name, scenario.load(files[name]).version("realtime")))
        else:
            found.append(Entry(name, scenario.load(name)))
    return found, lambda entry: ("--realtime",) if entry.name in files else ()


def main() -> int:
    """Executes, prints, stores."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="of the catalogue, or files; default: the whole catalogue")
    parser.add_argument("--method", default=",".join(METHODS), help="default: %(default)s")
    parser.add_argument("--times", type=int, default=2, help="executions by each method with a real clock")
    parser.add_argument("--emulator", action="store_true", help="test beds with a node between, which is the network")
    parser.add_argument("--out", type=Path, default=Path("runs/catalogue-hosts"))
    parser.add_argument("--table", type=Path, help="page to write")
    asked = parser.parse_args()
    methods = asked.method.split(",")
    entries, version_of = _entries(asked.names)
    before = asked.table.read_text(encoding="utf-8") if asked.table and asked.names and asked.table.exists() else None
    for entry in entries:
        place = asked.out / entry.name.replace("/", "-")
        for time_ in range(max(asked.times, kept(place, methods))):
            for method in methods:
                if method not in entry.without and (time_ == 0 or method not in ONCE):
                    execute(entry, method, version_of(entry), place / f"{method}-{time_}", between=asked.emulator)
        (asked.out / "verdicts.json").write_text(json.dumps(_to_json(entries), indent=1) + "\n")
        text = table(entries, methods)
        if asked.table is not None:
            fresh = text
            if before is not None:
                fresh = updated(
                    before, text, f"{', '.join(f'`{each.name}`' for each in entries)} again: {summary(entries)}"
                )
            asked.table.write_text(fresh, encoding="utf-8")
    print(text)
    different = [row for entry in entries for row in entry.rows() if row.agreement("emul", "hosts") == "differs"]
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())

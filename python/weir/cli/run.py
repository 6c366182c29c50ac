"""``weir run``."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir._terminal import say
from weir.cli import _errors
from weir.cli._asked import find
from weir.cli._choice import method_for
from weir.cli._common import (
    confidence_option,
    console,
    emit_json,
    error_console,
    examples,
    json_option,
    plural,
    unconfined_option,
    verbosity_options,
)
from weir.cli._on import inventory_of, method_on, on_option, require_use
from weir.cli._scenarios import complete_scenario, scenario_options
from weir.cli._verdicts import print_verdicts, settle, verdicts_of
from weir.cli._warnings import print_warnings

if TYPE_CHECKING:
    from weir.cli._one import OneCell
    from weir.engine import Result, Workers
    from weir.metrics.expect import Verdict
    from weir.scenario import Scenario, Version

__all__ = ["command"]

_LONG_S = 10.0
"""What takes longer after the last cell is said in a log."""

_EPILOG = examples(
    ("weir run my.yaml", "execute all cells, then print verdicts and build a report"),
    ("weir run A/large-flows --quick", "a scenario of the catalogue, in its quick version"),
    ("weir run my.yaml --set transport.cc=htcp", "change one value"),
    ("weir run my.yaml --out runs/tuesday -j 8", "into another folder, with eight workers"),
    ("weir run my.yaml --method sim,emul", "in the simulator and on this kernel, then compare"),
    ("weir run my.yaml --cluster dask:tcp://10.0.0.1:8786", "the cells on the workers of a Dask cluster"),
    (
        "weir run E2/congestion-collapse --realtime --method emul",
        "at rates that this machine can carry, with a live view",
    ),
    ("weir run my.yaml --on nodes.yaml", "on real machines, over SSH"),
    ("weir run my.yaml --quick --trace", "record packet captures for Wireshark"),
    ("weir run runs/my --cell cc=cubic,rtt=100ms --method lab", "one cell of a run, into runs/my-0003-r0/lab"),
)


@click.command(epilog=_EPILOG)
@click.argument("scenario", metavar="FILE|NAME|DIR", shell_complete=complete_scenario)
@scenario_options
@click.option("--method", metavar="NAME,...", help="Methods that execute it. Default: the best available one.")
@on_option
@click.option("-j", "--workers", type=click.IntRange(1), help="Number of processes. Default: one for each processor.")
@click.option(
    "--cluster",
    metavar="WHERE",
    help="Execute the cells on a cluster: dask:ADDRESS, slurm[:PARTITION] or ssh:INVENTORY (docs/cluster.md).",
)
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder of the run. Default: runs/NAME.")
@click.option("--cell", metavar="ID|FACTOR=VALUE,...", help="Execute only this cell, into a run of its own.")
@click.option("--force", is_flag=True, help="Execute even what this machine cannot carry in real time.")
@click.option("--fresh", is_flag=True, help="Replace the run in the folder, as soon as the new one begins.")
@click.option("--trace", is_flag=True, help="Record single packets in each cell: two captures (pcap) and a log (CSV).")
@click.option("--no-verdict", is_flag=True, help="Exit with 0 even if a claim fails.")
@click.option("--strict", is_flag=True, help="Treat claims that repeats leave undecided as failures.")
@confidence_option
@click.option("--no-report", is_flag=True, help="Do not build report.html.")
@unconfined_option
@json_option
@verbosity_options
def command(
    scenario: str,
    version: Version,
    overrides: tuple[str, ...],
    method: str | None,
    on: Path | None,
    workers: int | None,
    cluster: str | None,
    out: Path | None,
    cell: str | None,
    fresh: bool,
    force: bool,
    trace: bool,
    no_verdict: bool,
    strict: bool,
    level: float,
    no_report: bool,
    as_json: bool,
    quiet: bool,
    verbose: int,
) -> None:
    """Execute a scenario, judge its claims and build its report.

    The same command continues an interrupted run and keeps its complete cells. Several methods give one run each, in
    folders named after the methods, and a comparison. Without --method, weir chooses `lab` if it needs a minute or
    less, otherwise `sim`; `weir plan` shows what each method would do.

    DIR is the folder of a run, which weir continues with its settings. Runs that you did not make there, such as
    copies, need --method.

    --on executes it on the machines of an inventory (docs/hosts.md), over SSH; all that is changed there is undone.

    --cell executes one cell of a scenario, or of the run in DIR. Name it by its id or by its factors; without repeat=N,
    factors mean the first repeat. The cell becomes a run of its own, runs/NAME-ID/METHOD or DIR-ID/METHOD, and its
    claims are not judged.

    Exits with 1 if a claim fails or has no value on the run; with --strict also if the repeats leave a claim undecided.
    """
    from weir.study import parse_methods

    asked = find(scenario, version, (*overrides, *_tracing(trace)), cell, method=method, quiet=quiet)
    folder = out or asked.folder
    on, settings = inventory_of(on, asked.settings)
    method = method or asked.method or method_on(on)
    if method is None:
        method = method_for(asked.scenario.cells(), folder, fresh=fresh, workers=workers, quiet=quiet)
    names = parse_methods(method)  # reports unknown ones before executing anything
    require_use(on, names)
    done = []
    with _workers_of(cluster, workers, names) as place:
        for name in names[1:]:  # what one of them refuses must not cost the time of those before it
            _require(asked.scenario, name, workers, place, on)
        for name in names:
            result = _execute(
                asked.scenario,
                folder / name if len(names) > 1 or (cell is not None and out is None) else folder,
                method=name,
                workers=workers,
                place=place,
                settings=settings,
                on=on,
                fresh=fresh,
                force=force,
                quiet=quiet,
                verbose=verbose,
            )
            done.append(_Done(name, result, *_conclude(result, level, build=not no_report, quiet=quiet)))
            if not as_json:
                _print(done[-1], verbose=verbose, titled=len(names) > 1)
    complete = [one for one in done if len(one.result.failures) < one.result.cells]
    page = None if no_report else folder / "compare.html"
    if as_json:
        emit_json(_all_as_dict(done, _comparison(complete, page) if len(complete) > 1 else None))
    elif len(complete) > 1:
        _compare(complete, page)
    if any(one.result.failures or not (no_verdict or settle(one.verdicts, strict=strict)) for one in done):
        raise click.exceptions.Exit(_errors.FAILED)


@contextlib.contextmanager
def _workers_of(cluster: str | None, workers: int | None, names: Sequence[str]) -> Iterator[Workers | None]:
    """The workers of a cluster, if one was asked for; a method that cannot run there is refused before any starts."""
    if cluster is None:
        yield None
        return
    from weir.cluster import connect, parse, refuse

    where = parse(cluster)
    for name in names:
        refuse(name)
    with connect(where, workers, lambda text: say(text, err=True)) as place:
        yield place


def _tracing(trace: bool) -> tuple[str, ...]:
    return ("measure.trace={}",) if trace else ()


@dataclass(frozen=True)
class _Done:
    """The result of a scenario by one method."""

    method: str
    result: Result
    verdicts: list[Verdict]
    report: Path | None


def _execute(loaded: Scenario | OneCell, folder: Path, *, quiet: bool, verbose: int, **options: Any) -> Result:
    from weir import engine

    return engine.run(loaded, folder, display=engine.display(quiet=quiet, verbose=verbose > 0), **options)


def _require(
    loaded: Scenario | OneCell, method: str, workers: int | None, place: Workers | None, on: Path | None
) -> None:
    from weir import engine

    engine.require(loaded, method, workers=workers, place=place, on=on)


def _compare(done: list[_Done], page: Path | None) -> None:
    """Compares the runs of several methods on the terminal, and in a page."""
    from weir.cli import compare

    runs = tuple(f"{one.method}={one.result.folder}" for one in done)
    console().print()
    click.get_current_context().invoke(compare.command, runs=runs, page=page)


def _comparison(done: list[_Done], page: Path | None) -> dict[str, Any]:
    """The comparison for programs."""
    from weir.compare import compare

    comparison = compare([one.result.folder for one in done], labels=[one.method for one in done])
    if page is not None:
        comparison.report(page)
    return comparison.to_json([])


def _conclude(result: Result, level: float, *, build: bool, quiet: bool) -> tuple[list[Verdict], Path | None]:
    """The verdicts and the report of a run that has at least one complete cell."""
    if len(result.failures) == result.cells:
        return [], None
    from weir.cli._runs import open_run

    with _telling("judging the claims", quiet=quiet):
        run = open_run(result.folder, quiet=True)
        verdicts = verdicts_of(run, level)
    if not build:
        return verdicts, None
    from weir import report

    with _telling("building the report", quiet=quiet):
        return verdicts, report.build(run, level=level)


@contextlib.contextmanager
def _telling(what: str, *, quiet: bool) -> Iterator[None]:
    """Says what goes on: at once on a terminal, in a log if it takes long."""
    if quiet:
        yield
    elif sys.stderr.isatty():
        error_console().print(what, end="\r")
        yield
    else:
        line = threading.Timer(_LONG_S, say, (what,), {"err": True})
        line.daemon = True
        line.start()
        try:
            yield
        finally:
            line.cancel()


def _all_as_dict(done: list[_Done], comparison: dict[str, Any] | None) -> dict[str, Any]:
    if len(done) == 1:
        return _as_dict(done[0].result, done[0].verdicts, done[0].report)
    runs = {one.method: _as_dict(one.result, one.verdicts, one.report) for one in done}
    return {"runs": runs, "comparison": comparison}


def _as_dict(result: Result, verdicts: list[Verdict], report: Path | None) -> dict[str, Any]:
    return {
        "folder": str(result.folder),
        "report": None if report is None else str(report),
        "cells": result.cells,
        "executed": result.executed,
        "failures": [{"cell": failure.cell, "error": failure.error} for failure in result.failures],
        "wall_s": round(result.wall_s, 3),
        "warnings": list(result.warnings),
        "notes": list(result.notes),
        "verdicts": [verdict.to_json() for verdict in verdicts],
    }


def _print(done: _Done, *, verbose: int, titled: bool) -> None:
    from weir._duration import clock_text

    result, verdicts, report = done.result, done.verdicts, done.report
    out = console()
    if titled:
        out.print(f"method {done.method}", style="bold")
    if verdicts:
        print_verdicts(verdicts, verbose=verbose > 0)
        out.print()
    _print_warnings(result, verbose=verbose)
    for note in result.notes:
        out.print(f"note: {note}", style="dim")
    for failure in result.failures:
        if failure.trace and (verbose > 1 or _errors.debugging()):  # the failure itself was reported when it happened
            out.print(f"{failure.place}:", style="red")
            out.print(failure.trace)
    failed = f", {len(result.failures)} failed" if result.failures else ""
    kept = f", {result.cells - result.executed} kept from before" if result.executed < result.cells else ""
    out.print(
        f"{plural(result.executed, 'cell')} executed in {clock_text(result.wall_s)}{failed}{kept}: {result.folder}"
    )
    if report is not None:
        out.print(f"report: {report}", style="bold")


def _print_warnings(result: Result, *, verbose: int) -> None:
    failed = tuple(f"{failure.cell}: failed: " for failure in result.failures)  # printed with their factors instead
    warnings = [warning for warning in result.warnings if not warning.startswith(failed)]
    print_warnings(warnings, result.cell_ids, verbose=verbose > 0)

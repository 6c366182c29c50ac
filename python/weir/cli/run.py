"""``weir run``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli import _errors
from weir.cli._common import console, emit_json, error_console, examples, json_option, plural, verbosity_options
from weir.cli._scenarios import complete_scenario, load, scenario_options, settings, slug
from weir.cli._verdicts import print_verdicts, settle, verdicts_of

if TYPE_CHECKING:
    from weir.engine import Result
    from weir.metrics.expect import Verdict

__all__ = ["command"]

_EPILOG = examples(
    ("weir run my.yaml", "all cells, then the verdicts and a report"),
    ("weir run A/large-flows --quick", "a scenario of the catalogue, its quick version"),
    ("weir run my.yaml --set transport.cc=htcp", "with one value changed"),
    ("weir run my.yaml --out runs/tuesday -j 8", "elsewhere, with eight workers"),
    ("weir run my.yaml --quick --trace", "with captures that Wireshark opens"),
)


@click.command(epilog=_EPILOG)
@click.argument("scenario", metavar="FILE|NAME", shell_complete=complete_scenario)
@scenario_options
@click.option("--method", default="sim", show_default=True, metavar="NAME", help="What executes it.")
@click.option("-j", "--workers", type=click.IntRange(1), help="Processes; by default one a processor.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Folder of the run; by default runs/NAME.")
@click.option("--force", is_flag=True, help="Also what this machine does not carry in real time.")
@click.option("--fresh", is_flag=True, help="Replace a run that the folder holds.")
@click.option("--trace", is_flag=True, help="Record single packets: two captures (pcap) and a log (CSV) in each cell.")
@click.option("--no-verdict", is_flag=True, help="A claim that does not hold is no failure.")
@click.option("--no-report", is_flag=True, help="Do not build report.html.")
@json_option
@verbosity_options
def command(
    scenario: str,
    quick: bool,
    overrides: tuple[str, ...],
    method: str,
    workers: int | None,
    out: Path | None,
    fresh: bool,
    force: bool,
    trace: bool,
    no_verdict: bool,
    no_report: bool,
    as_json: bool,
    quiet: bool,
    verbose: int,
) -> None:
    """Execute a scenario, judge its claims and build its report.

    An interrupted run is continued by the same command; what is complete is kept.
    """
    from weir import engine

    if trace:
        overrides = (*overrides, "measure.trace={}")
    loaded = load(scenario, quick=quick, overrides=overrides, quiet=quiet)
    folder = out or Path("runs") / slug(scenario, quick=quick)
    result = engine.run(
        loaded,
        folder,
        method=method,
        workers=workers,
        settings=settings(quick=quick, overrides=overrides),
        fresh=fresh,
        force=force,
        display=engine.display(quiet=quiet, verbose=verbose > 0),
    )
    verdicts, report = _conclude(result, build=not no_report, quiet=quiet)
    if as_json:
        emit_json(_as_dict(result, verdicts, report))
    else:
        _print(result, verdicts, report, verbose=verbose)
    if result.failures or not (no_verdict or settle(verdicts)):
        raise click.exceptions.Exit(_errors.FAILED)


def _conclude(result: Result, *, build: bool, quiet: bool) -> tuple[list[Verdict], Path | None]:
    """The verdicts and the report of a run that has at least one complete cell."""
    if len(result.failures) == result.cells:
        return [], None
    from weir.cli._runs import open_run

    run = open_run(result.folder, quiet=True)
    verdicts = verdicts_of(run)
    if not build:
        return verdicts, None
    if not quiet and sys.stderr.isatty():
        error_console().print("building the report", end="\r")
    from weir import report

    return verdicts, report.build(run)


def _as_dict(result: Result, verdicts: list[Verdict], report: Path | None) -> dict[str, Any]:
    return {
        "folder": str(result.folder),
        "report": None if report is None else str(report),
        "cells": result.cells,
        "executed": result.executed,
        "failures": [{"cell": failure.cell, "error": failure.error} for failure in result.failures],
        "wall_s": round(result.wall_s, 3),
        "warnings": list(result.warnings),
        "verdicts": [verdict.to_json() for verdict in verdicts],
    }


def _print(result: Result, verdicts: list[Verdict], report: Path | None, *, verbose: int) -> None:
    from weir.engine._display import span

    out = console()
    if verdicts:
        print_verdicts(verdicts, verbose=verbose > 0)
        out.print()
    _print_warnings(result, verbose=verbose)
    for failure in result.failures:
        out.print(f"{failure.place} failed: {failure.error}", style="red")
        if failure.trace and (verbose > 1 or _errors.debugging()):
            out.print(failure.trace)
    failed = f", {len(result.failures)} failed" if result.failures else ""
    kept = f", {result.cells - result.executed} kept from before" if result.executed < result.cells else ""
    out.print(f"{plural(result.executed, 'cell')} executed in {span(result.wall_s)}{failed}{kept}: {result.folder}")
    if report is not None:
        out.print(f"report: {report}", style="bold")


_FEW = 5


def _print_warnings(result: Result, *, verbose: int) -> None:
    failed = tuple(f"{failure.cell}: failed: " for failure in result.failures)  # these are printed with their factors
    warnings = [warning for warning in result.warnings if not warning.startswith(failed)]
    shown = warnings if verbose else warnings[:_FEW]
    for warning in shown:
        console().print(f"warning: {warning}", style="yellow")
    if len(shown) < len(warnings):
        console().print(f"and {plural(len(warnings) - len(shown), 'more warning')}: -v shows all")

"""``weir catalogue``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli import _errors
from weir.cli._common import (
    console,
    emit_json,
    examples,
    json_option,
    print_table,
    renamed,
    time_option,
    verbosity_options,
)
from weir.cli._scenarios import catalogue_files, complete_scenario, load, locate
from weir.cli._survey import print_survey, teller

if TYPE_CHECKING:
    from weir.scenario import Scenario, Version
    from weir.study.survey import Survey

__all__ = ["command"]

_EPILOG = examples(
    ("weir catalogue", "list all, with their sources"),
    ("weir catalogue A/large-flows", "describe one: rationale and claims"),
    ("weir run A/large-flows --quick", "execute it"),
    ("weir catalogue --method sim,lab,emul", "execute all by three methods, and show which agree"),
    ("weir catalogue E2/congestion-collapse --method sim,lab", "execute one by two methods"),
    ("weir catalogue --method sim --quick", "execute the quick versions in the simulator"),
)


@click.command(epilog=_EPILOG)
@click.argument("names", nargs=-1, metavar="[NAME...]", shell_complete=complete_scenario)
@click.option("--method", "methods", metavar="NAME,...", help="Execute the scenarios by these methods, and compare.")
@click.option(
    "--realtime", "version", flag_value="realtime", help="Use the versions for a real clock, the default.  [--method]"
)
@click.option("--quick", "version", flag_value="quick", help="Use the quick versions.  [--method]")
@click.option("--full", "version", flag_value="full", help="Use the full versions: days on a real clock.  [--method]")
@click.option(
    "--seeds",
    type=click.IntRange(0, 100),
    default=5,
    show_default=True,
    help="Number of seeds in the simulator, to find results by chance.  [--method]",
)
@time_option("--max-time", "most_s", "Begin no run that would end later than this, such as 10min.  [--method]")
@click.option(
    "-j", "--workers", type=click.IntRange(1), help="Number of processes. Default: one for each processor.  [--method]"
)
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), help="Folder of the runs. Default: runs/catalogue.  [--method]"
)
@click.option(
    "--report",
    "page",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File of the report. Default: catalogue.html in the folder.  [--method]",
)
@click.option("--force", is_flag=True, help="Execute even what this machine cannot carry in real time.  [--method]")
@click.option("--fresh", is_flag=True, help="Replace the runs in the folder.  [--method]")
@click.option("--no-verdict", is_flag=True, help="Exit with 0 even if a claim fails.  [--method]")
@renamed("--most", "--max-time")
@json_option
@verbosity_options
def command(
    names: tuple[str, ...],
    methods: str | None,
    version: Version | None,
    seeds: int,
    most_s: float | None,
    workers: int | None,
    out: Path | None,
    page: Path | None,
    force: bool,
    fresh: bool,
    no_verdict: bool,
    as_json: bool,
    quiet: bool,
    verbose: int,
) -> None:
    """List the scenarios that come with weir, or describe some: source, rationale and claims.

    With --method, execute them by several methods. The report says for each claim and figure which methods agree and
    which one stands alone. The same command continues after an interruption.
    """
    if methods is None:
        given: dict[str, object] = {"--max-time": most_s, "--workers": workers, "--out": out, "--report": page}
        given |= {f"--{version}": version, "--force": force, "--fresh": fresh, "--no-verdict": no_verdict}
        extra = next((option for option, value in given.items() if value), None)
        if extra is not None:
            raise click.UsageError(f"{extra} needs --method, such as --method sim,lab,emul")
        _list(names, as_json=as_json)
        return
    chosen = version or "realtime"
    folder = out or Path("runs") / ("catalogue" if chosen == "realtime" else f"catalogue-{chosen}")
    survey = _execute(
        names,
        methods,
        folder,
        version=chosen,
        seeds=seeds,
        most_s=most_s,
        how={"workers": workers, "fresh": fresh, "force": force},
        quiet=quiet,
        verbose=verbose,
    )
    from weir.study.survey import build

    report = build(survey, page or folder / "catalogue.html")
    if as_json:
        emit_json(survey.to_json() | {"report": str(report)})
    else:
        print_survey(survey, verbose=verbose > 0)
        console().print(f"report: {report}", style="bold")
    if survey.failed or (survey.unsettled and not no_verdict):
        raise click.exceptions.Exit(_errors.FAILED)


def _execute(
    names: tuple[str, ...],
    methods: str,
    folder: Path,
    *,
    version: Version,
    seeds: int,
    most_s: float | None,
    how: dict[str, Any],
    quiet: bool,
    verbose: int,
) -> Survey:
    from weir import engine, study
    from weir.study import survey

    wanted = study.parse_methods(methods)
    files = catalogue_files() if not names else {name: locate(name) for name in dict.fromkeys(names)}
    scenarios = {name: load(str(file), version=version, quiet=quiet) for name, file in files.items()}
    single = [name for name, scenario in scenarios.items() if scenario.repeat == 1 and seeds > 1]
    repeated = {
        name: load(str(files[name]), version=version, overrides=(f"repeat={seeds}",), quiet=True) for name in single
    }
    return survey.execute(
        scenarios,
        wanted,
        folder,
        version=version,
        seeds=repeated,
        most_s=most_s,
        how=study.How(display=lambda: engine.display(quiet=quiet, verbose=verbose > 0), **how),
        tell=teller(quiet=quiet),
    )


def _list(names: tuple[str, ...], *, as_json: bool) -> None:
    from weir.scenario import load as read

    files = catalogue_files() if not names else {name: locate(name) for name in names}
    found = {key: read(file) for key, file in files.items()}
    if as_json:
        emit_json([_as_dict(key, scenario) for key, scenario in found.items()])
    elif names:
        for name, scenario in found.items():
            _describe(name, scenario)
    else:
        rows = [(key, s.title, s.source, str(len(s.expect))) for key, s in found.items()]
        print_table(("name", "title", "source", "claims"), rows, right=(3,), styles=("bold",))


def _as_dict(name: str, scenario: Scenario) -> dict[str, Any]:
    return {
        "name": name,
        "title": scenario.title,
        "source": scenario.source,
        "rationale": scenario.rationale,
        "cells": len(scenario.cells()),
        "claims": [
            {
                "claim": e.claim,
                "check": e.check,
                "where": dict(e.where),
                "source": e.source,
                "note": e.note,
                "expected": e.expected,
                **e.basis,
            }
            for e in scenario.expect
        ],
    }


def _describe(name: str, scenario: Scenario) -> None:
    out = console()
    out.print(f"{name}: {scenario.title}", style="bold")
    if scenario.source:
        out.print(f"source: {scenario.source}")
    if scenario.rationale:
        out.print()
        out.print(scenario.rationale.strip())
    if scenario.expect:
        out.print()
        out.print("claims:", style="bold")
        for claim in scenario.expect:
            out.print(f"  {claim.claim}" + (f"  [{claim.source}]" if claim.source else ""))
            where = "; where " + ", ".join(f"{k} = {v}" for k, v in claim.where.items()) if claim.where else ""
            out.print(f"    {claim.check}{where}", style="dim")
            if claim.expected == "fails":
                out.print(f"    known to fail: {' '.join(claim.note.split())}", style="yellow")

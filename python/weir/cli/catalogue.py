"""``weir catalogue``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from weir.cli._common import console, emit_json, examples, json_option, print_table
from weir.cli._scenarios import catalogue_files, complete_scenario, locate

if TYPE_CHECKING:
    from weir.scenario import Scenario

__all__ = ["command"]

_EPILOG = examples(
    ("weir catalogue", "all, with their sources"),
    ("weir catalogue A/large-flows", "rationale and claims of one"),
    ("weir run A/large-flows --quick", "execute it"),
)


@click.command(epilog=_EPILOG)
@click.argument("name", required=False, shell_complete=complete_scenario)
@json_option
def command(name: str | None, as_json: bool) -> None:
    """List the scenarios that come with weir, or describe one: its source, rationale and claims."""
    from weir.scenario import load

    files = catalogue_files() if name is None else {name: locate(name)}
    found = {key: load(file) for key, file in files.items()}
    if as_json:
        emit_json([_as_dict(key, scenario) for key, scenario in found.items()])
    elif name is not None:
        _describe(name, found[name])
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
            {"claim": e.claim, "check": e.check, "source": e.source, "note": e.note, "expected": e.expected}
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
            out.print(f"    {claim.check}", style="dim")
            if claim.expected == "fails":
                out.print(f"    known to fail: {' '.join(claim.note.split())}", style="yellow")

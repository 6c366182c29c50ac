"""``weir show``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli._common import (
    confidence_option,
    console,
    emit_json,
    examples,
    json_option,
    plural,
    print_table,
    verbosity_options,
)
from weir.cli._verdicts import print_verdicts, verdicts_of

if TYPE_CHECKING:
    from weir.run import Run

__all__ = ["command"]

_EPILOG = examples(
    ("weir show runs/A-large-flows", "verdicts and a table"),
    ("weir show runs/A-large-flows -m jain -m goodput.mean", "other metrics"),
    ("weir show runs/A-large-flows --json | jq .verdicts", "for a program"),
)
_DEFAULT = ("goodput.aggregate.mean", "goodput.mean", "jain")


@click.command(epilog=_EPILOG)
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("-m", "--metric", "metrics", multiple=True, metavar="NAME", help="A metric to show; may be repeated.")
@click.option("--phase", metavar="NAME", help="Compute metrics on this phase.")
@confidence_option
@json_option
@verbosity_options
def command(
    folder: Path, metrics: tuple[str, ...], phase: str | None, level: float, as_json: bool, quiet: bool, verbose: int
) -> None:
    """Summarise the run in DIR: verdicts of its claims, and metrics of each cell with their confidence intervals."""
    from weir.cli._runs import open_run

    run = open_run(folder, quiet=quiet or as_json)
    verdicts = verdicts_of(run, level)
    table = summary(run, metrics, phase, level) if metrics else _usual(run, phase, level)
    if as_json:
        emit_json(
            {
                "folder": str(folder),
                "title": run.manifest.get("title"),
                "complete": run.complete,
                "warnings": list(run.warnings),
                "verdicts": [verdict.to_json() for verdict in verdicts],
                "metrics": table,
            }
        )
        return
    _print_head(run)
    print_metrics(table, list(run.factors))
    if verdicts:
        console().print()
        print_verdicts(verdicts, verbose=verbose > 0)
    if verbose:
        for warning in run.warnings:
            console().print(f"warning: {warning}", style="yellow")


def summary(run: Run, metrics: Sequence[str], phase: str | None = None, level: float = 0.95) -> list[dict[str, Any]]:
    """One row a metric and combination of factors; see :func:`weir.metrics.compute` for the columns."""
    rows: list[dict[str, Any]] = run.metrics(
        *metrics, as_="polars", by=list(run.factors), phase=phase, level=level
    ).to_dicts()
    return rows


def _usual(run: Run, phase: str | None, level: float) -> list[dict[str, Any]]:
    """The usual metrics, without those that this run cannot give.

    Raises:
        weir.metrics.MetricError: none of them can be given.
    """
    from weir.metrics import MetricError

    rows: list[dict[str, Any]] = []
    last: MetricError | None = None
    for name in _DEFAULT:
        try:
            rows += summary(run, [name], phase, level)
        except MetricError as error:
            last = error
    if not rows and last is not None:
        raise last
    return rows


def print_metrics(rows: list[dict[str, Any]], factors: list[str]) -> None:
    """Prints rows of :func:`summary`, a line a combination of factors and a column a metric."""
    names = list(dict.fromkeys(row["metric"] for row in rows))
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        key = tuple(str(row[factor]) for factor in factors)
        lines.setdefault(key, {})[row["metric"]] = _shown(row)
    table = [(*key, *(values.get(name, "-") for name in names)) for key, values in lines.items()]
    print_table((*factors, *names), table, right=range(len(factors), len(factors) + len(names)))


def _shown(row: dict[str, Any]) -> str:
    """The value, with half the width of its confidence interval."""
    if row["value"] is None:
        return "-"
    value = _quantity(row["value"], row["unit"])
    if row["ci_low"] is None or row["ci_high"] is None:
        return value
    return f"{value} ± {_quantity((row['ci_high'] - row['ci_low']) / 2, row['unit'])}"


def _quantity(value: float, unit: str) -> str:
    from weir.metrics.registry import UNIT
    from weir.run.quantity import format_quantity

    size, dimension = UNIT[unit]
    return format_quantity(value * size, dimension)


def _print_head(run: Run) -> None:
    title = run.manifest.get("title", run.path.name)
    repeats = f", {len(run.repeats)} repeats" if len(run.repeats) > 1 else ""
    console().print(f"{title}: {plural(len(run.cells), 'cell')}{repeats}", style="bold")
    console().print()

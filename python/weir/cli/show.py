"""``weir show``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weir.cli._common import (
    confidence_option,
    console,
    emit_json,
    examples,
    json_option,
    plural,
    verbosity_options,
    verify_option,
)
from weir.cli._values import Column, expression_column, metric_columns, print_columns, summary_column
from weir.cli._verdicts import print_verdicts, verdicts_of
from weir.cli._warnings import print_warnings

if TYPE_CHECKING:
    from weir.run import Run

__all__ = ["command"]

_EPILOG = examples(
    ("weir show runs/A-large-flows", "verdicts and a table"),
    ("weir show runs/A-large-flows -m jain@twelve -m rtt.p99", "other metrics, one of them in a phase"),
    ("weir show runs/A-large-flows -m '3TB / goodput.aggregate'", "the time that 3 TB take"),
    ("weir show runs/A-large-flows -m 'goodput.mean{cc: reno} / goodput.mean{cc: cubic}'", "a ratio of two variants"),
    ("weir show runs/A-large-flows --json | jq .verdicts", "print JSON for a program"),
)
_EACH = "goodput.mean"
_DEFAULT = ("goodput.aggregate.mean", _EACH, "jain")
_MAX_ENTRIES = 4
"""Entries of the workload with a column each."""
_OF_PAGES = ("page.completion.mean", "page.completion.p95")
_OF_SWITCHES = ("switch.loss", "switch.starvation.max")
"""Instead of a row for each flow, if there are many."""
_FEW_FLOWS = 16


@click.command(epilog=_EPILOG)
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.option("-m", "--metric", "metrics", multiple=True, metavar="EXPR", help="A metric or an expression; repeatable.")
@click.option("--phase", metavar="NAME", help="Phase of metrics that name no phase.")
@click.option(
    "--verify", "whole", is_flag=True, help="Compare all files with their checksums, not only those that are read."
)
@verify_option
@confidence_option
@json_option
@verbosity_options
def command(
    folder: Path,
    metrics: tuple[str, ...],
    phase: str | None,
    whole: bool,
    verify: bool,
    level: float,
    as_json: bool,
    quiet: bool,
    verbose: int,
) -> None:
    """Summarise the run in DIR: metrics of each cell with confidence intervals, verdicts of claims, warnings.

    The figures of the scenario's `summary` come first, unless -m asks for others. -m accepts everything that a check
    accepts (docs/checks.md): arithmetic with units, functions over a factor, whole comparisons. Equal warnings of
    several cells or flows share one line with their count; -v prints each.
    """
    from weir.cli._runs import open_run
    from weir.metrics.overview import windows_of
    from weir.metrics.summary import figures_of, summarise
    from weir.run.repeats import identical_repeats

    run = open_run(folder, quiet=quiet or as_json, verify=verify)
    if whole:
        run.verify()
    verdicts = verdicts_of(run, level)
    identical = identical_repeats(run)
    summary = summarise(run, figures_of(run), level)
    columns = _columns(run, metrics, phase, level) if metrics else _usual(run, phase, level)
    if as_json:
        emit_json(
            {
                "folder": str(folder),
                "title": run.intended.get("title"),
                "complete": run.complete,
                "warnings": list(run.warnings),
                "summary": [figure.to_json() for figure in summary],
                "verdicts": [verdict.to_json() for verdict in verdicts],
                "identical_repeats": identical,
                "metrics": [row for column in columns for row in column.rows],
            }
        )
        return
    _print_head(run, identical=identical)
    if summary and not metrics:
        print_columns([summary_column(run, figure) for figure in summary], level)
    print_columns(columns, level)
    if any("@" not in text for text in metrics) and phase is None and windows_of(run):
        console().print("over the whole run, unless a phase is named", style="dim")
    if verdicts:
        console().print()
        print_verdicts(verdicts, verbose=verbose > 0)
    _print_warnings(run, verbose=verbose > 0)


def _columns(run: Run, texts: Sequence[str], phase: str | None, level: float) -> list[Column]:
    """Columns of metrics and expressions, in the order of ``texts``.

    Raises:
        weir.metrics.MetricError: one cannot be read or computed.
    """
    return [column for text in texts for column in _column(run, text, phase, level)]


def _column(run: Run, text: str, phase: str | None, level: float) -> list[Column]:
    from weir.metrics import MetricError, compute, parse_reference
    from weir.metrics.expect import tabulate

    try:
        reference = parse_reference(text)
    except MetricError:
        if text.replace(".", "").isidentifier():
            raise  # for a single name, its own error is the more helpful one
        return [expression_column(run, text, tabulate(run, text, phase=phase, level=level), phase)]
    if reference.metric.kind == "distribution":
        raise MetricError(
            f"{text} is a distribution, not a number; see goodput.share, goodput.mode_share or a percentile"
        )
    if reference.factors:
        return [expression_column(run, text, tabulate(run, text, phase=phase, level=level), phase)]
    try:
        rows = compute(run, text, by=list(run.factors), phase=phase, level=level).to_dicts()
    except MetricError as error:
        # Some cells may have it: a class, say, of one of the queues that are compared.
        try:
            return [expression_column(run, text, tabulate(run, text, phase=phase, level=level), phase)]
        except MetricError:
            raise error from None
    return metric_columns(rows, list(run.factors))


def _usual(run: Run, phase: str | None, level: float) -> list[Column]:
    """The metrics of the report's summary that this run has.

    Raises:
        weir.metrics.MetricError: it has none of them.
    """
    from weir.metrics import MetricError, compute
    from weir.metrics.overview import both_ways, entries_of, has_pages, most_switched, split_of, windows_of

    phases = phase or windows_of(run)
    keys = [*run.factors, *(["phase"] if phases else [])]
    inside = _of_classes(run, phases, keys, level)
    ports = most_switched(run)
    if ports and ports <= _FEW_FLOWS:
        inside += _of_ports(run, phases, [*keys, "flow"], level)
    keys += ["direction"] if both_ways(run) else []
    found: list[Column] = []
    last: MetricError | None = None
    more = (*(_OF_PAGES if has_pages(run) else ()), *(_OF_SWITCHES if ports > _FEW_FLOWS else ()))
    entries = entries_of(run)
    each = entries if 1 < len(entries) <= _MAX_ENTRIES else []  # their common mean would say nothing of either
    names = [f"{_EACH}({entry})" for entry in each]
    default = [name for known in _DEFAULT for name in (names if names and known == _EACH else [known])]
    for name in (*default, *more):
        try:
            rows = compute(run, name, by=split_of(run), phase=phases, level=level).to_dicts()
            found += metric_columns(rows, keys)
        except MetricError as error:
            last = error
    if not found and last is not None:
        raise last
    return found + inside


def _of_classes(run: Run, phases: str | None, keys: Sequence[str], level: float) -> list[Column]:
    """The metrics of classes, with a row for each class of a cell; none if the run has no classes."""
    from weir.metrics import MetricError, compute
    from weir.metrics.overview import OF_CLASSES, classes_of
    from weir.run import RunError

    found: dict[str, list[Column]] = {name: [] for name in OF_CLASSES}
    for word, ids in classes_of(run).items():
        having = frozenset(ids)
        part = run.with_cells(cell for cell in run.cells if cell.id in having)
        for name, columns in found.items():
            try:
                rows = compute(
                    part, f"{name}[class: {word}]", by=list(run.factors), phase=phases, level=level
                ).to_dicts()
            except (MetricError, RunError):
                continue
            (column,) = metric_columns(rows, keys)
            cells = {(*key, word): text for key, text in column.cells.items()}
            columns.append(Column(name, (*keys, "class"), cells, rows))
    return [_joined(columns) for columns in found.values() if columns]


def _joined(columns: Sequence[Column]) -> Column:
    """One column of those of several classes: all classes of a cell follow each other."""
    cells = {key: text for column in columns for key, text in column.cells.items()}
    places = {place: number for number, place in enumerate(dict.fromkeys(key[:-1] for key in cells))}
    ordered = {key: cells[key] for key in sorted(cells, key=lambda key: places[key[:-1]])}
    return Column(columns[0].name, columns[0].factors, ordered, [row for column in columns for row in column.rows])


def _of_ports(run: Run, phases: str | None, keys: Sequence[str], level: float) -> list[Column]:
    """The metrics of a switch's ports, with a row for each flow."""
    from weir.metrics import MetricError, compute
    from weir.metrics.overview import OF_PORTS
    from weir.run import RunError

    found: list[Column] = []
    for name in OF_PORTS:
        try:
            rows = compute(run, name, by=[*run.factors, "flow"], phase=phases, level=level).to_dicts()
        except (MetricError, RunError):
            continue
        found += metric_columns(rows, keys)
    return found


def _print_head(run: Run, *, identical: bool) -> None:
    from weir.run.repeats import missing_cells
    from weir.scenario import reduced

    out = console()
    out.print(f"{run.intended.get('title', run.path.name)}: {_size(run)}", style="bold")
    for text in (reduced(run.scenario or "", run.intended.get("settings") or {}), missing_cells(run)):
        if text:
            out.print(text, style="yellow")
    if identical:
        text = "all repeats are identical, byte for byte: nothing in this plan is random, and they count as one"
        out.print(text, style="yellow")
    out.print()


def _size(run: Run) -> str:
    """The number of cells and repeats of a run."""
    repeats = Counter(tuple(cell.factors.items()) for cell in run.cells)
    most = max(repeats.values())
    if most == 1:
        return plural(len(repeats), "cell")
    if min(repeats.values()) < most:
        return f"{plural(len(repeats), 'cell')} with {most} repeats or fewer"
    return f"{plural(len(repeats), 'cell')} with {most} repeats each"


def _print_warnings(run: Run, *, verbose: bool) -> None:
    """Prints the run's warnings about its figures; problems of the folder were reported when it was opened."""
    warnings = [text for text in run.warnings if text not in run.notes]
    print_warnings(warnings, {cell.id for cell in run.cells}, verbose=verbose)

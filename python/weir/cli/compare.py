"""``weir compare``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weir.cli import _errors
from weir.cli._common import (
    confidence_option,
    console,
    emit_json,
    error_console,
    examples,
    json_option,
    plural,
    print_table,
    shown,
    verbosity_options,
    verify_option,
)

if TYPE_CHECKING:
    from weir.compare import Comparison, Limit
    from weir.compare.tables import DifferenceRow
    from weir.metrics.expect import Verdict

__all__ = ["command"]

_EPILOG = examples(
    ("weir compare runs/a-sim runs/a-emul", "all differences, the largest first"),
    ("weir compare runs/a-sim runs/a-emul --report compare.html", "also write a page with overlaid charts"),
    ("weir compare runs/before runs/after --within 2%", "fail if a metric moved by more, for CI"),
    ("weir compare runs/before runs/after -m jain --within jain=0.03", "one metric with an absolute limit"),
    ("weir compare old=runs/1 new=runs/2", "name the runs"),
    ("weir compare runs/a --split cc", "compare the parts of one run, by the values of a factor"),
)
_FEW = 16
"""Rows of a table, unless all are requested."""


@click.command(epilog=_EPILOG)
@click.argument("runs", nargs=-1, required=True, metavar="[NAME=]RUN...")
@click.option("-m", "--metric", "metrics", multiple=True, metavar="NAME", help="Compare this metric; repeatable.")
@click.option("--phase", "phases", multiple=True, metavar="NAME", help="Compare in this phase; repeatable.")
@click.option("--split", metavar="FACTOR", help="Compare the parts of a single RUN, one for each value of a factor.")
@click.option(
    "--within",
    "limits",
    multiple=True,
    metavar="LIMIT",
    help="Exit with 1 beyond this limit: 5%, METRIC=5% or METRIC=1ms. METRIC is compared, too.",
)
@click.option("--report", "page", type=click.Path(path_type=Path), metavar="FILE", help="Write a report as HTML.")
@click.option(
    "--figures", type=click.Path(path_type=Path), metavar="DIR", help="Write every figure as SVG, PDF and CSV."
)
@click.option("--all", "everything", is_flag=True, help="Print every difference, not only the largest.")
@confidence_option
@verify_option
@json_option
@verbosity_options
def command(
    runs: tuple[str, ...],
    metrics: tuple[str, ...],
    phases: tuple[str, ...],
    split: str | None,
    limits: tuple[str, ...],
    page: Path | None,
    figures: Path | None,
    everything: bool,
    level: float,
    verify: bool,
    as_json: bool,
    quiet: bool,
    verbose: int,
) -> None:
    """Compare RUNs: what differs, by how much, and how certain that is.

    A difference is the second run minus the first, relative to the first. With two repeats or more it has a confidence
    interval: of paired differences if repeats had the same seed, otherwise of Welch.
    """
    from weir.compare import parse_limit

    allowed = [parse_limit(text) for text in limits]
    limited = [limit.metric for limit in allowed if limit.metric is not None]
    comparison = _compare(runs, metrics or None, limited, phases or None, split, level=level, verify=verify)
    _require_values(comparison, limited)
    if as_json:
        emit_json(comparison.to_json(allowed))
    else:
        _print(comparison, everything=everything or verbose > 0)
    for path in _write(comparison, page, figures):
        (error_console() if as_json else console()).print(path, style="bold")
    beyond = comparison.beyond(allowed).height
    if allowed and not as_json:
        _print_limits(comparison, allowed, beyond)
    if beyond:
        raise click.exceptions.Exit(_errors.FAILED)


def _compare(
    runs: Sequence[str],
    metrics: Sequence[str] | None,
    also: Sequence[str],
    phases: Sequence[str] | None,
    split: str | None,
    *,
    level: float,
    verify: bool,
) -> Comparison:
    from weir.compare import compare
    from weir.metrics import MetricError
    from weir.metrics.errors import nearest
    from weir.run import Run

    named = [_named(text) for text in runs]
    if split is None:
        if len(named) < 2:
            raise click.UsageError("a comparison needs two RUNs or more; or one and --split FACTOR")
        paths, labels = [p for _, p in named], [n for n, _ in named]
        return compare(paths, labels=labels, metrics=metrics, also=also, phases=phases, level=level, verify=verify)
    from weir.cli._runs import open_run

    if len(named) != 1:
        raise click.UsageError("--split takes one RUN")
    run: Run = open_run(named[0][1], verify=verify)
    if split not in run.factors:
        known = ", ".join(run.factors) or "none: it is not a sweep"
        raise MetricError(f"the run has no factor {split!r} ({known}).{nearest(split, run.factors)}")
    values = run.factors[split]
    if len(values) < 2:
        raise MetricError(f"{split} has one value in this run, {values[0]}: there is nothing to compare")
    parts = [run.select({split: value}) for value in values]
    return compare(parts, labels=values, metrics=metrics, also=also, phases=phases, level=level)


def _named(text: str) -> tuple[str | None, Path]:
    """``NAME=FOLDER``; an existing folder with ``=`` in its name is taken as a whole."""
    name, equals, folder = text.partition("=")
    return (name, Path(folder)) if equals and name and not Path(text).exists() else (None, Path(text))


def _write(comparison: Comparison, page: Path | None, figures: Path | None) -> list[str]:
    said = []
    if page is not None:
        page.parent.mkdir(parents=True, exist_ok=True)
        said.append(f"report: {comparison.report(page)}")
    if figures is not None:
        said.append(f"{plural(len(comparison.figures(figures)), 'file')}: {figures}")
    return said


def _print(comparison: Comparison, *, everything: bool) -> None:
    out = console()
    title = " against ".join(comparison.labels) if len(comparison.labels) == 2 else ", ".join(comparison.labels)
    out.print(f"{title}: {plural(len(comparison.groups), 'cell')}", style="bold")
    _print_differences(comparison, everything=everything)
    _print_traces(comparison, everything=everything)
    _print_claims(comparison)
    if comparison.notes:
        out.print()
    for note in comparison.notes:
        out.print(f"note: {note}", style="dim")
    for label, warning in comparison.warnings:
        out.print(f"warning: {label}: {warning}", style="yellow")


def _print_differences(comparison: Comparison, *, everything: bool) -> None:
    from weir.compare.tables import difference_rows
    from weir.metrics.expect import percent as level_text

    rows = difference_rows(comparison)
    shown = rows if everything else rows[:_FEW]
    factors = list(comparison.shown_factors)
    with_phase = any(row.phase for row in rows)
    intervals = any(row.interval for row in rows)
    several = len(comparison.labels) > 2
    head = [*factors, *(["phase"] if with_phase else []), "metric", "flow", *comparison.labels, "difference"]
    head += [f"{level_text(comparison.level)} interval"] if intervals else []
    head += ["nearest"] if several else ["ratio"]
    lines = []
    for row in shown:
        line = [*row.factors, *([row.phase] if with_phase else []), row.metric, row.flow, *row.values, row.relative]
        line += [row.interval] if intervals else []
        lines.append([*line, row.nearest if several else row.ratio])
    console().print()
    left = len(factors) + with_phase + 2
    right = range(left, left + len(comparison.labels) + 1 + intervals + (not several))
    print_table(head, lines, right=right)
    if len(shown) < len(rows):
        console().print(f"{len(rows) - len(shown)} more are smaller or within chance; --all shows them", style="dim")
    if any(row.floored for row in shown):
        text = "a value below the floor of its metric differs by a share of the floor; two of them count as equal"
        console().print(f"note: {text}", style="dim")
    if intervals:
        _print_significance(rows, comparison.level)


def _print_significance(rows: Sequence[DifferenceRow], level: float) -> None:
    """Prints how many differences exceed chance, and how many would between equal runs."""
    judged = [row for row in rows if row.significant is not None and row.size > 0]
    beyond = sum(row.significant is True for row in judged)
    chance = f"{(1 - level) * len(judged):.0f}"
    text = f"{beyond} of {plural(len(judged), 'difference')} exceed chance: their intervals exclude zero."
    console().print(f"{text} Chance alone would give about {chance}")
    if judged and 2 * sum(row.steady for row in judged) > len(judged):
        note = "the repeats hardly differ, because little is random here; another start or load may change more"
        console().print(f"note: {note}", style="dim")


def _print_traces(comparison: Comparison, *, everything: bool) -> None:
    from weir.compare.tables import trace_rows

    rows = trace_rows(comparison)
    if not rows:
        return
    shown = rows if everything else rows[: _FEW // 2]
    factors = list(comparison.shown_factors)
    noisy = any(row.noise for row in rows)
    console().print()
    console().print(
        "Distance of time series: instant by instant (mean absolute difference), and of their values (Wasserstein)"
    )
    head = [*factors, "series", "of", "runs", "distance", "of values", *(["between repeats"] if noisy else [])]
    lines = [
        [*r.factors, r.trace, r.member, r.runs, r.distance, r.value_distance, *([r.noise] if noisy else [])]
        for r in shown
    ]
    print_table(head, lines, right=range(len(factors) + 3, len(head)))
    if len(shown) < len(rows):
        console().print(f"{len(rows) - len(shown)} more are smaller; --all shows them", style="dim")


def _print_claims(comparison: Comparison) -> None:
    from weir.compare import agreement

    judged = [claim for claim in comparison.claims if any(map(_has_value, claim.verdicts.values()))]
    lines = []
    for claim in judged:
        outcomes = [_outcome(claim.verdicts.get(label)) for label in comparison.labels]
        lines.append([claim.text, *outcomes, agreement(claim.outcomes)])
    if lines:
        console().print()
        print_table(["claim", *comparison.labels, ""], lines)
    left = [claim for claim in comparison.claims if claim not in judged]
    if left:
        console().print(f"{plural(len(left), 'claim')} cannot be judged on any of the runs:", style="dim")
    for claim in left:
        reason = next(iter(claim.verdicts.values())).explanation
        console().print(f"  {shown(claim.text)}: {shown(reason)}", style="dim", markup=False, soft_wrap=True)


def _has_value(verdict: Verdict) -> bool:
    return verdict.outcome != "undecided" or verdict.within_chance


def _outcome(verdict: Verdict | None) -> str:
    if verdict is None:
        return "-"
    return verdict.outcome if _has_value(verdict) else "no value"


def _require_values(comparison: Comparison, metrics: Sequence[str]) -> None:
    """A limit on what no run has would hold whatever happens."""
    from weir.compare import CompareError

    rows = comparison.differences
    known = rows.filter(rows["a_value"].is_not_null() | rows["b_value"].is_not_null())["metric"].unique().to_list()
    for metric in metrics:
        if metric not in known:
            raise CompareError(f"--within {metric}: no run has a value of it, so that there is nothing to limit")


def _print_limits(comparison: Comparison, limits: Sequence[Limit], beyond: int) -> None:
    text = ", ".join(limit.text if limit.metric is None else f"{limit.metric} {limit.text}" for limit in limits)
    if not beyond:
        console().print(f"nothing differs by more than allowed ({text})", style="green")
        return
    console().print(f"{plural(beyond, 'difference')} larger than allowed ({text})", style="bold red")
    for row in comparison.beyond(limits).head(_FEW).iter_rows(named=True):
        console().print(f"  {_place(row, comparison)}", style="red")


def _place(row: dict[str, Any], comparison: Comparison) -> str:
    from weir.compare.tables import relative_text

    group = comparison.groups[row["cell"]]
    parts = [group.name, row["phase"], row["metric"], row["flow"], f"{row['a']} → {row['b']}"]
    return f"{', '.join(p for p in parts if p)}: {relative_text(row)} (limit {row['limit']})"

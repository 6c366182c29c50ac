"""A validation as a document: Markdown with its figures, and the JSON that reports read."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weir.study.validation import _figures
from weir.study.validation._errors import ERRORS, Summary, summarise
from weir.study.validation._heatmap import CHART, error_text, summary_texts
from weir.study.validation._validation import CellResult, Validation

__all__ = ["document", "markdown"]

_WORST = 10
_RANKED = ("goodput_error", "jain_error", "loss_error", "queue_delay_error", "completion_error")
"""The errors whose worst cells are listed."""


def document(validation: Validation, folder: Path, command: str) -> list[Path]:
    """Writes ``NAME.md``, ``NAME.json`` and the figures of the worst cells to ``folder``; returns the paths.

    Raises:
        OSError: a file cannot be written.
    """
    name = validation.job.name
    folder.mkdir(parents=True, exist_ok=True)
    for old in (folder / name).glob("*.svg"):
        old.unlink()
    factors = _figures.by_factor(validation, folder / name)
    drawn = _figures.worst_cells(validation, folder / name)
    page, data = folder / f"{name}.md", folder / f"{name}.json"
    page.write_text(markdown(validation, command, drawn, factors), encoding="utf-8")
    data.write_text(json.dumps({**validation.to_json(), "command": command}, indent=1) + "\n", encoding="utf-8")
    figures = [path for paths in drawn.values() for path in paths]
    return [page, data, *([] if factors is None else [factors]), *figures]


def markdown(
    validation: Validation, command: str, drawn: Mapping[int, Sequence[Path]], factors: Path | None = None
) -> str:
    """The document as text."""
    test, reference = validation.sides
    run = validation.comparison.runs[0].run
    host = run.manifest.get("host") or {}
    parts = [
        f"# {test.name} against {reference.name}",
        "",
        f"{_count(validation)} executed by both methods on {validation.date}, with `{command}`.",
        f"Errors are of `{test.name}`, measured against `{reference.name}`: {validation.centre}s over repeats, of the "
        "whole run.",
        "",
        *_facts(host, run.manifest, validation.kernels),
        "",
        "## Errors",
        "",
        *_summary_table(validation.summary()),
        "",
        *_definitions(validation.summary()),
        *_chance(validation),
        *_by_factor(factors),
        *_by_control(validation),
        *_warnings(validation),
        "",
        "## The largest errors",
        "",
        *_worst_tables(validation),
        *_drawings(validation, drawn),
        "## Every cell",
        "",
        *_cell_table(validation, range(len(validation.cells))),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _count(validation: Validation) -> str:
    repeats = {cell.repeats for cell in validation.cells}
    each = f", {max(repeats)} repeats each" if max(repeats) > 1 else ""
    return f"{len(validation.cells)} cells{each}"


def _facts(host: Mapping[str, Any], manifest: Mapping[str, Any], kernels: Sequence[str]) -> list[str]:
    versions = manifest.get("versions") or {}
    facts = {"reference": ", ".join(kernels), "host": host.get("kernel"), "processor": host.get("cpu_model"),
             "weir": versions.get("weir"), "commit": str(manifest.get("commit") or "")[:12]}  # fmt: skip
    return [", ".join(f"{name} {value}" for name, value in facts.items() if value)]


def _summary_table(summaries: Mapping[str, Summary]) -> list[str]:
    rows = [
        "| error | median | its interval | 90th percentile | its interval | worst | cells | aim: median "
        "| aim: 90th percentile | met | within the latter | beyond it, of these by chance |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|---|--:|--:|",
    ]
    for kind in ERRORS:
        some = summaries.get(kind.name)
        if some is not None:
            numbers = summary_texts(kind, some)
            limits = (None, None) if some.aim is None else (some.aim.median, some.aim.p90)
            texts = ["" if limit is None else error_text(kind, limit) for limit in limits]
            met = {None: "", True: "yes", False: "**no**"}[some.met]
            within = "" if some.within is None else f"{100 * some.within:.0f} %"
            fields = [kind.title, *numbers, str(some.cells), *texts, met, within, _beyond(some)]
            rows.append(f"| {' | '.join(fields)} |")
    return rows


def _beyond(some: Summary) -> str:
    """Number of cells beyond the aim, and number of those that chance alone may explain."""
    if some.within is None:
        return ""
    beyond = some.cells - round(some.within * some.cells)
    return str(beyond) if some.by_chance is None or not beyond else f"{beyond}, {some.by_chance}"


def _definitions(summaries: Mapping[str, Summary]) -> list[str]:
    return [*(f"- {kind.title}: {kind.definition}." for kind in ERRORS if kind.name in summaries), "", _INTERVALS]


_INTERVALS = (
    "Intervals are at 95 %, of the median and percentile that all cells of this kind would have: two of the errors in "
    "their order, as if the cells had been drawn at random. A sample that covers a grid evenly is nearer to it than "
    "that."
)


def _chance(validation: Validation) -> list[str]:
    """Explains the last column."""
    if not any(cell.chance for cell in validation.cells):
        return []
    if validation.job.chance is not None:
        how = (
            f"from {validation.job.chance} seeds of `{validation.sides[0].name}`: two equal methods, each with seeds "
            "of its own, differ by as much in 5 of 100 cells or more"
        )
    else:
        how = "as the error is within the 95 % interval of the difference over repeats"
    return ["", f"By chance: {how}."]


def _by_factor(figure: Path | None) -> list[str]:
    if figure is None:
        return []
    picture = f"![{CHART.title}]({figure.parent.name}/{figure.name})"
    return ["", "## Errors by factor", "", CHART.caption + " In brackets the number of cells.", "", picture]


def _by_control(validation: Validation) -> list[str]:
    """The errors of goodput of each congestion control, if there are several."""
    kind = next(kind for kind in ERRORS if kind.name == "goodput_error")
    controls = dict.fromkeys(cell.factors["cc"] for cell in validation.cells if "cc" in cell.factors)
    if len(controls) < 2:
        return []
    lines = ["", "## Goodput by congestion control", ""]
    lines += ["| cc | cells | median | 90th percentile | worst | both aims met | beyond the second aim |"]
    lines += ["|---|--:|--:|--:|--:|---|--:|"]
    for control in controls:
        errors = [cell.errors[kind.name] for cell in validation.cells if cell.factors.get("cc") == control]
        some = summarise(errors, validation.aims.get(kind.name))
        if some is not None:
            numbers = [error_text(kind, value) for value in (some.median, some.p90, some.worst)]
            met = {None: "", True: "yes", False: "**no**"}[some.met]
            lines.append(f"| {' | '.join([control, str(some.cells), *numbers, met, _beyond(some)])} |")
    return lines


def _warnings(validation: Validation) -> list[str]:
    warned = sum(bool(cell.warnings) for cell in validation.cells)
    lines = []
    if warned:
        texts = dict.fromkeys(text for cell in validation.cells for text in cell.warnings)
        lines += ["", f"{warned} cells carry warnings, among them: {'; '.join(list(texts)[:3])}."]
    if validation.rejected:
        lines += ["", f"{len(validation.rejected)} executions were rejected for a warning of their own and repeated, "]
        lines[-1] += f"such as {validation.rejected[0]}."
    if validation.left_out:
        lines += [
            "",
            f"{len(validation.left_out)} runs of cells were left out, because the machine does not carry them in ",
        ]
        lines[-1] += f"real time, such as: {validation.left_out[0]}."
    if validation.failures:
        lines += ["", f"{len(validation.failures)} cells could not be executed:"]
        lines += [f"- {text}" for text in validation.failures[:_WORST]]
    return lines


def _worst_tables(validation: Validation) -> list[str]:
    numbers = dict.fromkeys(n for name in _RANKED for n in validation.worst(name, 3))
    ranked = sorted(numbers, key=lambda n: -_of_goodput(validation.cells[n]))
    return [*_cell_table(validation, ranked[:_WORST]), ""]


def _of_goodput(cell: CellResult) -> float:
    value = cell.errors["goodput_error"]
    return -1.0 if math.isnan(value) else value


def _cell_table(validation: Validation, numbers: Sequence[int]) -> list[str]:
    summaries = validation.summary()
    kinds = [kind for kind in ERRORS if kind.name in summaries]
    factors = list(dict.fromkeys(name for cell in validation.cells for name in cell.factors))
    head = [*factors, "goodput (Mb/s)", *(kind.title for kind in kinds)]
    rows = [f"| {' | '.join(head)} |", "|" + "---|" * len(factors) + "--:|" * (len(kinds) + 1)]
    for number in numbers:
        cell = validation.cells[number]
        errors = [error_text(kind, cell.errors[kind.name]) for kind in kinds]
        fields = [*(cell.factors.get(name, "") for name in factors), _goodputs(cell), *errors]
        rows.append(f"| {' | '.join(fields)} |")
    return rows


def _goodputs(cell: CellResult) -> str:
    sure = cell.sure("goodput_error")
    pair = cell.values.get("goodput.aggregate.mean")
    if pair is None or None in pair:
        return "–"
    mark = "" if sure is None or sure else " (chance)"
    return " against ".join(f"{v / 1e6:.4g}" for v in pair if v is not None) + mark


def _drawings(validation: Validation, drawn: Mapping[int, Sequence[Path]]) -> list[str]:
    lines = []
    for number, paths in drawn.items():
        cell = validation.cells[number]
        title = ", ".join(f"{name} {value}" for name, value in cell.factors.items())
        lines += [f"### {title}", "", _worst_errors(validation, cell), ""]
        lines += [f"![{path.stem}]({path.parent.name}/{path.name})" for path in paths]
        lines.append("")
    return lines


def _worst_errors(validation: Validation, cell: CellResult) -> str:
    """The errors of a cell that have an aim, and those that chance explains."""
    parts = []
    for kind in ERRORS:
        if kind.name in validation.aims and not math.isnan(cell.errors[kind.name]):
            mark = " (chance)" if cell.sure(kind.name) is False else ""
            parts.append(f"{kind.title.lower()} {error_text(kind, cell.errors[kind.name])}{mark}")
    return f"Errors: {', '.join(parts)}."

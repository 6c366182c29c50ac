"""A validation as a document: Markdown with its figures, and the JSON that reports read."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weir.compare.charts import OVERLAYS
from weir.report.figures import PAPER, write_figure
from weir.validate._errors import ERRORS, ErrorKind, Summary
from weir.validate._validation import CellResult, Validation

__all__ = ["document", "error_text", "markdown"]

_WORST = 10
_DRAWN = 3
_DRAWN_TRACES = ("goodput", "cwnd", "queue")
_RANKED = ("goodput_error", "jain_error", "loss_error", "queue_delay_error", "completion_error")
"""The errors whose worst cells are listed."""


def document(validation: Validation, folder: Path, command: str) -> list[Path]:
    """Writes ``NAME.md``, ``NAME.json`` and the figures of the worst cells to ``folder``; the paths.

    Raises:
        OSError: a file cannot be written.
    """
    name = validation.job.name
    folder.mkdir(parents=True, exist_ok=True)
    drawn = _figures(validation, folder / name)
    page, data = folder / f"{name}.md", folder / f"{name}.json"
    page.write_text(markdown(validation, command, drawn), encoding="utf-8")
    data.write_text(json.dumps({**validation.to_json(), "command": command}, indent=1) + "\n", encoding="utf-8")
    return [page, data, *(path for paths in drawn.values() for path in paths)]


def _figures(validation: Validation, folder: Path) -> dict[int, list[Path]]:
    """The overlaid series of the cells that are worth a look."""
    for old in folder.glob("*.svg") if folder.is_dir() else []:
        old.unlink()
    drawn: dict[int, list[Path]] = {}
    for number in _worth_drawing(validation):
        group = validation.comparison.groups[number]
        place = folder / _slug(validation.cells[number].factors)
        for overlay in OVERLAYS:
            drawing = overlay.draw(validation.comparison, group, PAPER) if overlay.trace in _DRAWN_TRACES else None
            if drawing is not None:
                folder.mkdir(parents=True, exist_ok=True)
                (svg,) = write_figure(overlay.chart, drawing, folder, ["svg"])
                target = folder / f"{place.name}-{overlay.trace}.svg"
                svg.replace(target)
                drawn.setdefault(number, []).append(target)
    return drawn


def _worth_drawing(validation: Validation) -> list[int]:
    """The cells with the largest errors of goodput, first those that chance does not explain."""
    ranked = validation.worst("goodput_error", len(validation.cells))
    return sorted(ranked, key=lambda n: validation.cells[n].sure is False)[:_DRAWN]


def _slug(factors: Mapping[str, str]) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", "-".join(factors.values())).strip("-.") or "cell"


def markdown(validation: Validation, command: str, drawn: Mapping[int, Sequence[Path]]) -> str:
    """The document as text."""
    test, reference = validation.sides
    run = validation.comparison.runs[0].run
    host = run.manifest.get("host") or {}
    parts = [
        f"# {test.text} against {reference.text}",
        "",
        f"{_count(validation)} executed by both methods on {validation.date}, with `{command}`.",
        f"Errors are of `{test.text}`, measured against `{reference.text}`: means over repeats, of the whole run.",
        "",
        *_facts(host, run.manifest),
        "",
        "## Errors",
        "",
        *_summary_table(validation.summary()),
        "",
        *_definitions(validation.summary()),
        *_chance(validation),
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


def _facts(host: Mapping[str, Any], manifest: Mapping[str, Any]) -> list[str]:
    versions = manifest.get("versions") or {}
    facts = {"host": host.get("kernel"), "processor": host.get("cpu_model"), "weir": versions.get("weir"),
             "commit": str(manifest.get("commit") or "")[:12]}  # fmt: skip
    return [", ".join(f"{name} {value}" for name, value in facts.items() if value)]


def _summary_table(summaries: Mapping[str, Summary]) -> list[str]:
    rows = [
        "| error | median | 90th percentile | worst | cells | aim | within the aim |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for kind in ERRORS:
        some = summaries.get(kind.name)
        if some is not None:
            numbers = " | ".join(error_text(kind, v) for v in (some.median, some.p90, some.worst))
            aim = "" if kind.aim is None else error_text(kind, kind.aim)
            within = "" if some.within is None else f"{100 * some.within:.0f} %"
            rows.append(f"| {kind.title} | {numbers} | {some.cells} | {aim} | {within} |")
    return rows


def error_text(kind: ErrorKind, value: float | None) -> str:
    """An error for people: a share in percent, a difference of indices as it is, a factor as a factor."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞"
    if kind.name == "jain_error":
        return f"{value:.3f}"
    if kind.name == "loss_error":
        return f"× {value + 1:.3g}"
    return f"{100 * value:.2g} %" if value < 0.0995 else f"{100 * value:.0f} %"


def _definitions(summaries: Mapping[str, Summary]) -> list[str]:
    return [f"- {kind.title}: {kind.definition}." for kind in ERRORS if kind.name in summaries]


def _chance(validation: Validation) -> list[str]:
    """How many of the errors of goodput may be chance alone, as far as repeats tell."""
    aim = next(kind.aim for kind in ERRORS if kind.name == "goodput_error") or 0.0
    beyond = [cell for cell in validation.cells if cell.errors["goodput_error"] > aim and cell.sure is not None]
    if not beyond:
        return []
    chance = sum(not cell.sure for cell in beyond)
    text = f"Of the {len(beyond)} cells whose goodput is beyond the aim, {chance} are within the 95 % interval of the "
    return ["", text + "difference over their repeats: chance alone may make them."]


def _warnings(validation: Validation) -> list[str]:
    warned = sum(bool(cell.warnings) for cell in validation.cells)
    lines = []
    if warned:
        texts = dict.fromkeys(text for cell in validation.cells for text in cell.warnings)
        lines += ["", f"{warned} cells carry warnings, among them: {'; '.join(list(texts)[:3])}."]
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
    pair = cell.values.get("goodput.aggregate.mean")
    if pair is None or None in pair:
        return "–"
    mark = "" if cell.sure is None or cell.sure else " (within its interval)"
    return " against ".join(f"{v / 1e6:.4g}" for v in pair if v is not None) + mark


def _drawings(validation: Validation, drawn: Mapping[int, Sequence[Path]]) -> list[str]:
    lines = []
    for number, paths in drawn.items():
        cell = validation.cells[number]
        title = ", ".join(f"{name} {value}" for name, value in cell.factors.items())
        kind = next(k for k in ERRORS if k.name == "goodput_error")
        lines += [f"### {title}: goodput differs by {error_text(kind, cell.errors['goodput_error'])}", ""]
        lines += [f"![{path.stem}]({path.parent.name}/{path.name})" for path in paths]
        lines.append("")
    return lines

"""Where the numbers come from: the manifest in readable form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import weir
from weir import methods
from weir.plan import first_phase_remark
from weir.report._text import quantity
from weir.report.view import CellView, RunView
from weir.scenario import texts_in

__all__ = ["about", "clock_of", "facts", "plans", "provenance", "scenario_path", "warnings"]

_HIDDEN = frozenset({"cells", "warnings", "text", "expect", "title"})
_FIRST = ("method", "seed", "scenario", "versions", "commit", "kernel", "cpu", "start", "end")


def facts(run: RunView) -> list[tuple[str, str]]:
    """The facts at the top of a report."""
    repeats = str(run.counted)
    method = str(run.run.intended.get("method") or _first(run, "method"))
    found = [("Method", method)]
    if run.swept:
        found.append(("Sweep", f"{_sweep(run)}, {repeats}, {_cells(run)}"))
    else:
        found.append(("Cells", f"1, {repeats}"))
    if run.cells:
        first = run.cells[0]
        found += [
            ("Flows", _flows(first)),
            (_time_title(method), f"{first.plan.end_ns / 1e9:g} s"),
        ]
    found.append(("Phases", _phases(run, method)))
    end = run.run.manifest.get("end")
    if isinstance(end, str):
        found.append(("Finished", end.replace("T", " ").removesuffix("Z")[:16] + (" UTC" if end.endswith("Z") else "")))
    return [(name, value) for name, value in found if value]


def _time_title(name: str) -> str:
    """Label of the length of a plan; the run's method may be unknown here."""
    method = methods.registered(name)
    return methods.Method.time_title if method is None else method.time_title


def clock_of(name: str) -> str | None:
    """The clock of a method, ``virtual`` or ``real``; ``None`` if it is unknown here."""
    method = methods.registered(name)
    return None if method is None else method.clock


def _phases(run: RunView, name: str) -> str:
    """A remark on ports of switches at which the phases of exact clocks decided; empty if there are none."""
    if clock_of(name) != "virtual":
        return ""
    cells = run.combinations
    found = [remark for cell in cells if (remark := first_phase_remark(cell.plan.raw)) is not None]
    if not found:
        return ""
    return found[0] + (f" (in {len(found)} of {len(cells)} cells)" if len(cells) > 1 else "")


def _sweep(run: RunView) -> str:
    """The swept factors: ``6 cc × 8 rtt``, ``4 case (with cc, streams)``, ``cc and rtt together``."""
    names = []
    for factor in run.swept:
        with_it = ", ".join(f.name for f in run.said_by(factor))
        names.append(f"{len(factor.values)} {factor.name}" + (f" (with {with_it})" if with_it else ""))
    if run.crossed:
        return " × ".join(names)
    return f"{', '.join(names)} in {run.listed} combinations"


def _cells(run: RunView) -> str:
    have, listed = len(run.combinations), run.listed
    return f"{have} cells" if have == listed else f"{have} of {listed} cells"


def _flows(cell: CellView) -> str:
    """Number of flows, by role if they have different ones."""
    total, ways = len(cell.plan.flows), cell.directions
    parts = (
        [f"{len(flows)} {way}" for way, flows in ways.items()] if cell.both_ways else [f"{len(cell.tested)} under test"]
    )
    rest = total - len(cell.tested)
    parts += [f"{rest} background"] if rest else []
    return f"{total} ({', '.join(parts)})" if len(parts) > 1 else str(total)


def about(run: RunView) -> tuple[str, str]:
    """Source and rationale in the scenario's text; empty if it has none or is no scenario."""
    document = texts_in(run.run.scenario or "")
    return document.get("source", "").strip(), document.get("rationale", "").strip()


def scenario_path(run: RunView) -> str:
    """The scenario's file as it was named; empty if unknown.

    A full path would say where its author keeps files. It becomes the path within the catalogue, else within the
    nearest folder that also holds the run, else the name of the file.
    """
    scenario = run.run.manifest.get("scenario")
    text = scenario.get("path") if isinstance(scenario, Mapping) else scenario
    if not isinstance(text, str) or "\n" in text:
        return ""
    path = Path(text)
    if not path.is_absolute():
        return text
    package = Path(weir.__file__).absolute().parent
    for root in (package / "catalogue", package.parent.parent / "scenarios"):
        if path.is_relative_to(root):
            return f"scenarios/{path.relative_to(root).as_posix()}"
    above = next(folder for folder in path.parents if run.run.path.absolute().is_relative_to(folder))
    return path.name if above == above.parent else path.relative_to(above).as_posix()


def _first(run: RunView, key: str) -> str:
    return str(run.cells[0].cell.manifest.get(key, "")) if run.cells else ""


def warnings(run: RunView) -> list[str]:
    """All warnings that reduce trust in a number, each once: from the run, its cells, and reading it."""
    found = [*run.run.warnings, *run.problems]
    found += [problem for view in run.cells for problem in view.problems]
    for cell in run.listed_failures:
        why = f": {cell['error']}" if cell.get("error") else ""
        found.append(f"cell {cell.get('id')} has no result{why}")
    return list(dict.fromkeys(str(w) for w in found))


def provenance(run: RunView) -> list[tuple[str, str]]:
    """The manifest as names and values, known names first."""
    manifest = run.run.manifest
    if not manifest:
        return [("run", run.run.path.name), ("manifest", "missing: the run is not complete")]
    keys = [k for k in _FIRST if k in manifest] + [k for k in manifest if k not in _FIRST]
    found = [pair for k in keys if k not in _HIDDEN for pair in _flatten(k, manifest[k])]
    file = scenario_path(run)
    return [(name, file if file and name in ("scenario", "scenario path") else value) for name, value in found]


def _flatten(name: str, value: Any) -> Iterator[tuple[str, str]]:
    label = name.replace("_", " ")
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key not in _HIDDEN:
                yield from _flatten(f"{name} {key}", inner)
    elif isinstance(value, list):
        between = "; " if any(isinstance(v, Mapping) for v in value) else ", "
        yield label, between.join(map(_item, value)) or "none"
    elif isinstance(value, bool):
        yield label, "yes" if value else "no"
    elif value is not None:
        yield label, str(value)


def _item(value: Any) -> str:
    """An item of a list; names and values as ``value jain@twelve, title Shared?``."""
    return ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, Mapping) else str(value)


def plans(run: RunView) -> list[dict[str, str]]:
    """The plan of each cell and repeat."""
    found = []
    for view in run.cells:
        m = view.cell.manifest
        wall = m.get("wall_s")
        row = {k: str(m.get(k, "")) for k in ("seed", "plan_hash")}
        wall_text = quantity(float(wall), "s") if isinstance(wall, int | float) else ""
        found.append({"id": view.id, "repeat": str(view.cell.repeat), "wall": wall_text, **row})
    return found

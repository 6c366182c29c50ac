"""Stored results: of each executed cell the values that claims and figures need, as one line of a JSON file.

A file belongs to one version of a scenario and one method. The cells are independent of each other, so that an
interrupted run, or a later one, adds what is missing.

A file of many cells, such as a fine grid of two rates, has a row of plain values for each. It says once what the
columns are and what these cells have in common.
"""

from __future__ import annotations

import json
import operator as operators
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from weir.metrics.expect import Kept
from weir.metrics.expect.parser import parse_expression
from weir.metrics.expect.stored import kept_name
from weir.metrics.expect.syntax import Binary, Metric, Negative, Node, Number
from weir.study.errors import StudyError

__all__ = ["Result", "Store", "Unit"]

_FORMAT = 1
_ROWS = 2
"""The format of a file whose cells are rows."""
_MANY = 1000
"""Number of cells from which on a file has rows."""
_OPERATIONS: Mapping[str, Callable[[float, float], float]] = {
    "+": operators.add,
    "-": operators.sub,
    "*": operators.mul,
    "/": operators.truediv,
}


@dataclass(frozen=True, order=True)
class Unit:
    """A version of a scenario, by a method."""

    scenario: str
    version: str
    method: str

    def __str__(self) -> str:
        return f"{self.scenario}, {self.version}, {self.method}"

    @property
    def file(self) -> str:
        """Name of the file of its results."""
        return f"{self.scenario.replace('/', '-')}.{self.version}.{self.method}.json"


@dataclass(frozen=True)
class Result:
    """The stored result of one cell."""

    factors: Mapping[str, str]
    repeat: int
    seed: int
    plan: str
    """First digits of the hash of the plan that was executed."""
    date: str
    commit: str
    weir: str
    processor: str
    wall_s: float
    packets: int
    """Data packets that the plan was estimated to take."""
    values: Mapping[str, Kept]
    drawn: Mapping[str, Any] = field(default_factory=dict)
    """Functions of time and distributions, by name."""
    warnings: tuple[str, ...] = ()

    def number(self, metric: str, minus: str = "") -> float | None:
        """The stored value of ``metric``, less that of ``minus``; ``None`` if one was not stored, or has no value.

        ``metric`` can be an expression of metrics; each is in its own unit.
        """
        value = _computed(_parsed(metric), self.values)
        less = _computed(_parsed(minus), self.values) if minus else 0.0
        return None if value is None or less is None else value - less

    def to_json(self) -> dict[str, Any]:
        """The result as JSON types."""
        return {key: value for key, value in vars(self).items() if key != "warnings" or value}


@cache
def _parsed(metric: str) -> Node:
    return parse_expression(metric)


def _computed(node: Node, values: Mapping[str, Kept]) -> float | None:
    match node:
        case Metric(reference=reference):
            value = values.get(kept_name(reference))
            return value if isinstance(value, float | int) else None
        case Number(value=number):
            return number
        case Negative(part=part):
            value = _computed(part, values)
            return None if value is None else -value
        case Binary(operator=operator, left=left, right=right):
            one, other = _computed(left, values), _computed(right, values)
            if one is None or other is None or (operator == "/" and other == 0):
                return None
            return _OPERATIONS[operator](one, other)
        case _:
            raise StudyError(f"{node.text!r}: expected metrics, numbers, and + - * / between them")


class Store:
    """The folder of the stored results."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[Unit, dict[str, Result]] = {}

    def units(self) -> list[Unit]:
        """The units that have results, in the order of their files."""
        found = []
        for file in sorted(self.folder.glob("*.json")):
            data = _read(file)
            found.append(Unit(data["scenario"], data["version"], data["method"]))
        return found

    def cells(self, unit: Unit) -> Mapping[str, Result]:
        """The results of a unit by id of the cell; empty if there are none.

        Raises:
            StudyError: the file is no such file.
        """
        if unit not in self._known:
            file = self.folder / unit.file
            cells = _cells_of(_read(file)) if file.is_file() else {}
            try:
                self._known[unit] = {
                    cell: Result(**{**data, "warnings": tuple(data.get("warnings", ()))})
                    for cell, data in cells.items()
                }
            except TypeError as error:
                raise StudyError(f"{file}: {error}") from None
        return self._known[unit]

    def keep(self, unit: Unit, cell: str, result: Result) -> None:
        """Adds the result of a cell, or replaces it; the file is complete at every instant.

        Raises:
            OSError: it cannot be written.
        """
        cells = {**self.cells(unit), cell: result}
        self._known[unit] = dict(sorted(cells.items()))
        self._write(unit)

    def drop(self, unit: Unit, known: frozenset[str]) -> None:
        """Removes the results of cells that the scenario no longer has: all but ``known``."""
        left = {cell: result for cell, result in self.cells(unit).items() if cell in known}
        if len(left) < len(self.cells(unit)):
            self._known[unit] = left
            self._write(unit)

    def _write(self, unit: Unit) -> None:
        head = {"format": _FORMAT, "scenario": unit.scenario, "version": unit.version, "method": unit.method}
        cells: dict[str, Any] = {cell: result.to_json() for cell, result in self._known[unit].items()}
        if len(cells) >= _MANY:
            more, cells = _as_rows(cells)
            head = {**head, "format": _ROWS, **more}
        lines = [f"{_text(cell)}:{_text(data)}" for cell, data in cells.items()]
        text = _text(head)[:-1] + ',"cells":{\n' + ",\n".join(lines) + "\n}}\n"
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.folder / f".{unit.file}.part"
        part.write_text(text, encoding="utf-8")
        part.replace(self.folder / unit.file)


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _read(file: Path) -> dict[str, Any]:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StudyError(f"{file} is not JSON: {error}") from None
    if not isinstance(data, dict) or data.get("format") not in (_FORMAT, _ROWS) or "cells" not in data:
        raise StudyError(f"{file}: expected stored results of claims, format {_FORMAT} or {_ROWS}")
    return data


_MAPS = ("factors", "values")
"""The fields of a result whose entries are columns of their own."""


def _as_rows(cells: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The columns of most cells with what these have in common, and a row for each of them; others stay as they are."""
    shapes = {name: _shape(cell) for name, cell in cells.items()}
    usual, _ = Counter(shapes.values()).most_common(1)[0]
    alike = [cell for name, cell in cells.items() if shapes[name] == usual]
    same = {name: alike[0][name] for name, key in usual if not key and all(c[name] == alike[0][name] for c in alike)}
    columns = [(name, key) for name, key in usual if name not in same]
    rows = {
        name: [cell[part][key] if key else cell[part] for part, key in columns] if shapes[name] == usual else cell
        for name, cell in cells.items()
    }
    return {"same": same, "columns": columns}, rows


def _shape(cell: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The fields of a cell; those with columns of their own with each entry's name."""
    return tuple((name, key) for name, value in cell.items() for key in (value if name in _MAPS else [""]))


def _cells_of(data: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The cells of a file in either format, each with its fields by name."""
    found = {}
    for name, row in data["cells"].items():
        if isinstance(row, dict):
            found[name] = row
            continue
        cell: dict[str, Any] = {**data["same"], **{part: {} for part in _MAPS}}
        for (part, key), value in zip(data["columns"], row, strict=True):
            if key:
                cell[part][key] = value
            else:
                cell[part] = value
        found[name] = cell
    return found

"""Judges claims on numbers that were kept, when the tables of the run are gone.

`Wanted` computes every value that the checks of a scenario need of one cell, and names each. `evaluate_stored` judges
the same checks on such values, as :func:`weir.metrics.expect.evaluate` does on a run. A value that was not kept leaves
its check undecided.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from weir.metrics.expect.evaluate import Judge, judges_of, usable
from weir.metrics.expect.source import Context, Source
from weir.metrics.expect.values import Amount, MissingError
from weir.metrics.expect.verdict import Expectation, Verdict
from weir.metrics.frame import baseline_finder
from weir.metrics.measure import Scalar
from weir.metrics.reference import Reference, parse_reference
from weir.metrics.window import CellData
from weir.run import Cell, Run

__all__ = ["Kept", "KeptSource", "Wanted", "evaluate_stored", "kept_name", "name_of"]

Kept: TypeAlias = float | str | None
"""A value in the unit of its metric; ``None``: undefined; a text: why it could not be computed, or, after ``>``, a
value that the window cut off, so that the true one is larger."""

_NOT_EXECUTED = "not every cell of it was executed"


class Wanted:
    """What checks need of each cell of a sweep.

    The meaning of a check depends on the factors of all cells, so one object answers for all of them: asking about a
    cell then takes no longer in a larger sweep.

    Args:
        run: all cells of the sweep; their tables are not read.
        expectations: the checks.
    """

    def __init__(self, run: Run, expectations: Iterable[Expectation | Mapping[str, Any]]) -> None:
        self._source = _Executed(run)
        judges = judges_of(self._source, expectations, 0.95)
        ready = [(judge.node, judge.context) for judge in judges if isinstance(judge, Judge) and not judge.reason]
        self._nodes = usable(self._source, ready)

    def names(self, cell: Cell) -> set[str]:
        """The names of the values that `values` returns for ``cell``."""
        return {kept_name(reference, over) for reference, over in self._source.needs(self._nodes, cell)}

    def baselines(self, cell: Cell) -> set[str]:
        """Identifiers of the other cells whose tables `values` reads for ``cell``: those that are its baseline."""
        find = baseline_finder(self._source.run)
        found = set()
        for reference, _ in self._source.needs(self._nodes, cell):
            baseline = dict(reference.arguments).get("baseline")
            if isinstance(baseline, Mapping):
                found.add(find(cell, baseline).id)
        return found - {cell.id}

    def values(self, cell: Cell, executed: Mapping[str, Cell]) -> dict[str, Kept]:
        """The values that the checks need of ``cell``, by name.

        Args:
            cell: the cell of the sweep.
            executed: by id: the cell and its baselines, with their tables.

        Raises:
            weir.run.DamageError: a table does not match its checksum.
        """
        source = self._source
        source.executed = executed
        source.known.clear()
        source.prepare(self._nodes, [cell])
        return dict(sorted((_name(key), _kept(value)) for (_, key), value in source.known.items()))


class _Executed(Source):
    """Reads the tables of cells in the folders where they were executed."""

    executed: Mapping[str, Cell] = MappingProxyType({})

    def _data(self, cell: Cell) -> CellData:
        return CellData(self.executed[cell.id])


def kept_name(reference: Reference, over: str = "") -> str:
    """The name under which the value of ``reference`` is kept; ``over`` as in :meth:`Source.amount`."""
    return _name((*reference.key, over))


def name_of(metric: str) -> str:
    """The name under which the value of a metric, such as ``goodput.mean@twelve``, is kept.

    Raises:
        MetricError: it is malformed, or the metric does not exist.
    """
    return kept_name(parse_reference(metric))


def evaluate_stored(
    run: Run,
    expectations: Iterable[Expectation | Mapping[str, Any]],
    kept: Mapping[str, Mapping[str, Kept]],
    level: float = 0.95,
) -> list[Verdict]:
    """Judges each expectation on kept values.

    Args:
        run: all cells of the sweep; no table of theirs is read.
        expectations: the checks.
        kept: by id of the cell, what `Wanted.values` returned. A cell that is not in it was not executed.
        level: confidence level of the intervals.
    """
    judges = judges_of(KeptSource(run, kept), expectations, level)
    return [judge.verdict() if isinstance(judge, Judge) else judge for judge in judges]


class KeptSource(Source):
    """Supplies kept values, by id of the cell and name, instead of computing them."""

    def __init__(self, run: Run, kept: Mapping[str, Mapping[str, Kept]]) -> None:
        super().__init__(run)
        self._kept = kept

    def amount(self, reference: Reference, context: Context, over: str = "") -> Amount:
        """As of :class:`Source`; a cell without repeats that was not executed is missing."""
        cells = self._cells(reference, context)
        if len(cells) == 1 and cells[0].id not in self._kept:
            self.missing = True
            raise MissingError(_NOT_EXECUTED)
        return super().amount(reference, context, over)

    def _value(self, cell: Cell, reference: Reference, over: str) -> Scalar | str:
        values = self._kept.get(cell.id)
        if values is None:
            return _NOT_EXECUTED
        return _scalar(values.get(kept_name(reference, over), f"{reference.text} was not kept"))

    def exchange(self, kept: Mapping[str, Mapping[str, Kept]]) -> None:
        """Supplies other values from now on."""
        self._kept = kept
        self.known.clear()
        self.used.clear()


def _name(key: tuple[object, ...]) -> str:
    metric, stats, arguments, phase, selector, over = key
    assert isinstance(stats, tuple)
    assert isinstance(arguments, tuple)
    text = ".".join((str(metric), *stats))
    text += f"[{', '.join(f'{name}: {_argument(value)}' for name, value in arguments)}]" if arguments else ""
    text += f"@{phase}" if phase else ""
    text += f"({selector})" if selector else ""
    return f"{text} {over}" if over else text


def _argument(value: object) -> str:
    if isinstance(value, tuple):
        return "{" + ", ".join(f"{name}: {one}" for name, one in value) + "}"
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _kept(value: Scalar | str) -> Kept:
    if isinstance(value, str):
        return value
    if value.censored:
        return f">{value.value!r}"
    return value.value if math.isfinite(value.value) else None


def _scalar(kept: Kept) -> Scalar | str:
    if kept is None:
        return Scalar(math.nan)
    if isinstance(kept, str):
        return Scalar(float(kept[1:]), censored=True) if kept.startswith(">") else kept
    return Scalar(float(kept))

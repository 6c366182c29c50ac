"""The summary of a scenario: the few figures that its author wants on top."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weir.language.problem import Log

from ._claims import Values, read_check, report_unreadable, values_left_out
from ._lang_scenario import Figure
from ._sweep import Sweep

__all__ = ["Shown", "summary_of"]


@dataclass(frozen=True)
class Shown:
    """A figure of the summary: an expression in the language of checks, and its title (empty: the expression)."""

    value: str
    title: str = ""


def summary_of(
    figures: Sequence[Figure], sweep: Sweep, written: Values, phases: Sequence[str] | None, log: Log
) -> tuple[Shown, ...]:
    """The figures that a version of a scenario shows; those about values that it leaves out are missing.

    Args:
        figures: the figures of the file.
        sweep: the sweep of this version.
        written: the values of the file's sweep.
        phases: names of the phases; ``None`` if they could not be read.
        log: receives the problems of the figures.
    """
    factors, found = tuple(sweep.values()), []
    for figure in figures:
        read = read_check(figure.value, factors, None if phases is None else tuple(phases), number=True)
        if isinstance(read, Exception):
            report_unreadable(figure.at("value"), "summary", read, log)
        elif not values_left_out(figure.at, "summary", read, {}, sweep, written, log):
            found.append(Shown(figure.value, figure.title))
    return tuple(found)

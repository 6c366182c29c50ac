"""The outlook of each method for a scenario on this machine, and the default choice of ``weir run``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weir._duration import estimate_text
from weir.cli._common import console, error_console, print_table
from weir.methods import Choice, Prospect, choose

if TYPE_CHECKING:
    from weir.engine import Cell

__all__ = ["Outlook", "announce", "method_for", "show_methods"]

_MAX_CELLS = 200
"""Maximum number of cells examined; of more, a regular selection."""


class Outlook:
    """The outlook of each method for the cells of a scenario."""

    def __init__(self, cells: Sequence[Cell], workers: int | None = None) -> None:
        """Examines nothing until asked."""
        from weir.engine import default_workers

        self._workers = max(1, min(workers or default_workers(), len(cells)))
        step = -(-len(cells) // _MAX_CELLS)
        self._plans: list[dict[str, Any]] | None = None
        self._cells = cells[::step]
        self._scale = len(cells) / max(len(self._cells), 1)
        self._known: dict[str, Prospect] = {}

    def __call__(self, method: str) -> Prospect:
        """The outlook of ``method``."""
        if method not in self._known:
            self._known[method] = self._look(method)
        return self._known[method]

    def unasked(self, method: str) -> Prospect:
        """The outlook of ``method`` as a default: an obstacle if it would run the scenario's programs unconfined."""
        prospect = self(method)
        if prospect.obstacle is None and self._unconfined(method):
            return Prospect(
                method, f"it would run the scenario's programs as root on this machine: ask for it, --method {method}"
            )
        return prospect

    def _unconfined(self, name: str) -> bool:
        from weir import methods

        flows = (flow for plan in self._plans or () for flow in plan["flows"])
        return methods.get(name).clock == "real" and any(flow["source"]["kind"] == "command" for flow in flows)

    def _look(self, name: str) -> Prospect:
        from weir import methods
        from weir.engine import estimate

        try:
            method = methods.get(name)
        except methods.UnknownMethodError as error:
            return Prospect(name, str(error))
        if (missing := method.available()) is not None:
            return Prospect(name, missing)
        if self._plans is None:
            self._plans = [cell.plan() for cell in self._cells]
        obstacle = next((why for plan in self._plans if (why := method.obstacle(plan)) is not None), None)
        if obstacle is not None:
            return Prospect(name, obstacle)
        foreseen = [method.foreseen_s(plan, estimate(plan).packets) for plan in self._plans]
        if None in foreseen:
            return Prospect(name, "it gives no estimate")
        seconds = sum(one for one in foreseen if one is not None) * self._scale
        untried = next((text for plan in self._plans if (text := method.untried(plan)) is not None), None)
        return Prospect(name, None, seconds if method.clock == "real" else seconds / self._workers, untried)


def method_for(cells: Sequence[Cell], folder: Path, *, fresh: bool, workers: int | None, quiet: bool) -> str:
    """The default method of a run; prints it and the reason on standard error.

    A run in ``folder`` continues with its own method.

    Raises:
        weir.methods.MethodError: no method can execute the scenario here without being named.
        weir.engine.FolderError: ``folder`` holds a run that this user did not make there.
    """
    from weir.engine import method_of

    held = None if fresh else method_of(folder)
    if held is not None:
        return held
    outlook = Outlook(cells, workers)
    choice = choose(outlook.unasked)
    if not quiet:
        announce(choice, outlook)
    return choice.method


def announce(choice: Choice, outlook: Outlook) -> None:
    """Prints one line on standard error: the method, the reason, and the estimated duration."""
    about = estimate_text(outlook(choice.method).seconds)
    text = f"method {choice.method}: {choice.reason}; about {about}. --method chooses another"
    error_console().print(text, style="dim", soft_wrap=True)


def show_methods(cells: Sequence[Cell]) -> None:
    """Prints a table of all methods: whether each can execute the scenario here, its duration, and the default."""
    from weir.methods import MethodError, names, order

    outlook = Outlook(cells)
    try:
        chosen, reason = (choice := choose(outlook.unasked)).method, choice.reason
    except MethodError as error:
        chosen, reason = None, str(error)
    rows = []
    considered = order()
    for name in (*considered, *(one for one in names() if one not in considered)):
        prospect = outlook(name)
        time = "" if prospect.obstacle is not None else estimate_text(prospect.seconds)
        rows.append(("*" if name == chosen else "", name, time, prospect.obstacle or _fit(prospect)))
    out = console()
    out.print()
    print_table(("", "method", "time", ""), rows, right=(2,))
    out.print(f"without --method: {chosen or 'none'}, {reason}" if chosen else reason)


def _fit(prospect: Prospect) -> str:
    return "can execute it here" if prospect.untried is None else prospect.untried

"""Asks the decider of one flow of a simulation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from weir import _weir
from weir.control._types import Decision, Flow, Report
from weir.control._user import User

__all__ = ["Asker", "Decide"]

Decide = Callable[[Report, int], Decision]
"""Decides after a report; the second argument is the flow's seed."""


class Asker:
    """Registers the decider of a flow while the context lasts; :attr:`failure` is the exception that it raised."""

    def __init__(self, name: str, decide: Decide) -> None:
        """``name`` is that of the control, as users know it."""
        self.failure: BaseException | None = None
        self._decide = decide
        self._asked: _weir.Asked | None = _weir.Asked(name, self._call)

    @classmethod
    def of(cls, user: User, flow: str, options: Mapping[str, int], initial_window: int) -> Asker:
        """Asks a user's control, which is created anew for each connection of ``flow``."""
        given = {name: row[0] for name, row in user.options.items()} | dict(options)
        made: Any = None

        def decide(report: Report, seed: int) -> Decision:
            nonlocal made
            if report.first:
                made = user.create(Flow(flow, report.packet_bytes, initial_window, seed, given))
            return user.ask(made, report)

        return cls(user.name, decide)

    def transport(self) -> dict[str, Any]:
        """What the flow's transport has instead of its ``cc`` and ``cc_options``."""
        assert self._asked is not None, "it is closed"
        return self._asked.transport()

    def close(self) -> None:
        """Ends the registration."""
        self._asked = None

    def _call(self, **told: Any) -> Decision:
        try:
            return self._decide(Report.of(told), told["seed"])
        except BaseException as error:
            self.failure = error
            raise

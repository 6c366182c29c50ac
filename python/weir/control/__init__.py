"""Congestion controls in Python, for research on learned controls: they run in the simulator only.

A control is a class ``Control`` in a file that a scenario names, ``cc: ./mine.py``::

    from weir.control import Answer, Flow, Report

    class Control:
        def __init__(self, flow: Flow) -> None:
            self.window = 10.0

        def report(self, report: Report) -> Answer:
            self.window = max(2.0, self.window / 2 if report.lost_packets else self.window + 1)
            return Answer(window_packets=self.window)

weir asks it once a round trip, or at its ``interval``; ``docs/congestion-controls.md`` has the details.
"""

from __future__ import annotations

from weir.control._asker import Asker, Decide
from weir.control._files import files, identity, is_python
from weir.control._types import Answer, AnswerError, Flow, Report
from weir.control._user import User, UserError, described, load

__all__ = [
    "Answer",
    "AnswerError",
    "Asker",
    "Decide",
    "Flow",
    "Report",
    "User",
    "UserError",
    "described",
    "files",
    "identity",
    "is_python",
    "load",
]

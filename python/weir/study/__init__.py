"""What every study shares: the sides that are compared, the cells they have in common, and their execution.

A study executes the same cells by several sides and puts the runs next to each other. What differs is the question:
:mod:`weir.study.validation` asks how far one side is from another, :mod:`weir.study.survey` which methods come to the
same verdicts and figures. A question brings its page; nothing here knows one.
"""

from __future__ import annotations

from weir.study._cells import Chosen, covering, sample
from weir.study._covering import covering_array
from weir.study._draw import draws
from weir.study._execute import Done, How, Task, execute, missing_methods, opened, today
from weir.study._grid import QUICK_CELLS, Grid
from weir.study._sides import Side, folder_name, parse_methods, parse_sides
from weir.study._time import Clock, seconds_of
from weir.study.errors import StudyError

__all__ = [
    "QUICK_CELLS",
    "Chosen",
    "Clock",
    "Done",
    "Grid",
    "How",
    "Side",
    "StudyError",
    "Task",
    "covering",
    "covering_array",
    "draws",
    "execute",
    "folder_name",
    "missing_methods",
    "opened",
    "parse_methods",
    "parse_sides",
    "sample",
    "seconds_of",
    "today",
]

"""The shared parts of all studies: the compared sides, their common cells, and the execution.

A study executes the same cells by several sides and puts the runs side by side. Studies differ in their question.
:mod:`weir.study.validation` measures the distance of one side from another; :mod:`weir.study.survey` asks which methods
agree on verdicts and figures. Each question has its own page, of which this package knows nothing.
"""

from __future__ import annotations

from weir.study._cells import Chosen, covering, sample
from weir.study._covering import covering_array
from weir.study._draw import CCS, draws
from weir.study._execute import Done, How, Task, execute, missing_methods, opened, today
from weir.study._grid import QUICK_CELLS, Grid
from weir.study._sides import Side, folder_name, parse_methods, parse_sides
from weir.study._time import Clock, seconds_of
from weir.study.errors import StudyError

__all__ = [
    "CCS",
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

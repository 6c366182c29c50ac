"""How far a method is from another: a scenario's cells executed by both, and the errors of the first.

``execute`` does it, ``document`` writes what it found; ``weir validate`` is both. Methods are known by name only.
"""

from __future__ import annotations

from weir.compare import independent
from weir.validate._against import Regression, Stored, check, read_stored
from weir.validate._cells import Chosen, covering, sample
from weir.validate._covering import covering_array
from weir.validate._document import document
from weir.validate._draw import draws
from weir.validate._errors import ERRORS, Aim, ErrorKind, Summary, aims, summarise
from weir.validate._heatmap import error_text, interval_text
from weir.validate._sides import Side, parse_sides
from weir.validate._validation import QUICK_CELLS, CellResult, Job, Validation, execute
from weir.validate.errors import ValidateError

__all__ = [
    "ERRORS",
    "QUICK_CELLS",
    "Aim",
    "CellResult",
    "Chosen",
    "ErrorKind",
    "Job",
    "Regression",
    "Side",
    "Stored",
    "Summary",
    "ValidateError",
    "Validation",
    "aims",
    "check",
    "covering",
    "covering_array",
    "document",
    "draws",
    "error_text",
    "execute",
    "independent",
    "interval_text",
    "parse_sides",
    "read_stored",
    "sample",
    "summarise",
]

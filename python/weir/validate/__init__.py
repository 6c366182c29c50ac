"""How far a method is from another: a scenario's cells executed by both, and the errors of the first.

``execute`` does it, ``document`` writes what it found; ``weir validate`` is both. Methods are known by name only.
"""

from __future__ import annotations

from weir.compare import independent
from weir.validate._cells import Chosen, sample
from weir.validate._document import document, error_text
from weir.validate._draw import draws
from weir.validate._errors import ERRORS, ErrorKind, Summary, summarise
from weir.validate._sides import Side, parse_sides
from weir.validate._validation import QUICK_CELLS, CellResult, Job, Validation, execute
from weir.validate.errors import ValidateError

__all__ = [
    "ERRORS",
    "QUICK_CELLS",
    "CellResult",
    "Chosen",
    "ErrorKind",
    "Job",
    "Side",
    "Summary",
    "ValidateError",
    "Validation",
    "document",
    "draws",
    "error_text",
    "execute",
    "independent",
    "parse_sides",
    "sample",
    "summarise",
]

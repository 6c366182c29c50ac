"""Validation: both sides execute the cells of a grid; the result is the error of the first.

``execute`` runs the cells, ``document`` writes the results; ``weir validate`` does both. ``check`` tests whether a
published validation still holds. :mod:`weir.study.validation.controls` validates congestion controls instead of
methods.
"""

from __future__ import annotations

from weir.compare import independent
from weir.study.validation._document import document
from weir.study.validation._errors import ERRORS, Aim, ErrorKind, Summary, aims, summarise
from weir.study.validation._heatmap import error_text, interval_text, summary_texts
from weir.study.validation._regression import Regression, Stored, check, read_stored
from weir.study.validation._validation import CellResult, Job, Validation, execute

__all__ = [
    "ERRORS",
    "Aim",
    "CellResult",
    "ErrorKind",
    "Job",
    "Regression",
    "Stored",
    "Summary",
    "Validation",
    "aims",
    "check",
    "document",
    "error_text",
    "execute",
    "independent",
    "interval_text",
    "read_stored",
    "summarise",
    "summary_texts",
]

"""Validation of congestion controls: weir's against the kernel's of the same names, in one kernel and simulated.

The sides differ in the congestion control as much as in the method. The grid ``scenarios/validation/variants.yaml``
forces losses, so that two equal sides do the same to every packet. ``execute`` runs the cells by each side,
``document`` writes the distances of their traces; ``weir cc compare`` does both.
"""

from __future__ import annotations

from weir.study.validation.controls._document import HEAD, document, fields
from weir.study.validation.controls._measure import PAIRS, Pair, Row, Variants, execute
from weir.study.validation.controls._sides import KINDS, Kind, kernels, named_in, names, sides

__all__ = [
    "HEAD",
    "KINDS",
    "PAIRS",
    "Kind",
    "Pair",
    "Row",
    "Variants",
    "document",
    "execute",
    "fields",
    "kernels",
    "named_in",
    "names",
    "sides",
]

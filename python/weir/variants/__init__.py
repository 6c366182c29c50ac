"""weir's congestion controls against the kernel's of the same names, in one kernel and in the simulator.

``execute`` runs the cells of ``scenarios/validation/variants.yaml`` with each of them, ``document`` writes how far
their traces are apart; ``weir cc compare`` is both.
"""

from __future__ import annotations

from weir.variants._document import HEAD, document, fields
from weir.variants._measure import PAIRS, Pair, Row, Variants, execute
from weir.variants._sides import SIDES, Side, named_in, names
from weir.variants.errors import VariantError

__all__ = [
    "HEAD",
    "PAIRS",
    "SIDES",
    "Pair",
    "Row",
    "Side",
    "VariantError",
    "Variants",
    "document",
    "execute",
    "fields",
    "named_in",
    "names",
]

"""Plans: their types, generated from the schema of the crate ``weir-plan``, and quantities computed from them."""

from weir.plan import _documents, _facts, _phases, _types
from weir.plan._documents import *  # noqa: F403
from weir.plan._facts import *  # noqa: F403
from weir.plan._phases import *  # noqa: F403
from weir.plan._types import *  # noqa: F403

__all__ = [*_documents.__all__, *_facts.__all__, *_phases.__all__, *_types.__all__]

"""Executes scenarios: worker processes, run folders, resuming, progress.

The engine handles cells and plans without interpreting them; a method executes a plan (:mod:`weir.methods`).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weir.engine._display import Display, display
    from weir.engine._errors import DiskFullError, EngineError, FolderError, Interrupted, LockedError
    from weir.engine._estimate import Estimate, estimate
    from weir.engine._folder import Origin, discard, method_of, origin_of, remove_unfinished, unfinished, unproven
    from weir.engine._job import Cell, Failure, Scenario
    from weir.engine._run import Result, default_workers, run

__all__ = [
    "Cell",
    "DiskFullError",
    "Display",
    "EngineError",
    "Estimate",
    "Failure",
    "FolderError",
    "Interrupted",
    "LockedError",
    "Origin",
    "Result",
    "Scenario",
    "default_workers",
    "discard",
    "display",
    "estimate",
    "method_of",
    "origin_of",
    "remove_unfinished",
    "run",
    "unfinished",
    "unproven",
]

_PLACES = {
    **dict.fromkeys(("DiskFullError", "EngineError", "FolderError", "Interrupted", "LockedError"), "_errors"),
    **dict.fromkeys(("Display", "display"), "_display"),
    **dict.fromkeys(("Estimate", "estimate"), "_estimate"),
    **dict.fromkeys(
        ("Origin", "discard", "method_of", "origin_of", "remove_unfinished", "unfinished", "unproven"), "_folder"
    ),
    **dict.fromkeys(("Cell", "Failure", "Scenario"), "_job"),
    **dict.fromkeys(("Result", "default_workers", "run"), "_run"),
}


def __getattr__(name: str) -> Any:
    # Lazy: worker processes import this package too, and need none of the parent's modules.
    if name in _PLACES:
        return getattr(importlib.import_module(f"weir.engine.{_PLACES[name]}"), name)
    raise AttributeError(f"module 'weir.engine' has no attribute {name!r}")

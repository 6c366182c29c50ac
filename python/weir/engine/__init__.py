"""Executes scenarios: worker processes, run folders, resuming, progress.

The engine handles cells and plans without interpreting them; a method executes a plan (:mod:`weir.methods`).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weir.engine._deliver import DeliveryError, deliver
    from weir.engine._display import Display, display
    from weir.engine._errors import DiskFullError, EngineError, FolderError, Interrupted, LockedError
    from weir.engine._estimate import Estimate, estimate
    from weir.engine._executor import Executor, LocalWorkers, NextJob, Workers, default_workers
    from weir.engine._files import is_disk_full
    from weir.engine._folder import (
        PARTIAL,
        Origin,
        discard,
        in_use,
        method_of,
        origin_of,
        remove_unfinished,
        unfinished,
        unproven,
    )
    from weir.engine._host import commit, facts, history
    from weir.engine._job import Cell, Failure, Job, Scenario
    from weir.engine._pool import Message, Slot
    from weir.engine._run import Result, require, run

__all__ = [
    "PARTIAL",
    "Cell",
    "DeliveryError",
    "DiskFullError",
    "Display",
    "EngineError",
    "Estimate",
    "Executor",
    "Failure",
    "FolderError",
    "Interrupted",
    "Job",
    "LocalWorkers",
    "LockedError",
    "Message",
    "NextJob",
    "Origin",
    "Result",
    "Scenario",
    "Slot",
    "Workers",
    "commit",
    "default_workers",
    "deliver",
    "discard",
    "display",
    "estimate",
    "facts",
    "history",
    "in_use",
    "is_disk_full",
    "method_of",
    "origin_of",
    "remove_unfinished",
    "require",
    "run",
    "unfinished",
    "unproven",
]

_PLACES = {
    **dict.fromkeys(("DiskFullError", "EngineError", "FolderError", "Interrupted", "LockedError"), "_errors"),
    **dict.fromkeys(("DeliveryError", "deliver"), "_deliver"),
    **dict.fromkeys(("Display", "display"), "_display"),
    **dict.fromkeys(("Estimate", "estimate"), "_estimate"),
    **dict.fromkeys(("Executor", "LocalWorkers", "NextJob", "Workers", "default_workers"), "_executor"),
    **dict.fromkeys(("is_disk_full",), "_files"),
    **dict.fromkeys(
        (
            "PARTIAL",
            "Origin",
            "discard",
            "in_use",
            "method_of",
            "origin_of",
            "remove_unfinished",
            "unfinished",
            "unproven",
        ),
        "_folder",
    ),
    **dict.fromkeys(("commit", "facts", "history"), "_host"),
    **dict.fromkeys(("Cell", "Failure", "Job", "Scenario"), "_job"),
    **dict.fromkeys(("Message", "Slot"), "_pool"),
    **dict.fromkeys(("Result", "require", "run"), "_run"),
}


def __getattr__(name: str) -> Any:
    # Lazy: worker processes import this package too, and need none of the parent's modules.
    if name in _PLACES:
        return getattr(importlib.import_module(f"weir.engine.{_PLACES[name]}"), name)
    raise AttributeError(f"module 'weir.engine' has no attribute {name!r}")

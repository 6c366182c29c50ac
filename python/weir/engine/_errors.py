"""Errors of a whole run."""

from __future__ import annotations

__all__ = ["DiskFullError", "EngineError", "FolderError", "Interrupted", "LockedError"]


class EngineError(Exception):
    """A run failed; the message says why and what to do."""


class FolderError(EngineError):
    """The folder contains something else."""


class LockedError(EngineError):
    """Another process is writing to the folder."""


class DiskFullError(EngineError):
    """There is no space left for the results; complete cells are kept."""


class Interrupted(EngineError):  # noqa: N818  (it is no error of anybody)
    """The run was interrupted; complete cells are kept."""

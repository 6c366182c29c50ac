"""Turns errors into a message for people and an exit code; no stack trace for a user's mistake."""

from __future__ import annotations

import errno
import os
import sys
import traceback

import click

from weir._terminal import say

__all__ = ["BAD_INPUT", "BROKEN_PIPE", "FAILED", "report", "silence_stdout"]

FAILED = 1
BAD_INPUT = 2
BROKEN_PIPE = 141
_INTERRUPTED = 130

_KNOWN: tuple[tuple[str, str, int], ...] = (
    ("weir.scenario", "ScenarioError", BAD_INPUT),
    ("weir.inventory", "InventoryError", BAD_INPUT),
    ("weir.run", "ReadError", BAD_INPUT),
    ("weir.metrics", "MetricError", BAD_INPUT),
    ("weir.report", "ReportError", BAD_INPUT),
    ("weir.compare", "CompareError", BAD_INPUT),
    ("weir.archive", "ArchiveError", BAD_INPUT),
    ("weir.study.errors", "StudyError", BAD_INPUT),
    ("weir.methods", "UnknownMethodError", BAD_INPUT),
    ("weir.methods", "UnfitMethodError", BAD_INPUT),
    ("weir._errors", "UnavailableError", BAD_INPUT),
    ("weir.reserve.errors", "RequestError", BAD_INPUT),
    ("weir.bpf", "BpfRequestError", BAD_INPUT),
    ("weir.testbed", "TestbedError", BAD_INPUT),
    ("weir._errors", "MethodError", FAILED),
    ("weir.cc.errors", "ControlError", BAD_INPUT),
    ("weir.lab", "LabError", FAILED),
    ("weir.cluster.errors", "ClusterError", BAD_INPUT),
    ("weir.engine._errors", "FolderError", BAD_INPUT),
    ("weir.engine._errors", "Interrupted", _INTERRUPTED),
    ("weir.engine._errors", "EngineError", FAILED),
)
"""Errors for users: module, class, exit code; the first match counts."""


def report(error: Exception) -> int:
    """Prints ``error`` on standard error; returns the exit code."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, click.Abort):
        return _say(error, "interrupted", _INTERRUPTED)
    if isinstance(error, click.ClickException):
        return _show(error)
    if isinstance(error, BrokenPipeError):
        silence_stdout()
        return BROKEN_PIPE
    code = _known(error)
    if code is not None:
        return _say(error, str(error), code)
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        return _say(error, f"{place}{error.strerror}", BAD_INPUT if error.errno in _BAD_PATH else FAILED)
    if isinstance(error, MemoryError):
        return _say(error, "there is too little memory for this", FAILED)
    return _say(error, f"internal error: {type(error).__name__}: {error}\n{_ASK}", FAILED)


def _show(error: click.ClickException) -> int:
    """Prints a message about a word of the command line, which may contain anything; and where help is."""
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    helps = ctx is not None and ctx.command.get_help_option(ctx) is not None
    say(f"weir: {error.format_message()}", err=True)
    if ctx is not None and helps:
        say(f"'{ctx.command_path} --help' tells how it is used.", err=True)
    return BAD_INPUT


_BAD_PATH = frozenset(
    {
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.EEXIST,
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.ENAMETOOLONG,
        errno.ELOOP,
    }
)
"""A file system's errors about a path that the user should not have given."""

_ASK = "This is a defect of weir. WEIR_DEBUG=1 or -vv shows where; please report it with that."


def _known(error: Exception) -> int | None:
    for module, name, code in _KNOWN:
        # A module that was never imported cannot have raised the error.
        known = getattr(sys.modules.get(module), name, None)
        if known is not None and isinstance(error, known):
            return code
    return None


def _say(error: Exception, text: str, code: int) -> int:
    if debugging():
        say("".join(traceback.format_exception(error)), err=True, end="")
    say(f"weir: {text}", err=True)
    return code


def debugging() -> bool:
    """Whether stack traces are wanted."""
    return bool(os.environ.get("WEIR_DEBUG")) or "-vv" in sys.argv


def silence_stdout() -> None:
    """Discards the buffer of standard output, whose reader is gone, so that it does not raise again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

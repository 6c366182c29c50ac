"""Opening runs for the command line."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from weir._terminal import say

if TYPE_CHECKING:
    from weir.run import Run

__all__ = ["open_run"]


def open_run(folder: Path, *, quiet: bool = False, verify: bool = True) -> Run:
    """Opens the run in ``folder``; prints the reader's warnings on standard error unless ``quiet``.

    Raises:
        weir.run.RunError: there is no readable run.
        weir.run.DamageError: a file does not match its checksum, and ``verify`` is set.
    """
    from weir import run

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", run.RunWarning)
        opened = run.open_run(folder, verify=verify)
    if not quiet:
        for warning in caught:
            say(f"weir: {warning.message}", err=True)
    return opened

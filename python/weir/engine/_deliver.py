"""Puts a complete cell that another process left behind in its place, after a look at it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weir._inside import InsideError, read_plain
from weir.engine._cell import place
from weir.run.errors import ReadError
from weir.run.manifest import read_cell_manifest

__all__ = ["DeliveryError", "deliver"]

_MAX_PLAN = 1 << 28


class DeliveryError(Exception):
    """A folder does not hold the cell that it should; the message continues "it left"."""


def deliver(folder: Path, job: Mapping[str, Any], *, verify: bool = False) -> None:
    """Moves the cell in ``folder`` to its place in the run of ``job``, if it is the one that ``job`` asks for.

    With ``verify``, the content of each file is compared with its checksum before.

    Raises:
        DeliveryError: it is malformed, damaged, or another cell.
        OSError: it cannot be moved.
    """
    from weir.run.reader import open_cell  # imports Polars: only confined and distant workers need it

    try:
        told = read_cell_manifest(folder, verify=True).raw
        same = all(told.get(name) == value for name, value in job["manifest"].items())
        if not same or read_plain(folder / "plan.json", _MAX_PLAN) != job["plan"].encode():
            raise DeliveryError("another cell than it was told to execute")
        if verify and (damage := open_cell(folder).damaged()):
            raise DeliveryError(f"a damaged cell: {damage[0]}")
        place(folder, Path(job["run"]) / "cells" / job["id"])
    except (ReadError, InsideError) as error:
        raise DeliveryError(f"no cell: {error}") from error

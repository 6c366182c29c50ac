"""The run that a folder held before, set aside until the run that replaces it has begun.

Three names, so that a process may be killed at any instant. In ``.aside`` are entries on their way, out of the folder
or back into it: the folder holds nothing of another run then. What identifies a run is the last of its names; it leaves
last and comes back first. ``.before`` has all of them, and the folder may hold the beginning of the new run.
``.replaced`` is removed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from weir._inside import FOLDER, Folder

__all__ = ["NAMES", "drop", "put_aside", "put_back"]

_MOVING = ".aside"
_BEFORE = ".before"
_REPLACED = ".replaced"
NAMES = (_MOVING, _BEFORE, _REPLACED)


def put_aside(folder: Folder, names: Sequence[str]) -> None:
    """Moves the entries ``names`` of the run in ``folder`` out of the way.

    Raises:
        OSError: one cannot be moved.
    """
    with folder.inner(_MOVING, make=True) as aside:
        for name in names:
            if folder.kind(name) is not None:
                folder.move(name, aside, name)
    folder.move(_MOVING, folder, _BEFORE)


def drop(folder: Folder) -> None:
    """Removes what was set aside: the new run has begun.

    Raises:
        OSError: it cannot be removed.
    """
    if folder.kind(_BEFORE) == FOLDER:
        folder.move(_BEFORE, folder, _REPLACED)
    folder.remove(_REPLACED)


def put_back(folder: Folder, names: Sequence[str]) -> bool:
    """Restores what was set aside, if anything was, in the place of the new run's ``names``; whether there was.

    Raises:
        OSError: it cannot be restored.
    """
    folder.remove(_REPLACED)
    if folder.kind(_BEFORE) == FOLDER:
        for name in names:
            folder.remove(name)
        folder.move(_BEFORE, folder, _MOVING)
    if folder.kind(_MOVING) != FOLDER:
        return False
    with folder.inner(_MOVING) as aside:
        for name in reversed(names):
            if aside.kind(name) is not None:
                aside.move(name, folder, name)
    os.rmdir(_MOVING, dir_fd=folder.fd)
    return True

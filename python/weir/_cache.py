"""The cache of what was built: programs, kernels, modules, congestion controls. Whoever may write it decides what weir
executes, so that it must be this user's alone.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

__all__ = ["base", "foreign"]


def base() -> Path:
    """The folder of all caches of weir of this user; it need not exist. XDG_CACHE_HOME names another."""
    named = os.environ.get("XDG_CACHE_HOME")
    place = Path(named) if named and Path(named).is_absolute() else Path.home() / ".cache"
    return place / "weir"


def foreign(folder: Path) -> str | None:
    """Why others could put something into ``folder``, which is below :func:`base`; ``None`` if they cannot."""
    for place in (folder, *folder.parents):
        try:
            about = place.stat()
        except OSError:  # not there yet
            about = None
        if about is not None and (why := _why(place, about, above=place == base().parent)) is not None:
            return f"the cache {folder} is not safe: {why}; set XDG_CACHE_HOME to a folder of yours"
        if place == base().parent:
            return None
    return None


def _why(place: Path, about: os.stat_result, *, above: bool) -> str | None:
    """``above``: it holds the caches of other programs, too; only what could replace weir's matters."""
    if not above and about.st_uid not in (0, os.geteuid()):
        return f"{place} belongs to the user {about.st_uid}"
    if about.st_mode & stat.S_IWOTH and not (above and about.st_mode & stat.S_ISVTX):
        return f"everybody may write to {place}"
    return None

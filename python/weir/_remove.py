"""Removes a folder and everything below it, whatever somebody else put there, and reports truthfully whether it is
gone.

A guest may put anything into the folders of its lab, and so may a user's congestion control into its own: folders that
their owner may not read, folders a thousand levels deep, links to elsewhere. So this module uses no path of more than
one name, does not recurse, and follows no link and no mount.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["NotRemovedError", "remove_quietly", "remove_tree"]

_TOLD = 3
"""Maximum number of remaining objects that are named."""
_TRIES = 8
"""Attempts to empty a folder into which others still write."""
_SHOWN = 200
"""Maximum characters of a path in a message."""


class NotRemovedError(OSError):
    """A part of a folder is still there; the message says which, and why."""


def remove_tree(path: Path) -> None:
    """Removes the file, link or folder ``path`` with its content; it may be gone already."""
    kept: list[str] = []
    try:
        if not stat.S_ISDIR(path.lstat().st_mode):
            path.unlink()
            return
        with _opened(str(path), None, None) as (folder, mount):
            _empty(path, folder, mount, kept)
        path.rmdir()
    except FileNotFoundError:
        return
    except OSError as error:
        if not kept:
            kept.append(_told(path, error))
    if kept and os.path.lexists(path):
        more = f", and {len(kept) - _TOLD} more" if len(kept) > _TOLD else ""
        raise NotRemovedError(f"{'; '.join(kept[:_TOLD])}{more}")


def remove_quietly(path: Path) -> None:
    """The same for what nobody needs to be told of: ``weir clean`` or the next run finds what stays."""
    with contextlib.suppress(OSError):
        remove_tree(path)


@dataclass
class _Level:
    """A folder on the way down to the one that is being emptied."""

    name: str
    """In the parent folder."""
    identity: tuple[int, int]
    kept: set[str] = field(default_factory=set)
    """Entries of it that cannot be removed."""
    tries: Counter[str] = field(default_factory=Counter)


def _empty(path: Path, top: int, mount: str, kept: list[str]) -> None:
    """Empties the folder that is open as ``top``, and appends what stays to ``kept``."""
    levels = [_Level("", _identity(top))]
    here = os.dup(top)
    try:
        while True:
            level = levels[-1]
            found = _clear(here, level, path, levels, kept)
            if found is not None:
                try:
                    with _opened(found, here, mount) as (below, _):
                        levels.append(_Level(found, _identity(below)))
                        os.close(here)
                        here = os.dup(below)
                except FileNotFoundError:
                    pass
                except OSError as error:
                    _keep(level, found, kept, path, levels, error)
                continue
            if len(levels) == 1:
                return
            levels.pop()
            above = os.open("..", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = above
            if _identity(here) != levels[-1].identity:
                raise NotRemovedError(f"{_shown(path, levels, level.name)}: somebody moved it meanwhile")
            _remove_folder(here, level, levels, kept, path)
    finally:
        os.close(here)


def _clear(here: int, level: _Level, path: Path, levels: list[_Level], kept: list[str]) -> str | None:
    """Removes files and empty folders from ``here``; returns the name of a folder that must be emptied first."""
    with os.scandir(here) as entries:
        for entry in entries:
            if entry.name in level.kept:
                continue
            if entry.is_dir(follow_symlinks=False):
                return entry.name
            try:
                os.unlink(entry.name, dir_fd=here)
            except FileNotFoundError:
                pass
            except OSError as error:
                _keep(level, entry.name, kept, path, levels, error)
    return None


def _remove_folder(here: int, emptied: _Level, levels: list[_Level], kept: list[str], path: Path) -> None:
    above = levels[-1]
    if emptied.kept:
        above.kept.add(emptied.name)  # its remaining content was reported
        return
    try:
        os.rmdir(emptied.name, dir_fd=here)
    except FileNotFoundError:
        pass
    except OSError as error:
        above.tries[emptied.name] += 1
        if error.errno != errno.ENOTEMPTY or above.tries[emptied.name] >= _TRIES:
            _keep(above, emptied.name, kept, path, levels, error)


def _keep(level: _Level, name: str, kept: list[str], path: Path, levels: list[_Level], error: OSError) -> None:
    level.kept.add(name)
    kept.append(f"{_shown(path, levels, name)}: {error.strerror}")


@contextlib.contextmanager
def _opened(name: str, folder: int | None, mount: str | None) -> Iterator[tuple[int, str]]:
    """The folder ``name`` for reading, writable to its owner from now on, and the mount that it is on.

    Raises:
        OSError: it is a link, is on another mount than ``mount``, or cannot be opened.
    """
    place = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        on = _mount(place)
        if mount is not None and on != mount:
            raise OSError(errno.EXDEV, "something is mounted there")
        mode = stat.S_IMODE(os.fstat(place).st_mode)
        if mode & 0o700 != 0o700:
            os.chmod(f"/proc/self/fd/{place}", mode | 0o700)  # noqa: PTH101 - fchmod takes no O_PATH
        opened = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place)
    finally:
        os.close(place)
    try:
        yield opened, on
    finally:
        os.close(opened)


def _mount(file: int) -> str:
    """The id of the mount of ``file`` (proc(5)): the same file system may be mounted at several places."""
    lines = Path(f"/proc/self/fdinfo/{file}").read_text(encoding="ascii").splitlines()
    return next((line.split()[1] for line in lines if line.startswith("mnt_id:")), "")


def _identity(file: int) -> tuple[int, int]:
    about = os.fstat(file)
    return about.st_dev, about.st_ino


def _shown(path: Path, levels: list[_Level], name: str) -> str:
    names = [level.name for level in levels[1:] if level.name != name]
    text = "/".join([str(path), *names, name])
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]}...{text[-_SHOWN // 2 :]}"


def _told(path: Path, error: OSError) -> str:
    return str(error) if isinstance(error, NotRemovedError) else f"{path}: {error.strerror or error}"

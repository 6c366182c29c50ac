"""Safe access to a folder that somebody else may have filled: plain files and folders only, no links.

A run's folder may come from anywhere. A name in it may be a link to a file of the user's, a pipe without a writer, or
an endless device. So files inside are reached from a descriptor of the folder, one name after another. They are opened
without following a link and without blocking, and must be plain files or folders. The user names the folder itself,
which may be reached by the user's links.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from weir._remove import NotRemovedError, remove_tree

__all__ = ["FILE", "FOLDER", "Folder", "InsideError", "exists", "expect", "open_plain", "read_plain"]

FILE = "a plain file"
FOLDER = "a folder"

_KINDS = {
    stat.S_IFREG: FILE,
    stat.S_IFDIR: FOLDER,
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_NOFOLLOW = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Follows no link, waits for no writer of a pipe, acquires no controlling terminal."""


class InsideError(OSError):
    """Something in a folder is of the wrong kind: ``problem`` says what it is, ``expected`` what was expected.

    It was left untouched.
    """

    def __init__(self, path: Path, problem: str, expected: str) -> None:
        super().__init__(errno.ELOOP, f"{problem}; expected {expected}", str(path))
        self.path = path
        self.problem = problem
        self.expected = expected

    def __str__(self) -> str:
        """The place, the problem, and what was expected."""
        return f"{self.path} {self.problem}; expected {self.expected}"


class Folder:
    """A folder by its descriptor. Names are single ones: no ``/``, not ``..``."""

    __slots__ = ("fd", "path")

    def __init__(self, path: Path) -> None:
        """Opens the folder at ``path``, following links.

        Raises:
            OSError: it does not exist.
        """
        self.path = path
        self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    @classmethod
    def at(cls, place: Path | Folder) -> Folder:
        """The folder at ``place``, with a descriptor of its own.

        Raises:
            OSError: it does not exist.
        """
        return cls._of(os.dup(place.fd), place.path) if isinstance(place, Folder) else cls(place)

    @classmethod
    def _of(cls, fd: int, path: Path) -> Folder:
        made = cls.__new__(cls)
        made.fd, made.path = fd, path
        return made

    def __enter__(self) -> Folder:
        """The folder; leaving the context closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes it."""
        os.close(self.fd)

    @property
    def identity(self) -> str:
        """Device and inode: a copy of the folder has others."""
        about = os.fstat(self.fd)
        return f"{about.st_dev:x}:{about.st_ino:x}"

    def names(self) -> list[str]:
        """The names in it, sorted."""
        with os.scandir(self.fd) as found:
            return sorted(entry.name for entry in found)

    def kind(self, name: str) -> str | None:
        """The kind of the entry: :data:`FILE`, :data:`FOLDER`, or another; ``None`` if it does not exist."""
        try:
            mode = os.stat(_single(name), dir_fd=self.fd, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return None
        return _KINDS.get(stat.S_IFMT(mode), "something else")

    def expect(self, name: str, kind: str) -> bool:
        """Whether the entry exists.

        Raises:
            InsideError: it is not of that ``kind``.
        """
        found = self.kind(name)
        if found not in (None, kind):
            raise InsideError(self.path / name, f"is {found}", kind)
        return found is not None

    def inner(self, name: str, *, make: bool = False) -> Folder:
        """The folder called ``name``; with ``make``, created if missing.

        Raises:
            InsideError: the name belongs to something else.
            OSError: it is missing, or cannot be created.
        """
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(_single(name), dir_fd=self.fd)
        self.expect(name, FOLDER)
        flags = os.O_RDONLY | os.O_DIRECTORY | _NOFOLLOW
        return Folder._of(os.open(_single(name), flags, dir_fd=self.fd), self.path / name)

    def open(self, name: str) -> BinaryIO:
        """Opens the plain file ``name`` for reading.

        Raises:
            InsideError: it is something else.
            OSError: it is missing or cannot be read.
        """
        self.expect(name, FILE)
        return self._checked(name, os.open(_single(name), os.O_RDONLY | _NOFOLLOW, dir_fd=self.fd))

    def open_to_write(self, name: str) -> BinaryIO:
        """Opens the plain file ``name`` for reading and writing, without truncating it; creates an empty one if
        missing.

        Raises:
            InsideError: it is something else.
            OSError: it cannot be opened.
        """
        self.expect(name, FILE)
        fd = os.open(_single(name), os.O_RDWR | os.O_CREAT | _NOFOLLOW, 0o666, dir_fd=self.fd)
        return self._checked(name, fd, "r+b")

    def _checked(self, name: str, fd: int, mode: str = "rb") -> BinaryIO:
        found = _KINDS.get(stat.S_IFMT(os.fstat(fd).st_mode), "something else")
        if found != FILE:
            os.close(fd)
            raise InsideError(self.path / name, f"is {found}", FILE)
        opened: BinaryIO = os.fdopen(fd, mode, buffering=0 if mode == "r+b" else -1)  # type: ignore[assignment]
        return opened

    def read(self, name: str, most: int) -> bytes:
        """The content of the plain file ``name``, which may have at most ``most`` bytes.

        Raises:
            InsideError: it is something else, or larger.
            OSError: it is missing or cannot be read.
        """
        with self.open(name) as file:
            size = os.fstat(file.fileno()).st_size
            content = file.read(most + 1) if size <= most else b""
        if size > most or len(content) > most:
            raise InsideError(self.path / name, f"has {max(size, len(content))} bytes", f"at most {most}")
        return content

    def write(self, name: str, content: bytes, *, durable: bool = True) -> Path:
        """Replaces the content of the file ``name`` atomically; returns its path.

        Raises:
            InsideError: the name belongs to something other than a plain file.
            OSError: it cannot be written; the file is unchanged, and no temporary file is left.
        """
        self.expect(name, FILE)
        temporary = f".{_single(name)}.{os.getpid()}.tmp"
        try:
            self._replace(name, temporary, content, durable=durable)
        except OSError as error:
            # A write says no name, and the temporary one tells nobody anything.
            error.filename, error.filename2 = str(self.path / name), None
            raise
        return self.path / name

    def _replace(self, name: str, temporary: str, content: bytes, *, durable: bool) -> None:
        with contextlib.suppress(FileNotFoundError):  # left by an earlier process with the same id
            os.unlink(temporary, dir_fd=self.fd)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW, 0o666, dir_fd=self.fd)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(content)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            os.rename(temporary, name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=self.fd)
            raise
        if durable:
            os.fsync(self.fd)

    def move(self, name: str, to: Folder, called: str) -> None:
        """Moves the entry ``name`` to another folder.

        Raises:
            OSError: it cannot be moved.
        """
        os.rename(_single(name), _single(called), src_dir_fd=self.fd, dst_dir_fd=to.fd)
        os.fsync(to.fd)

    def remove(self, name: str) -> None:
        """Removes the entry ``name``, if it exists: a folder with its content, a link without its target.

        Raises:
            OSError: it cannot be removed.
        """
        own = f"/proc/self/fd/{self.fd}"
        try:
            remove_tree(Path(own) / _single(name))
        except NotRemovedError as error:
            raise NotRemovedError(str(error).replace(own, str(self.path))) from error


def open_plain(folder: Path, name: str) -> BinaryIO:
    """Opens the plain file ``name`` in ``folder`` for reading; ``name`` may contain folders inside it.

    Raises:
        InsideError: it, or a folder on the way, is something else.
        OSError: it is missing or cannot be read.
    """
    *before, last = PurePosixPath(name).parts
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(Folder(folder))
        for part in before:
            place = stack.enter_context(place.inner(part))
        return place.open(last)


def read_plain(file: Path, most: int) -> bytes:
    """The content of the plain file ``file``, which may have at most ``most`` bytes; follows no link at the last name.

    Raises:
        InsideError: it is something else, or larger.
        OSError: it is missing or cannot be read.
    """
    with Folder(file.parent) as folder:
        return folder.read(file.name, most)


def expect(path: Path, kind: str) -> bool:
    """Whether ``path`` exists; only its last name is untrusted.

    Raises:
        InsideError: it is not of that ``kind``.
        OSError: it cannot be examined.
    """
    try:
        with Folder(path.parent) as folder:
            return folder.expect(path.name, kind)
    except (FileNotFoundError, NotADirectoryError):
        return False


def exists(path: Path) -> bool:
    """Whether the path exists, even as a dangling link."""
    return os.path.lexists(path)


def _single(name: str) -> str:
    if not name or "/" in name or name in (".", ".."):
        raise ValueError(f"{name!r} is not a name within a folder")
    return name

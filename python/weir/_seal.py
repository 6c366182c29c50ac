"""A seal that only this user's weir can make, with which weir recognises its own objects on this host.

A name proves nothing: anybody may call a namespace ``weir-mine``. A seal is an HMAC (RFC 2104) of the name's other
parts under a key that this user's weir keeps in ``$XDG_STATE_HOME/weir/key`` (by default ``~/.local/state``), which
nobody else can read. Any reader of the key could act as this user anyway.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import hmac
import os
import pwd
import secrets
import stat
from pathlib import Path

__all__ = ["DIGITS", "folder", "is_sealed", "seal"]

DIGITS = 24
"""Hexadecimal digits of a seal: 96 bits."""
_KEY_BYTES = 32


def seal(text: str) -> str:
    """The seal of ``text``."""
    return hmac.new(_key(), text.encode(), hashlib.sha256).hexdigest()[:DIGITS]


def is_sealed(text: str, by: str) -> bool:
    """Whether ``by`` is the seal of ``text``."""
    return hmac.compare_digest(seal(text).encode(), by.encode(errors="replace"))


def _key() -> bytes:
    return _kept_key(folder())


@functools.cache
def _kept_key(place: Path) -> bytes:
    """The key in ``place``, created if missing. If none can be kept, a key that lasts as long as this process.

    With such a key, leftover objects cannot be proved to be weir's, and ``weir clean`` leaves them alone.
    """
    with contextlib.suppress(OSError):
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        _make(place / "key")
        if (key := _read(place / "key")) is not None:
            return key
    return secrets.token_bytes(_KEY_BYTES)


def folder() -> Path:
    """The folder of this user's private state; it need not exist.

    Does not use HOME, which ``sudo`` may leave at another user's.
    """
    named = os.environ.get("XDG_STATE_HOME")
    if named and Path(named).is_absolute():
        return Path(named) / "weir"
    try:
        home = Path(pwd.getpwuid(os.geteuid()).pw_dir)
    except KeyError:
        home = Path.home()
    return home / ".local" / "state" / "weir"


def _make(path: Path) -> None:
    """Creates a key at ``path`` atomically, unless there is one."""
    if os.path.lexists(path):
        return
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, secrets.token_bytes(_KEY_BYTES))
        os.fsync(file)
        with contextlib.suppress(FileExistsError):  # another process was faster
            os.link(temporary, path)
    finally:
        os.close(file)
        temporary.unlink()


def _read(path: Path) -> bytes | None:
    """The key at ``path``; ``None`` if others could have written or read it."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        about = os.fstat(file)
        private = stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid() and not about.st_mode & 0o077
        content = os.read(file, _KEY_BYTES + 1)
        return content if private and len(content) == _KEY_BYTES else None
    finally:
        os.close(file)

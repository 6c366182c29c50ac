"""Programs of weir in the cache of a node's user, by their hashes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import socket
import zlib
from pathlib import Path

from weir.deploy.node.base import Change, Refused, own_folder, start_of

__all__ = ["do_have", "do_install", "do_uninstall", "remove_cut_installs"]


def _cached(asked: Change) -> Path:
    name, digest = asked["name"], asked["sha256"]
    if "/" in name or len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
        raise Refused("no name of a program")
    return own_folder("XDG_CACHE_HOME", ".cache") / f"{name}-{digest}"


def _digest(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            found.update(block)
    return found.hexdigest()


def do_have(asked: Change) -> Change:
    """The path of a program in the cache, if it is there and whole."""
    path = _cached(asked)
    if path.is_file() and not path.is_symlink() and _digest(path) == asked["sha256"]:
        return {"path": str(path)}
    return {"path": None, "free_bytes": shutil.disk_usage(path.parent).free}


def do_install(asked: Change) -> Change:
    """Takes a program, compressed by zlib, from the file ``source`` into the cache."""
    path = _cached(asked)
    source = Path(asked["source"])
    fresh = path.with_name(f"{_fresh()}{os.getpid()}")
    remove_cut_installs()
    try:
        fresh.write_bytes(zlib.decompress(source.read_bytes()))
        if _digest(fresh) != asked["sha256"]:
            raise Refused(f"{asked['name']} came damaged")
        fresh.chmod(0o700)
        fresh.replace(path)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error
    finally:
        for file in (fresh, source):
            with contextlib.suppress(OSError):
                file.unlink()
    return {"path": str(path)}


def _fresh() -> str:
    """How the names of files that are being installed begin; machines may share home folders."""
    return f".fresh-{socket.gethostname()}-"


def remove_cut_installs() -> None:
    """Removes what processes of this machine have left that were killed while they installed a program."""
    for path in own_folder("XDG_CACHE_HOME", ".cache").glob(f"{_fresh()}*"):
        pid = path.name[len(_fresh()) :]
        if pid.isdigit() and start_of(int(pid)) is None:
            with contextlib.suppress(OSError):
                path.unlink()


def do_uninstall(asked: Change) -> Change:
    """Removes the programs of weir in the cache; with ``dry``, only names them."""
    found = sorted(own_folder("XDG_CACHE_HOME", ".cache").glob("weir-*-*"))
    if not asked.get("dry"):
        for path in found:
            path.unlink()
    return {"removed": [path.name for path in found]}

"""Congestion controls that stay loaded for other programs."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from weir._programs import find
from weir.bpf import _record
from weir.bpf._errors import BpfError, BpfRequestError
from weir.bpf._source import source_name

__all__ = ["command", "drop", "drop_all", "keep", "kept", "ours", "unpin"]

_REQUEST = 2
"""Exit code for a wrong request."""
_LISTED = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
"""The kernel's list of congestion controls."""
_LONGEST_S = 5.0
"""How long the kernel may take to remove a name from its list."""


def keep(cc: str, name: str | None = None, options: Mapping[str, int] | None = None, *, unrestricted: bool) -> str:
    """Loads ``cc`` as ``name`` (by default ``weir_NAME``) until ``drop``; returns its name in the kernel.

    Raises:
        BpfRequestError: the congestion control or an option does not exist, or the name is malformed or taken.
        BpfError: this host or its kernel cannot load it.
    """
    arguments = ["load", source_name(cc)]
    arguments += ["--as", name] if name is not None else []
    for option, value in (options or {}).items():
        arguments += ["--option", f"{option}={value}"]
    arguments += ["--unrestricted"] if unrestricted else []
    loaded = command(*arguments).strip()
    _record.note(loaded)
    return loaded


def drop(*names: str) -> list[str]:
    """Removes controls that ``keep`` loaded and returns their names, once the kernel lists them no longer; sockets that
    use them keep them.

    Raises:
        BpfRequestError: no control of that name was kept.
        BpfError: the kernel still lists one after 5 s, because another process or pin holds it.
    """
    removed = _forgotten(command("unload", *names).split()) if names else []
    _await_removal(removed)
    return removed


def drop_all() -> list[str]:
    """Removes everything that ``keep`` loaded for this user, and no other pins; returns the names removed.

    Raises:
        BpfError: the kernel refuses.
    """
    return drop(*ours())


def kept() -> list[str]:
    """The names of all pins in weir's folder of the BPF file system, of any user."""
    try:
        return sorted(path.name for path in _record.folder().iterdir())
    except OSError:
        return []


def ours() -> list[str]:
    """The names of the pins that ``keep`` made for this user."""
    return [name for name in kept() if _record.is_ours(name)]


def unpin(name: str) -> None:
    """Removes the pin ``name`` if it is one of :func:`ours`, and the folder if it was the last. Works without
    ``weir-bpf``.

    Raises:
        OSError: it cannot be removed.
    """
    if _record.is_ours(name):
        (_record.folder() / name).unlink()
        _record.forget(name)
    with contextlib.suppress(OSError):  # another user's pin keeps the folder
        _record.folder().rmdir()


def _await_removal(names: list[str]) -> None:
    """Waits until the kernel lists none of ``names``: it releases an unpinned link in deferred work."""
    deadline = time.monotonic() + _LONGEST_S
    while left := sorted(set(names) & set(_LISTED.read_text(encoding="ascii").split())):
        if time.monotonic() > deadline:
            raise BpfError(
                f"the kernel still lists {', '.join(left)} {_LONGEST_S:g} s after the pin was removed: another process "
                "or another pin holds it, or the kernel is busy; `weir cc list` says when it is gone"
            )
        time.sleep(0.01)


def _forgotten(names: list[str]) -> list[str]:
    for name in names:
        _record.forget(name)
    return names


def command(*arguments: str) -> str:
    """Runs ``weir-bpf`` with ``arguments`` and returns its output.

    Raises:
        BpfRequestError: the arguments are wrong.
        BpfError: this host or its kernel cannot do it.
    """
    ran = subprocess.run([str(find("weir-bpf")), *arguments], capture_output=True, text=True, check=False)
    if ran.returncode:
        kind = BpfRequestError if ran.returncode == _REQUEST else BpfError
        raise kind(ran.stderr.strip().removeprefix("weir-bpf: ") or f"weir-bpf ended with code {ran.returncode}")
    return ran.stdout

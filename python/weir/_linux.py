"""Lists the congestion controls of this host's Linux, loaded or as modules, without loading any."""

from __future__ import annotations

import platform
import re
from functools import cache
from pathlib import Path

__all__ = ["available", "has"]

_AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
_MODULES = Path("/lib/modules")
_MODULE = re.compile(r"tcp_([A-Za-z0-9_.-]+?)\.ko")


def available() -> tuple[str, ...] | None:
    """The names in the kernel's list, sorted; ``None`` if this host has no such list."""
    try:
        return tuple(sorted(_AVAILABLE.read_text(encoding="utf-8").split()))
    except OSError:
        return None


def has(name: str) -> bool:
    """Whether a socket of this host can choose ``name``: it is in the list, or Linux finds its module, ``tcp_NAME``."""
    return name in (available() or ()) or name in _modules(platform.release())


@cache
def _modules(release: str) -> frozenset[str]:
    """The controls in the modules of this kernel, by their file names."""
    try:
        listed = (_MODULES / release / "modules.dep").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    return frozenset(
        _MODULE.findall(" ".join(line.partition(":")[0].rpartition("/")[2] for line in listed.split("\n")))
    )

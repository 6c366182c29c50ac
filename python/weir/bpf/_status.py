"""What this host can do, and what is loaded."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from weir.bpf._pins import command

__all__ = ["KernelCc", "Status", "status"]

_OURS = re.compile(r"weir_|w[0-9a-f]+\.[0-9a-f]+_")
"""Names that ``keep`` and ``Loader`` give: without privileges the kernel does not say what is behind a name."""


@dataclass(frozen=True)
class KernelCc:
    """A congestion control of weir in the kernel."""

    name: str
    """By which sockets choose it."""
    cc: str | None
    """The registered congestion control; none for a user's own."""
    pinned: bool
    """Kept for other programs; otherwise a process holds it."""


@dataclass(frozen=True)
class Status:
    """What ``weir-bpf status`` says."""

    release: str
    """``uname -r``."""
    hz: int
    """Jiffies a second."""
    clock_ns: int
    """Granularity of the clock that TCP's microseconds are taken from, nanoseconds."""
    why_not: str | None
    """Why nothing can be loaded, with the remedy; ``None`` if it can."""
    available: tuple[str, ...]
    """Names in the kernel's list, the loaded ones among them."""
    allowed: tuple[str, ...]
    """Of those, what processes without ``CAP_NET_ADMIN`` may choose."""
    loaded: tuple[KernelCc, ...]
    """What weir has loaded, in whatever process."""

    @property
    def own(self) -> tuple[str, ...]:
        """Names of the kernel's own congestion controls: what ``linux:NAME`` may name."""
        ours = {cc.name for cc in self.loaded}
        return tuple(name for name in self.available if name not in ours and not _OURS.match(name))


def status() -> Status:
    """Asks the kernel.

    Raises:
        BpfError: it cannot be asked.
        weir._programs.ProgramError: ``weir-bpf`` is not there.
    """
    said = json.loads(command("status"))
    return Status(
        release=said["release"],
        hz=said["hz"],
        clock_ns=said["clock_ns"],
        why_not=said["why_not"],
        available=tuple(said["available"]),
        allowed=tuple(said["allowed"]),
        loaded=tuple(KernelCc(**cc) for cc in said["loaded"]),
    )

"""The capabilities of this host, and the loaded congestion controls."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from weir.bpf._pins import command

__all__ = ["KernelCc", "Status", "status"]

_OURS = re.compile(r"weir_|w[0-9a-f]+\.[0-9a-f]+_")
"""Names that ``keep`` and ``Loader`` give. Without privileges, the kernel does not reveal what a name stands for."""


@dataclass(frozen=True)
class KernelCc:
    """A congestion control of weir in the kernel."""

    name: str
    """The name by which sockets choose it."""
    cc: str | None
    """The registered congestion control; ``None`` for a user's own."""
    pinned: bool
    """Whether it is kept for other programs; otherwise a process holds it."""


@dataclass(frozen=True)
class Status:
    """The output of ``weir-bpf status``."""

    release: str
    """``uname -r``."""
    hz: int
    """Jiffies per second."""
    clock_ns: int
    """Granularity of the clock behind TCP's microseconds, nanoseconds."""
    why_not: str | None
    """Why nothing can be loaded, with the remedy; ``None`` if it can."""
    available: tuple[str, ...]
    """Names in the kernel's list, including the loaded ones."""
    allowed: tuple[str, ...]
    """The available names that processes without ``CAP_NET_ADMIN`` may choose."""
    loaded: tuple[KernelCc, ...]
    """Controls that weir has loaded, in any process."""

    @property
    def own(self) -> tuple[str, ...]:
        """Names of the kernel's own congestion controls, for ``linux:NAME``."""
        ours = {cc.name for cc in self.loaded}
        return tuple(name for name in self.available if name not in ours and not _OURS.match(name))


def status() -> Status:
    """Asks the kernel.

    Raises:
        BpfError: the kernel cannot be asked.
        weir._programs.ProgramError: ``weir-bpf`` is missing.
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

"""Queues of a plan as queueing disciplines of Linux: the arguments of ``tc``.

Pure. A discipline counts the bytes of a packet as its device has it: IP bytes, or with a size table (``stab``) those on
the wire, as the plan does. Each queue's module in :mod:`weir.queues` knows the kernel's equivalent.
"""

from __future__ import annotations

from weir import queues
from weir.plan import Link

__all__ = ["arguments", "obstacle"]


def obstacle(link: Link) -> str | None:
    """The property of ``link``'s queue that no discipline of the kernel has; ``None`` if one is equivalent."""
    limit = link.queue.limit
    if limit.bytes and limit.packets:
        return "a limit in bytes and one in packets at once"
    return queues.of(link.queue).obstacle(link)


def arguments(link: Link, *, on_wire: bool = False) -> str:
    """The discipline that is the queue of ``link``; ``on_wire``: it counts bytes on the wire."""
    return queues.of(link.queue).arguments(link, on_wire=on_wire)

"""Queues of a plan as queueing disciplines of Linux: the commands of ``tc``.

Pure. A discipline counts the bytes of a packet as its device has it: IP bytes, or with a size table (``stab``) those on
the wire, as the plan does. Each queue's module in :mod:`weir.queues` knows the kernel's equivalent, and the queues that
are below it. Here they become a tree of disciplines, with the filters that find the class of a packet.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from weir import queues
from weir.plan import Link, Members, queue_classes, wire_bytes
from weir.queues import Below

__all__ = ["QUEUE", "Leaf", "commands", "leaves", "obstacle"]

QUEUE = 3
"""Handle of the discipline that is the queue of a link."""
_BAND = 4
"""Handle of a band of strict priority between a token bucket and the queue of a link."""
_FIRST_BELOW = 0x10
"""Handle of the first discipline below the queue of a link."""
_BY_FLOW, _BY_POINT, _REST = 1, 2, 3
"""Precedence of filters, as in the classifier of ``weir-elements``."""


@dataclass(frozen=True)
class Leaf:
    """The discipline that is the queue of a class."""

    handle: int
    marks_word: int | None
    """Where it counts marks (:attr:`weir.queues.Discipline.marks_word`)."""


@dataclass(frozen=True)
class _Tree:
    """A discipline, or a class with classes, and what is below it."""

    handle: int
    """Its handle; that of its discipline, if it is a class."""
    band: int | None
    """Handle of a band of strict priority above it, which dequeues also when it is empty."""
    link: Link
    """The link, with the queue that this discipline is."""
    role: Below | None
    """What it is in the discipline above."""
    below: tuple[_Tree, ...]


def obstacle(link: Link, *, on_wire: bool = False) -> str | None:
    """The property of ``link``'s queue that no discipline of the kernel has; ``None`` if one is equivalent.

    Args:
        on_wire: There is a size table; otherwise disciplines count IP bytes.
    """
    limit = link.queue.limit
    discipline = queues.of(link.queue)
    if limit.bytes and limit.packets:
        return "a limit in bytes and one in packets at once"
    if discipline.needs_wire_sizes and not on_wire and wire_bytes(link, 0):
        return f"a queue {discipline.kind}, which needs the sizes of packets on the wire"
    if (why := discipline.obstacle(link)) is not None:
        return why
    for one in _leaves_below(link):
        inside = replace(link, queue=one.queue)
        place = f"class {one.name}: " if one.name else ""
        if not discipline.asks_when_empty and _ages(inside):
            return f"{place}a queue below {discipline.kind}, which does not tell it that it is empty"
        if (why := obstacle(inside, on_wire=on_wire)) is not None:
            return place + why
    return None


def commands(
    link: Link, parent: str, first_port: int, *, on_wire: bool = False, in_bucket: bool = False
) -> Iterator[tuple[str, str]]:
    """The disciplines, classes and filters that are the queue of ``link``, in the order in which they are made.

    Args:
        parent: Where it is added, as ``root`` or ``parent 2:1``.
        first_port: Port of flow 0; that of flow n is n more.
        on_wire: It counts bytes on the wire; otherwise IP bytes.
        in_bucket: The discipline above dequeues only packets that it has seen.

    Returns:
        For each command the object (``qdisc``, ``class`` or ``filter``) and the words behind the device.
    """
    tree = _tree(link, QUEUE, _BAND if in_bucket and _ages(link) else None, None, itertools.count(_FIRST_BELOW))
    return _commands(tree, parent, first_port, on_wire=on_wire)


def leaves(link: Link) -> tuple[Leaf, ...]:
    """The queues of the classes of ``link``'s queue, in the order of table ``classes``; none if it has no classes."""
    if not queue_classes(link.queue):
        return ()
    tree = _tree(link, QUEUE, None, None, itertools.count(_FIRST_BELOW))
    return tuple(Leaf(one.handle, queues.of(one.link.queue).marks_word) for one in _ends(tree))


def _leaves_below(link: Link) -> Iterator[Below]:
    for one in queues.of(link.queue).below(link):
        yield from one.leaves()


def _ends(tree: _Tree) -> Iterator[_Tree]:
    if not tree.below:
        yield tree
    for one in tree.below:
        yield from _ends(one)


def _ages(link: Link) -> bool:
    """Whether the state of a queue, or of one below it that is told, changes while it is empty."""
    below = (replace(link, queue=one.queue) for one in _leaves_below(link))
    return queues.of(link.queue).ages_when_empty or any(map(_ages, below))


def _tree(link: Link, handle: int, band: int | None, role: Below | None, handles: Iterator[int]) -> _Tree:
    below = queues.of(link.queue).below(link)
    return _Tree(handle, band, link, role, tuple(_branch(link, handle, one, handles) for one in below))


def _branch(link: Link, above: int, one: Below, handles: Iterator[int]) -> _Tree:
    """What is ``one`` below the discipline ``above``, which is the queue of ``link``."""
    if one.inner:
        return _Tree(above, None, link, one, tuple(_branch(link, above, inner, handles) for inner in one.inner))
    inside = replace(link, queue=one.queue)
    handle = next(handles)
    band = next(handles) if queues.of(link.queue).looks_first and _ages(inside) else None
    return _tree(inside, handle, band, one, handles)


def _commands(tree: _Tree, parent: str, first_port: int, *, on_wire: bool) -> Iterator[tuple[str, str]]:
    if tree.band is not None:
        yield "qdisc", f"{parent} handle {tree.band:x}: ets bands 1 strict 1"
        parent = f"parent {tree.band:x}:1"
    arguments = queues.of(tree.link.queue).arguments(tree.link, on_wire=on_wire)
    yield "qdisc", f"{parent} handle {tree.handle:x}: {arguments}"
    yield from _below(tree, f"{tree.handle:x}:", first_port, on_wire=on_wire)


def _below(tree: _Tree, sorted_at: str, first_port: int, *, on_wire: bool) -> Iterator[tuple[str, str]]:
    """What is below a discipline or a class, whose packets filters at ``sorted_at`` sort into its classes."""
    above = f"{tree.handle:x}:"
    if tree.role is not None and tree.role.inner:
        above += f"{tree.role.minor:x}"
    for one in tree.below:
        role = one.role
        assert role is not None
        class_id = f"{tree.handle:x}:{role.minor:x}"
        if role.words:
            yield "class", f"parent {above} classid {class_id} {role.words}"
        if role.inner:
            inside = sorted_at if role.members is None else class_id
            yield from _below(one, inside, first_port, on_wire=on_wire)
        else:
            yield from _commands(one, f"parent {class_id}", first_port, on_wire=on_wire)
        if role.members is not None:
            filters = _filters(role.members, first_port)
            yield from (("filter", f"parent {sorted_at} {words} classid {class_id}") for words in filters)


def _filters(members: Members, first_port: int) -> Iterator[str]:
    """The filters for the packets of a class, without its name: by flows, in both directions, then by code points."""
    for port in (first_port + flow for flow in members.flows):
        for protocol in ("tcp", "udp"):
            for side in ("dst_port", "src_port"):
                yield f"protocol ip prio {_BY_FLOW} flower ip_proto {protocol} {side} {port}"
    for point in members.dscp:
        yield f"protocol ip prio {_BY_POINT} flower ip_tos {point << 2:#x}/0xfc"
    if members.rest:
        yield f"protocol ip prio {_REST} matchall"

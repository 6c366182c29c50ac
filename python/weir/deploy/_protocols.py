"""Protocols that a kernel may lack."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from weir.deploy.node.facts import do_sockets
from weir.plan import Plan, kind_of

__all__ = ["lacking_protocol", "missing"]

_SOCK_DCCP = 6
_SOCKETS = {
    "dccp": ("DCCP", _SOCK_DCCP, 33),
    "mptcp": ("MPTCP", socket.SOCK_STREAM, 262),
    "sctp": ("SCTP", socket.SOCK_STREAM, 132),
}
"""Name, type and number of protocols that have sockets of their own."""

Asked = Sequence[tuple[int, int]]
"""Type and number of sockets."""


def lacking_protocol(plan: Plan) -> str | None:
    """The transport protocol of ``plan`` that this host's kernel lacks, for people; sends nothing."""
    kinds = {kind_of(flow.transport) for flow in plan.flows}
    why = missing(kinds, lambda sockets: do_sockets({"sockets": sockets})["lacking"])
    return None if why is None else f"{why[0]}: the kernel of this host has no {why[1]}"


def missing(kinds: set[str], ask: Callable[[Asked], Sequence[bool]]) -> tuple[str, str] | None:
    """The first of ``kinds`` of transports that a kernel lacks: the key of a scenario, and the protocol's name.

    Args:
        kinds: Of the flows' transports.
        ask: Says for each of some sockets whether the kernel lacks it. It is not called without such kinds.
    """
    known = sorted(kinds & _SOCKETS.keys())
    lacking = ask([_SOCKETS[kind][1:] for kind in known]) if known else []
    for kind, lacks in zip(known, lacking, strict=True):
        if lacks:
            return f"protocol: {kind}", _SOCKETS[kind][0]
    return None

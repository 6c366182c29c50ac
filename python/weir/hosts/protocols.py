"""Protocols that a kernel may lack."""

from __future__ import annotations

import contextlib
import errno
import socket

from weir.plan import Plan, kind_of

__all__ = ["lacking_protocol"]

_SOCK_DCCP = 6
_SOCKETS = {
    "dccp": ("DCCP", _SOCK_DCCP, 33),
    "mptcp": ("MPTCP", socket.SOCK_STREAM, 262),
    "sctp": ("SCTP", socket.SOCK_STREAM, 132),
}
"""Name, type and number of protocols that have sockets of their own."""
_LACKING = {errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT, errno.EAFNOSUPPORT, errno.ENOPROTOOPT}


def lacking_protocol(plan: Plan) -> str | None:
    """The transport protocol of ``plan`` that this host's kernel lacks, for people; sends nothing."""
    for kind in sorted({kind_of(flow.transport) for flow in plan.flows}):
        if kind not in _SOCKETS:
            continue
        name, socket_type, number = _SOCKETS[kind]
        if _lacks(socket_type, number):
            return f"protocol: {kind}: the kernel of this host has no {name}"
    return None


def _lacks(socket_type: int, number: int) -> bool:
    try:
        with contextlib.closing(socket.socket(socket.AF_INET, socket_type, number)):
            return False
    except OSError as error:
        return error.errno in _LACKING

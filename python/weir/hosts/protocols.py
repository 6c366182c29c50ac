"""Protocols that a kernel may lack."""

from __future__ import annotations

import contextlib
import errno
import socket

from weir.plan import Plan, kind_of

__all__ = ["lacking_protocol"]

_NUMBERS = {"sctp": ("SCTP", 132), "mptcp": ("MPTCP", 262)}
"""Name and number of protocols that have sockets of their own."""
_LACKING = {errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT, errno.EAFNOSUPPORT, errno.ENOPROTOOPT}


def lacking_protocol(plan: Plan) -> str | None:
    """The transport protocol of ``plan`` that this host's kernel lacks, for people; sends nothing."""
    for kind in sorted({kind_of(flow.transport) for flow in plan.flows}):
        name, number = _NUMBERS.get(kind, ("", 0))
        if number and _lacks(number):
            return f"protocol: {kind}: the kernel of this host has no {name}"
    return None


def _lacks(number: int) -> bool:
    try:
        with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM, number)):
            return False
    except OSError as error:
        return error.errno in _LACKING

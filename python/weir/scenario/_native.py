"""The settings of MPTCP and SCTP of one flow: transports that only a real kernel has."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from weir.language.problem import Log
from weir.plan import native_payload_bytes

from ._lang_transport import LINUX, Transport, only_keys
from ._lang_workload import Workload
from ._network import Path as Way
from ._transport import buffer_bytes, buffer_of

__all__ = ["PROTOCOLS", "UNTRACED", "Native", "native_plan"]

_KEYS = frozenset({"protocol", "cc", "buffers", "send_buffer", "receive_buffer"})
_LINUX = "linux:"


PROTOCOLS = {"mptcp": "MPTCP", "sctp": "SCTP"}
"""Their names in sentences, by those in a scenario."""
UNTRACED = {**PROTOCOLS, "dccp": "DCCP"}
"""Transports of which no trace has packets."""


class Native:
    """The settings of an entry over such a protocol, for any of its flows."""

    def __init__(self, spec: Transport, entry: Workload, base: Transport, log: Log) -> None:
        assert spec.protocol is not None
        self.spec = spec
        self.mark = entry.mark
        self.log = log
        self.name = spec.protocol
        self.title = PROTOCOLS[self.name]
        text = f"{self.title} has no `{{}}` here: the kernel's defaults hold"
        asked = only_keys(_KEYS, self.name, entry.transport, base, text.format, log)
        self.cc = self._control(asked)
        own = spec.buffers
        self.send = buffer_of(spec.send_buffer or own, LINUX.send_buffer)
        self.receive = buffer_of(spec.receive_buffer or own, LINUX.receive_buffer)

    def _control(self, asked: list[Transport]) -> str:
        own = next((part.cc for part in asked if part.cc is not None), None)
        given = own or (self.spec.cc if self.name == "mptcp" else None)
        where = self.mark if given is None else given.mark
        if given is not None and given.options:
            option = given.options[0][0]
            text = f"`{given.name}` of {self.title} has no option `{option}`"
            raise self.log.error(given.marks.get(option, given.mark), text)
        name = None if given is None else given.name
        match self.name:
            case "mptcp" if name is None or not name.startswith(_LINUX):
                found = "" if name is None else f", not `{name}`"
                text = f"MPTCP takes a congestion control of the kernel: give `transport: {{cc: linux:cubic}}`{found}"
                raise self.log.error(where, text)
            case "sctp" if name is not None:
                raise self.log.error(where, f"SCTP has one congestion control (RFC 9260): leave out `cc: {name}`")
        return name or "sctp"


def native_plan(settings: Native, path: Way, rtt: int) -> dict[str, Any]:
    """The settings of a flow on ``path`` with base RTT ``rtt`` (ns), in the form of the plan."""
    payload = native_payload_bytes(settings.name, path.mtu)
    send = buffer_bytes(settings, "send", settings.send, path, rtt, payload)
    receive = buffer_bytes(settings, "receive", settings.receive, path, rtt, payload)
    bdp = int(Fraction(path.rate * rtt) / 8_000_000_000)
    if min(send, receive) < bdp:
        text = f"the smaller buffer of {min(send, receive)} bytes is below the path's BDP of {bdp} bytes"
        settings.log.info(settings.mark, text)
    return {
        "protocol": settings.name,
        "cc": settings.cc,
        "payload_bytes": payload,
        "send_buffer_bytes": send,
        "receive_buffer_bytes": receive,
    }

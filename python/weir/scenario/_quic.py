"""The settings of QUIC of one flow."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from weir.language.problem import Log, listing
from weir.plan import UDP_HEADERS

from ._lang_transport import LINUX, Transport, only_keys
from ._lang_workload import Workload
from ._network import Path as Way
from ._transport import buffer_bytes, buffer_of

__all__ = ["Quic", "quic_plan"]

_CONTROLS = ("reno", "cubic", "bbr")
"""The congestion controls of the library (``QUIC_CONTROLS`` of ``crates/weir-plan``)."""
_KEYS = frozenset({"protocol", "cc", "buffers", "send_buffer", "receive_buffer", "initial_window"})
_MIN_PAYLOAD = 1200
_MAX_PAYLOAD = 65_507
_WHY = {
    "stack": "its stack is quinn",
    "sack": "its acknowledgements are always selective",
    "ecn": "weir does not pass marks to it",
    "accecn": "weir does not pass marks to it",
    "timestamps": "it has none",
    "mss": "a packet fills the path's MTU",
    "pacing": "it always paces",
    "ack": "it acknowledges every second packet",
    "timer": "its host takes its own time",
    "ccid": "`cc` chooses its congestion control",
    "processing": "its host takes its own time",
    "initial_ssthresh": "its slow start ends at a loss",
    "jump_start": "it begins with slow start",
    "quick_start": "it begins with slow start",
    "txqueuelen": "its host has the queue of the topology",
    "sack_cost": "its host is that of today",
    "backlog": "its host is that of today",
    "moderation": "its host is that of today",
}
"""Why QUIC has not the other settings."""


class Quic:
    """The QUIC settings of an entry, for any of its flows."""

    def __init__(self, spec: Transport, entry: Workload, base: Transport, log: Log) -> None:
        self.spec = spec
        self.mark = entry.mark
        self.log = log
        only_keys(_KEYS, "quic", entry.transport, base, lambda name: f"QUIC has no `{name}`: {_WHY[name]}", log)
        if spec.cc is None:
            raise log.error(entry.mark, f"no congestion control: give `transport: {{cc: {_CONTROLS[0]}}}`")
        if spec.cc.name not in _CONTROLS:
            text = f"QUIC has no congestion control `{spec.cc.name}`; it has {listing(_CONTROLS)}, those of quinn"
            raise log.error(spec.cc.mark, text)
        if spec.cc.options:
            name = spec.cc.options[0][0]
            raise log.error(spec.cc.marks.get(name, spec.cc.mark), f"`{spec.cc.name}` of QUIC has no option `{name}`")
        self.cc = spec.cc.name
        self.initial_window = LINUX.initial_window if spec.initial_window is None else spec.initial_window
        own = spec.buffers
        self.send = buffer_of(spec.send_buffer or own, LINUX.send_buffer)
        self.receive = buffer_of(spec.receive_buffer or own, LINUX.receive_buffer)


def quic_plan(settings: Quic, path: Way, rtt: int) -> dict[str, Any]:
    """The QUIC settings of a flow on ``path`` with base RTT ``rtt`` (ns), in the form of the plan."""
    payload = min(path.mtu - UDP_HEADERS, _MAX_PAYLOAD)
    if payload < _MIN_PAYLOAD:
        mark = settings.spec.marks.get("protocol", settings.mark)
        least = _MIN_PAYLOAD + UDP_HEADERS
        raise settings.log.error(mark, f"the path's MTU is {path.mtu}; QUIC needs {least} (RFC 9000, section 14)")
    send = buffer_bytes(settings, "send", settings.send, path, rtt, payload)
    receive = buffer_bytes(settings, "receive", settings.receive, path, rtt, payload)
    bdp = int(Fraction(path.rate * rtt) / 8_000_000_000)
    if min(send, receive) < bdp:
        text = f"the smaller buffer of {min(send, receive)} bytes is below the path's BDP of {bdp} bytes"
        settings.log.info(settings.mark, text)
    return {
        "protocol": "quic",
        "cc": settings.cc,
        "payload_bytes": payload,
        "initial_window": settings.initial_window,
        "send_buffer_bytes": send,
        "receive_buffer_bytes": receive,
    }

"""The settings of UDT of one flow."""

from __future__ import annotations

from typing import Any

from weir.language.problem import Log
from weir.plan import UDT_HEADERS

from ._lang_transport import Transport, only_keys
from ._lang_workload import Bulk, Transfer, Workload
from ._network import Path as Way
from ._transport import buffer_bytes, buffer_of

__all__ = ["Udt", "udt_plan"]

_KEYS = frozenset({"protocol", "buffers", "send_buffer", "receive_buffer", "timer"})
_PACKETS = 8192
"""Packets that the library's buffers hold."""
_PACKET = 1456
"""Payload of a packet of 1500 bytes."""
_MAX_PAYLOAD = 65_535 - UDT_HEADERS
_LEAST_TICK, _MOST_TICK = 1_000, 1_000_000_000
"""Bounds of a timer's tick in nanoseconds: below, it bounds nothing; above, no connection would be set up."""


class Udt:
    """The UDT settings of an entry, for any of its flows."""

    def __init__(self, spec: Transport, entry: Workload, base: Transport, log: Log) -> None:
        self.spec = spec
        self.mark = spec.marks.get("protocol", entry.mark)
        self.log = log
        if not isinstance(entry, Bulk | Transfer):
            raise log.error(self.mark, "UDT carries entries of `kind: bulk` and `kind: transfer` only")
        text = "UDT has no `{}`: it has its own congestion control, buffers and `timer`"
        only_keys(_KEYS, "udt", entry.transport, base, text.format, log)
        self.timer = spec.timer or 0
        if self.timer and not _LEAST_TICK <= self.timer <= _MOST_TICK:
            raise log.error(spec.marks.get("timer", entry.mark), "expected a tick from 1us to 1s, or 0s for none")
        default = _PACKETS * _PACKET
        self.send = buffer_of(self._own("send_buffer", entry, base), default)
        self.receive = buffer_of(self._own("receive_buffer", entry, base), default)

    def _own(self, key: str, entry: Workload, base: Transport) -> Any:
        """A buffer of the entry, or of the scenario if its settings are those of UDT."""
        parts = [entry.transport, *([base] if base.protocol == "udt" else [])]
        given = [getattr(part, name) for part in parts for name in (key, "buffers")]
        return next((amount for amount in given if amount is not None), None)


def udt_plan(settings: Udt, path: Way, rtt: int) -> dict[str, Any]:
    """The UDT settings of a flow on ``path`` with base RTT ``rtt`` (ns), in the form of the plan."""
    payload = min(path.mtu - UDT_HEADERS, _MAX_PAYLOAD)
    if payload < 1:
        text = f"the path's MTU is {path.mtu}; UDT needs more than {UDT_HEADERS}"
        raise settings.log.error(settings.mark, text)
    plan = {
        "protocol": "udt",
        "payload_bytes": payload,
        "send_buffer_bytes": buffer_bytes(settings, "send", settings.send, path, rtt, payload),
        "receive_buffer_bytes": buffer_bytes(settings, "receive", settings.receive, path, rtt, payload),
    }
    return {**plan, "timer_ns": settings.timer} if settings.timer else plan

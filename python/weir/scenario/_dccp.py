"""The settings of DCCP of one flow."""

from __future__ import annotations

from typing import Any

from weir.language.problem import Log
from weir.plan import DCCP_HEADERS, DCCP_OPTIONS, LEAST_DCCP_BYTES

from ._lang_transport import Transport, only_keys
from ._lang_workload import Bulk, Workload
from ._network import Path as Way

__all__ = ["Dccp", "dccp_plan"]

_MAX_PAYLOAD = 65_000
_KEYS = frozenset({"protocol", "ccid"})
_CCID = 2


class Dccp:
    """The DCCP settings of an entry, for any of its flows."""

    def __init__(self, spec: Transport, entry: Workload, base: Transport, log: Log) -> None:
        self.mark = spec.marks.get("protocol", entry.mark)
        self.log = log
        if not isinstance(entry, Bulk):
            raise log.error(self.mark, "DCCP has no end of a transfer, for what is lost stays lost: `kind: bulk` only")
        text = "DCCP has no `{}` here: `ccid` chooses its congestion control, 2 or 3"
        only_keys(_KEYS, "dccp", entry.transport, base, text.format, log)
        self.ccid = _CCID if spec.ccid is None else spec.ccid


def dccp_plan(settings: Dccp, path: Way) -> dict[str, Any]:
    """The DCCP settings of a flow on ``path``, in the form of the plan."""
    payload = min(path.mtu - DCCP_HEADERS - DCCP_OPTIONS, _MAX_PAYLOAD)
    if payload < LEAST_DCCP_BYTES:
        least = LEAST_DCCP_BYTES + DCCP_HEADERS + DCCP_OPTIONS
        raise settings.log.error(settings.mark, f"the path's MTU is {path.mtu}; DCCP needs {least}")
    return {"protocol": "dccp", "ccid": settings.ccid, "payload_bytes": payload}

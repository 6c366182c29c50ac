"""The settings of TFRC of one flow."""

from __future__ import annotations

from typing import Any

from weir.language.problem import Log
from weir.plan import LEAST_TFRC_BYTES, UDP_HEADERS

from ._lang_transport import Transport, only_keys
from ._lang_workload import Bulk, Workload
from ._network import Path as Way

__all__ = ["Tfrc", "tfrc_plan"]

_MAX_PAYLOAD = 65_507
_KEYS = frozenset({"protocol"})


class Tfrc:
    """The TFRC settings of an entry, for any of its flows."""

    def __init__(self, spec: Transport, entry: Workload, base: Transport, log: Log) -> None:
        self.mark = spec.marks.get("protocol", entry.mark)
        self.log = log
        if not isinstance(entry, Bulk):
            raise log.error(self.mark, "TFRC has no end of a transfer: it carries `kind: bulk` only")
        text = "TFRC has no `{}`: the throughput equation alone sets its rate"
        only_keys(_KEYS, "tfrc", entry.transport, base, text.format, log)


def tfrc_plan(settings: Tfrc, path: Way) -> dict[str, Any]:
    """The TFRC settings of a flow on ``path``, in the form of the plan."""
    payload = min(path.mtu - UDP_HEADERS, _MAX_PAYLOAD)
    if payload < LEAST_TFRC_BYTES:
        least = LEAST_TFRC_BYTES + UDP_HEADERS
        raise settings.log.error(settings.mark, f"the path's MTU is {path.mtu}; TFRC needs {least}")
    return {"protocol": "tfrc", "payload_bytes": payload}

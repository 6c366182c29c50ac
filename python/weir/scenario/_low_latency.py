"""Remarks on scalable flows that the coupled queue takes for classic ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weir.language.problem import Log

from ._network import Network
from ._transport import controls_that

__all__ = ["remark_on_classic_marks"]


def remark_on_classic_marks(net: Network, links: Sequence[Mapping[str, Any]], flows: Sequence[Any], log: Log) -> None:
    """Warns where a control for many marks sends ECT(0) through coupled queues, which mark it seldom (RFC 9332)."""
    mistaken = controls_that("needs_ecn") - controls_that("needs_accecn")
    for index, (link, plan) in enumerate(zip(net.links, links, strict=True)):
        queue = plan["queue"]
        if queue.get("any_ect", True):
            continue
        for flow in flows:
            tcp = flow["transport"]
            if index in flow["path"] and tcp.get("ecn") and tcp.get("cc") in mistaken:
                log.warn(
                    link.mark,
                    f"`{tcp['cc']}` of flow `{flow['name']}` sends ECT(0), which `{queue['kind']}` takes for "
                    "classic traffic; `any_ect: true` puts it into the low-latency queue",
                )
                break

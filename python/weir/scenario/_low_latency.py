"""Remarks on flows that the coupled queues of L4S take for what they are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weir.cc import controls_that, is_file_name
from weir.language.problem import Log
from weir.language.spec import Spec

from ._network import Network

__all__ = ["remark_on_classic_marks"]


def remark_on_classic_marks(net: Network, links: Sequence[Mapping[str, Any]], flows: Sequence[Any], log: Log) -> None:
    """Warns where a control for many marks sends ECT(0) through coupled queues, which mark it seldom (RFC 9332), and
    where another does so through queues with ``any_ect``, which mark it often.
    """
    for index, (link, plan) in enumerate(zip(net.links, links, strict=True)):
        queue = plan["queue"]
        if "any_ect" not in queue:
            continue
        for flow in flows:
            if index in flow["path"] and (why := _mistaken(flow["transport"], queue)) is not None:
                place = link.queue.mark if isinstance(link.queue, Spec) else link.mark
                log.warn(place, f"`{flow['transport']['cc']}` of flow `{flow['name']}` sends ECT(0), which {why}")
                break


def _mistaken(tcp: Mapping[str, Any], queue: Mapping[str, Any]) -> str | None:
    """What the queue does with ECT(0) of this transport, if that is not what its control expects."""
    if not tcp.get("ecn") or is_file_name(tcp["cc"]):
        return None
    name = tcp["cc"].removeprefix("linux:")
    if name in controls_that("needs_accecn"):  # it sends ECT(1); methods with a kernel refuse it where that matters
        return None
    if name in controls_that("needs_ecn"):
        if queue["any_ect"]:
            return None
        return f"`{queue['kind']}` takes for classic traffic; `any_ect: true` puts it into the low-latency queue"
    if queue["any_ect"] and name not in controls_that("has_cong_control"):  # those do not react to marks at all
        return "`any_ect: true` puts into the low-latency queue; it takes the many marks there for losses"
    return None

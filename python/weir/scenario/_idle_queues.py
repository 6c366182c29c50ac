"""Remarks on queues that never do what they are for, such as shapers that are faster than their link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weir import queues
from weir.language.problem import Log
from weir.language.spec import Spec

from ._network import Link, Network

__all__ = ["remark_on_idle_queues"]


def remark_on_idle_queues(
    net: Network, links: Sequence[Mapping[str, Any]], changes: Sequence[Mapping[str, Any]], log: Log
) -> None:
    """Warns of queues in the plans ``links`` that do nothing, unless a change gives them or their link a new rate."""
    changed = {one["link"] for one in changes if "rate_bps" in one["change"] or "rates" in one["change"]}
    for index, (link, plan) in enumerate(zip(net.links, links, strict=True)):
        if index not in changed:
            _look(link.queue, plan["queue"], link, log)


def _look(spec: Any, queue: Mapping[str, Any], link: Link, log: Log) -> None:
    if not isinstance(spec, Spec):  # a size, or nothing
        return
    why = queues.discipline(queue["kind"]).idle(queue, link.rate)
    if why is not None:
        log.warn(spec.at("rate"), why)
    within = queues.inner(queue)
    if within is not None:
        _look(getattr(spec, "queue", None), within, link, log)
    if made := queues.children(queue):
        given: Mapping[str, Any] = spec.classes  # type: ignore[attr-defined]  # those of each scheduler
        for one, child in zip(given.values(), made, strict=True):
            _look(one.queue, child["queue"], link, log)

"""Transmit queues of sending hosts (``txqueuelen``), as far as the transport of their flows determines them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from weir.language.problem import Log

from ._flows import Group
from ._lang_queues import packets
from ._network import Network
from ._transport import Resolved

__all__ = ["set_transmit_queues"]


def set_transmit_queues(groups: Iterable[Group], net: Network, links: list[dict[str, Any]], log: Log) -> None:
    """Writes the lengths that flows' transports give into the plans of their hosts' links.

    A length in a scenario's transport replaces the topology's. That of a stack applies only where neither gives one.

    Raises:
        Invalid: flows of one host give different lengths.
    """
    lengths: dict[int, int] = {}
    given: dict[int, int] = {}
    for link, settings in _senders(groups, net):
        length = settings.spec.txqueuelen
        if length is not None and given.setdefault(link, length) != length:
            host = net.nodes[net.links[link].start][0]
            text = f"host `{host}` has one transmit queue, and other flows give it `txqueuelen: {given[link]}`"
            raise log.error(settings.spec.marks.get("txqueuelen", settings.mark), text)
        if settings.txqueuelen is not None and net.links[link].queue_is_default:
            lengths[link] = min(settings.txqueuelen, lengths.get(link, settings.txqueuelen))
    for link, length in (lengths | given).items():
        net.links[link].queue = packets(length)
        links[link] = net.links[link].plan(net.rtt, log)


def _senders(groups: Iterable[Group], net: Network) -> Iterator[tuple[int, Resolved]]:
    """The first link of each flow that sends by TCP, and the settings of the flow."""
    for group in groups:
        if not isinstance(group.transport, Resolved):
            continue
        for link in sorted({flow.path.links[0] for flow in group.flows}):
            if net.links[link].nic:
                yield link, group.transport

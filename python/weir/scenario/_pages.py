"""The pages of users: the connection of each object, and what it waits for.

Objects are assigned to connections when the plan is compiled, so that all methods fetch the same objects over the same
connections. A browser gives an object to the first free connection. Here it goes to the connection with the least work
so far; an object counts as its bytes plus one initial window, the data of the round trip that its request takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate
from typing import Any

from ._distribution import Distribution
from ._lang_web import Web
from ._sources import Flow, Sources

__all__ = ["connections"]

Transfer = dict[str, Any]

_REQUEST_BYTES = 14_600
"""Bytes that a round trip counts: an initial window of ten segments (RFC 6928)."""


@dataclass(frozen=True)
class Page:
    """One page: the pause before it, the document's size, the pause after that, the sizes of the other objects."""

    think_ns: int
    document: int
    parse_ns: int
    objects: list[int]

    def least_ns(self, rate: int, rtt: int) -> int:
        """Minimum duration over a path of ``rate`` bit/s: its bytes, and a round trip per request."""
        trips = 2 if self.objects else 1
        size = self.document + sum(self.objects)
        return self.think_ns + self.parse_ns + max(1, size * 8_000_000_000 // rate) + trips * rtt


def connections(entry: Web, sources: Sources, flow: Flow, name: str, horizon: int) -> list[list[Transfer]]:
    """The transfers of each connection of a user, in the form of the plan, for ``horizon`` ns.

    A connection without objects has none.
    """
    pages = _pages(entry, sources, flow, name, horizon)
    sources.check_bytes(name, sum(page.document + sum(page.objects) for page in pages))
    lists: list[list[Transfer]] = [[] for _ in range(entry.connections)]
    last: list[tuple[int, int]] = []
    for number, page in enumerate(pages):
        last = _add(lists, number, page, last)
    return lists


def _add(lists: list[list[Transfer]], number: int, page: Page, before: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Adds a page after the last objects of the previous one; returns its last objects, by connection and number."""
    document = (0, len(lists[0]))
    lists[0].append(_transfer(page.think_ns, page.document, number, [end for end in before if end[0] != 0]))
    ends = [document]
    for connection, sizes in enumerate(_deal(page.objects, len(lists))):
        after = [document] if connection else []
        for i, size in enumerate(sizes):
            first = i == 0
            lists[connection].append(_transfer(page.parse_ns * first, size, number, after if first else []))
        if sizes:
            ends.append((connection, len(lists[connection]) - 1))
    return ends


def _transfer(wait_ns: int, size: int, page: int, after: list[tuple[int, int]]) -> Transfer:
    transfer: Transfer = {"wait_ns": wait_ns, "bytes": size, "page": page}
    if after:
        transfer["after"] = [{"stream": connection, "transfer": number} for connection, number in after]
    return transfer


def _deal(sizes: list[int], connections: int) -> list[list[int]]:
    """The objects of each connection, in the order of their requests."""
    dealt: list[list[int]] = [[] for _ in range(connections)]
    loads = [(0, connection) for connection in range(connections)]
    for size in sizes:
        load, connection = heappop(loads)
        dealt[connection].append(size)
        heappush(loads, (load + size + _REQUEST_BYTES, connection))
    return dealt


def _pages(entry: Web, sources: Sources, flow: Flow, name: str, horizon: int) -> list[Page]:
    """The pages of a user: the requested number, or more than fit."""
    if entry.count is not None or entry.think is None:
        return _drawn(entry, sources, name, entry.count or 1, keep=True)
    rate, rtt = sources.best_path(flow)
    size = entry.size.mean() * entry.objects.mean()
    n = sources.expected(horizon, size * 8e9 / rate + 2 * rtt + entry.think.mean())
    while True:
        pages = _drawn(entry, sources, name, n, keep=False)
        least = accumulate(page.least_ns(rate, rtt) for page in pages)
        fit = next((i + 1 for i, t in enumerate(least) if t >= horizon), None)
        if fit is not None:
            sources.spend(sum(1 + len(page.objects) for page in pages[:fit]))
            return pages[:fit]
        n *= 2


def _drawn(entry: Web, sources: Sources, name: str, n: int, *, keep: bool) -> list[Page]:
    """The first ``n`` pages of a user; the first begins at once."""

    def draw(distribution: Distribution | None, purpose: str, count: int, least: int = 0) -> list[int]:
        if distribution is None:
            return [0] * count
        return distribution.sample(sources.seed, f"{name}/{purpose}", count, least=least)

    sources.spend(n, keep=False)
    counts = draw(entry.objects, "objects", n, least=1)
    sources.spend(sum(counts), keep=keep)
    sizes = iter(draw(entry.size, "size", sum(counts) - n, least=1))
    documents = draw(entry.document or entry.size, "document", n, least=1)
    parses = draw(entry.parse, "parse", n)
    thinks = [0, *draw(entry.think, "think", n - 1)]
    return [
        Page(think, document, parse, [next(sizes) for _ in range(count - 1)])
        for think, document, parse, count in zip(thinks, documents, parses, counts, strict=True)
    ]

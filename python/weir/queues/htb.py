"""Hierarchical token buckets: Linux' ``htb``."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from weir.plan import HtbClass, HtbQueue, Link
from weir.queues._classes import Scheduler
from weir.queues._discipline import Below, Written
from weir.queues._tokens import Inside, Tokens
from weir.queues.drr import check_quanta

__all__ = ["Htb"]


class Htb(Scheduler):
    """``htb``, with a root class that lends what the link transmits."""

    names = ("htb",)
    needs_wire_sizes = True
    asks_when_empty = False
    limits_rate = True

    def fields(self, written: Written) -> Mapping[str, Any]:
        fields = super().fields(written)
        _check_sum(written, "", fields["classes"], written.values["rate"] or written.rate_bps)
        for name, one in written.named("classes").items():
            inside = next(made["queue"] for made in fields["classes"] if made["name"] == name)
            if inside["kind"] == self.kind:
                _check_inner(one, inside)
        return fields

    def check(self, written: Written, classes: Mapping[str, Written]) -> None:
        check_quanta(written, classes)
        for one in classes.values():
            rate, ceil, burst = one.values["rate"], one.values["ceil"], one.size_bytes("burst")
            if rate == 0:
                raise one.error("rate", "at rate 0 a class has no guarantee; expected a rate above 0")
            if ceil is not None and ceil < rate:
                raise one.error("ceil", "`ceil` must not be below `rate`")
            if burst < written.packet_bytes:
                message = f"a bucket of {burst} bytes never holds a full packet ({written.packet_bytes} bytes)"
                raise one.error("burst", message)

    def share_obstacle(self, share: int, packet_bytes: int) -> str | None:
        return "classes of htb keep their quanta for the whole run; `class_rates` changes their rates"

    def token_parts(self, queue: dict[str, Any], name: str) -> Iterator[Tokens | Inside]:
        if queue["rate_bps"] is not None:
            yield Tokens(name, queue)
        for one in queue["classes"]:
            path = f"{name}.{one['name']}" if name else one["name"]
            yield Tokens(path, one, "ceil")
            yield Inside(path, one["queue"])

    def token_obstacle(self, queue: dict[str, Any], rate_bps: int) -> str | None:
        return next(_excesses(queue, queue["rate_bps"] or rate_bps), None)

    def below(self, link: Link) -> tuple[Below, ...]:
        queue = link.queue
        assert isinstance(queue, HtbQueue)
        rate = queue.rate_bps or link.rate_bps
        minors = itertools.count(1)
        burst = max(one.burst_bytes for one in queue.classes)
        root = f"htb rate {rate}bit ceil {rate}bit burst {burst} cburst {burst}"
        return (Below(queue, next(minors), words=root, inner=tuple(_classes(queue, minors))),)

    def arguments(self, link: Link, *, on_wire: bool) -> str:
        return "htb"


def _classes(queue: HtbQueue, minors: Iterator[int]) -> Iterator[Below]:
    for one in queue.classes:
        minor = next(minors)
        inner = tuple(_classes(one.queue, minors)) if isinstance(one.queue, HtbQueue) else ()
        yield Below(one.queue, minor, one.name, one.members, _words(one), inner)


def _words(one: HtbClass) -> str:
    ceil = one.ceil_bps or one.rate_bps
    buckets = f"burst {one.burst_bytes} cburst {one.burst_bytes}"
    return f"htb rate {one.rate_bps}bit ceil {ceil}bit {buckets} prio {one.priority} quantum {one.quantum_bytes}"


def _check_sum(written: Written, key: str, classes: list[dict[str, Any]], rate: int) -> None:
    if (excess := _excess(classes, rate)) is not None:
        raise written.error(key or "classes", f"the rates add up to {excess}")


def _excess(classes: list[dict[str, Any]], rate: int) -> str | None:
    total = sum(one["rate_bps"] for one in classes)
    return f"{total / 1e6:g} Mb/s; {rate / 1e6:g} Mb/s at most are guaranteed" if total > rate else None


def _excesses(queue: dict[str, Any], rate: int) -> Iterator[str]:
    """Rates that add up to more than the class above has."""
    if (excess := _excess(queue["classes"], rate)) is not None:
        yield f"the rates of {', '.join(one['name'] for one in queue['classes'])} then add up to {excess}"
    for one in queue["classes"]:
        if one["queue"]["kind"] == queue["kind"]:
            yield from _excesses(one["queue"], one["rate_bps"])


def _check_inner(written: Written, inside: dict[str, Any]) -> None:
    """A hierarchy in a class: its class has the rate, and the outermost one the limit."""
    if inside["rate_bps"] is not None:
        raise written.error("queue", "`rate` of classes within a class: the class has one already")
    _check_sum(written, "queue", inside["classes"], written.values["rate"])

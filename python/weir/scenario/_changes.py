"""The changes of a plan: links that change while it runs, in the order of time."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weir import queues
from weir.language.problem import Log, choose
from weir.language.units import show_duration

from ._lang_scenario import Body, Change, Rates, TokenRates
from ._network import Link, Network, delay_plan, loss_plan
from ._queue_plan import resolve
from ._rates import RateError, steps_of

__all__ = ["changes_plan"]

_MAX_CHANGES = 100_000
_SHORTEST_TRACE_NS = 1_000_000
_WHOLE_PPM = 1_000_000
_KNOWN = "`rate`, `rates`, `delay`, `jitter`, `reorder`, `loss`, `weights`, `quanta`, `queue_rate` or `class_rates`"
_SHARES = {"weights": "weight_ppm", "quanta": "quantum_bytes"}
"""For each key with new shares of classes, the field of a class in the plan."""


def changes_plan(
    body: Body, net: Network, links: Sequence[dict[str, Any]], end: int, folder: str, log: Log
) -> list[dict[str, Any]]:
    """The changes of ``body``, for the plans ``links`` of the network, in a run that ends at ``end``; traces are
    relative to ``folder``.
    """
    count = sum(len(change.at_) * len(change.link) for change in body.changes)
    if count > _MAX_CHANGES:
        log.error(body.at("changes"), f"{count} changes are too many; the limit is {_MAX_CHANGES}")
        return []
    steps = sorted(
        ((at, i, change) for i, change in enumerate(body.changes) for at in change.at_), key=lambda step: step[:2]
    )
    tracked = _Tracked(net, links, log)
    plans: list[dict[str, Any]] = []
    for at, _, change in steps:
        if at >= end:
            text = f"a change at {show_duration(at)} never happens: the run ends at {show_duration(end)}"
            log.warn(change.at("at"), text)
        for name in change.link:
            index = net.link_by_name.get(name)
            if index is None:
                log.error(change.at("link"), f"there is no link `{name}`{choose(name, net.link_by_name)}")
                continue
            if not _may_change(change, net.links[index], net, log):
                continue
            plans += [{"at_ns": at, "link": index, "change": kind} for kind in tracked.kinds(change, index)]
            if change.rates is not None:
                plans += _trace(change, change.rates, net.links[index], index, (at, end), folder, log)
    if len(plans) > _MAX_CHANGES:
        log.error(body.at("changes"), f"{len(plans)} changes are too many; the limit is {_MAX_CHANGES}")
        return []
    return sorted(plans, key=lambda plan: plan["at_ns"])


def _trace(
    change: Change, rates: Rates, link: Link, index: int, window: tuple[int, int], folder: str, log: Log
) -> list[dict[str, Any]]:
    """The changes of a trace of rates that begins at the first instant of ``window``."""
    at, end = window
    if change.rate is not None or len(change.at_) > 1:
        log.error(change.at("rates"), "a trace of rates begins at one instant, and has all rates from there on")
        return []
    if rates.every < _SHORTEST_TRACE_NS:
        log.error(rates.at("every"), "intervals of a packet-delivery trace have 1 ms at least")
        return []
    try:
        found = steps_of(
            Path(rates.mark.base(folder), rates.file),
            every_ns=rates.every,
            packet_bytes=link.mtu + link.overhead,
            until_ns=max(end - at, 0),
            repeat=rates.repeat,
            most=_MAX_CHANGES,
            spaced=rates.has("every"),
        )
    except RateError as error:
        log.error(rates.at("file"), str(error))
        return []
    return [
        {"at_ns": at + step.at_ns, "link": index, "change": {"kind": "rate", "rate_bps": step.rate_bps}}
        for step in found
    ]


def _may_change(change: Change, link: Link, net: Network, log: Log) -> bool:
    """Reports a change of a link into a switch that relies on what changes."""
    switch = net.switches.get(link.end)
    if switch is None:
        return True
    if switch.pause is not None and (change.rate is not None or change.rates is not None):
        log.error(
            change.at("rate" if change.has("rate") else "rates"),
            f"the switch after `{link.name}` pauses it; expected a link with a constant rate",
        )
        return False
    if switch.forwarding == "cut_through" and change.loss is None:
        why = f"the switch after `{link.name}` cuts its packets through"
        log.error(change.at("link"), f"{why}; expected a link with a constant rate and delay")
        return False
    return True


@dataclass
class _Tracked:
    """The properties of links that a change may give in part, through all changes so far."""

    net: Network
    links: Sequence[dict[str, Any]]
    log: Log
    delays: dict[int, Any] = field(default_factory=dict)
    shares: dict[int, dict[str, int]] = field(default_factory=dict)
    """Shares of the classes of a link's scheduler, in the order of the plan."""
    shaped: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Queues of links with the rates of token buckets so far."""

    def kinds(self, change: Change, index: int) -> list[dict[str, Any]]:
        """What ``change`` does to the link ``index``."""
        kinds: list[dict[str, Any]] = []
        if change.rate is not None:
            kinds.append({"kind": "rate", "rate_bps": change.rate})
        if change.jitter is not None and change.reorder is not None:
            self.log.error(change.at("reorder"), "`jitter` and `reorder` exclude each other; give one")
        elif change.delay is not None or change.jitter is not None or change.reorder is not None:
            kinds.append({"kind": "delay", "delay": self._delay(change, index)})
        if change.loss is not None:
            kinds.append({"kind": "loss", "loss": loss_plan(change.loss)})
        for key in _SHARES:
            if getattr(change, key) is not None:
                kinds += self._new_shares(change, key, index)
        kinds += self._new_token_rates(change, index)
        if not kinds and change.rates is None and not self.log.failed:
            self.log.error(change.mark, f"this changes nothing: give {_KNOWN}")
        return kinds

    def _delay(self, change: Change, index: int) -> dict[str, Any]:
        link = self.net.links[index]
        delay, jitter, reorder = self.delays.get(index, (link.delay, link.jitter, link.reorder))
        delay = change.delay if change.delay is not None else delay
        if change.jitter is not None or change.reorder is not None:
            jitter, reorder = change.jitter, change.reorder
        self.delays[index] = (delay, jitter, reorder)
        return delay_plan(delay, jitter, reorder)

    def _new_shares(self, change: Change, key: str, index: int) -> list[dict[str, Any]]:
        link, queue, mark = self.net.links[index], self.links[index]["queue"], change.at(key)
        share = _SHARES[key]
        classes = queues.children(queue)
        if not classes or share not in classes[0]:
            self.log.error(mark, f"the queue of link `{link.name}` has no classes with {key}")
            return []
        now = self.shares.setdefault(index, {one["name"]: one[share] for one in classes})
        for name, value in getattr(change, key).items():
            if name not in now:
                self.log.error(mark, f"link `{link.name}` has no class `{name}`{choose(name, now)}")
                return []
            now[name] = value if key == "weights" else resolve(value, link, self.net.rtt, self.log, mark)
        self._check(now, key, change, queue, link.mtu + link.overhead)
        return [{"kind": "shares", "shares": list(now.values())}]

    def _check(
        self, shares: Mapping[str, int], key: str, change: Change, queue: Mapping[str, Any], packet: int
    ) -> None:
        mark = change.at(key)
        if key == "weights" and sum(shares.values()) > _WHOLE_PPM:
            total = sum(shares.values()) / 10_000
            self.log.error(mark, f"the weights then add up to {total:g} %; expected 100 % at most")
        for name in getattr(change, key):
            why = queues.discipline(queue["kind"]).share_obstacle(shares[name], packet)
            if why is not None:
                self.log.error(mark, f"class `{name}`: {why}")

    def _new_token_rates(self, change: Change, index: int) -> list[dict[str, Any]]:
        wanted = {} if change.queue_rate is None else {"": change.queue_rate}
        wanted |= change.class_rates or {}
        if not wanted:
            return []
        queue = self.shaped.setdefault(index, copy.deepcopy(self.links[index]["queue"]))
        buckets = {one.name: one for one in queues.token_buckets(queue)}
        for name, rates in wanted.items():
            self._set_token_rates(rates, name, buckets, self.net.links[index])
        problem = queues.token_obstacle(queue, self.net.links[index].rate)
        if problem is not None and not self.log.failed:
            self.log.error(change.at("class_rates" if change.has("class_rates") else "queue_rate"), problem)
        return [{"kind": "token_rates", "rates": [one.rates() for one in buckets.values()]}]

    def _set_token_rates(self, rates: TokenRates, name: str, buckets: Mapping[str, queues.Tokens], link: Link) -> None:
        one = buckets.get(name)
        if one is None:
            self.log.error(rates.mark, _no_buckets(name, buckets, link))
            return
        whose = f"class `{name}`" if name else "the queue"
        for key in ("ceil", "peak"):
            if getattr(rates, key) is not None and key != one.peak:
                self.log.error(rates.at(key), f"{whose} of link `{link.name}` has no `{key}`")
                return
        if not any(rates.has(key) for key in ("rate", "ceil", "peak")) and rates.rate is None:
            known = "`rate`" if one.peak is None else f"`rate` or `{one.peak}`"
            self.log.error(rates.mark, f"this changes nothing: give {known}")
            return
        one.set(rates.rate, rates.ceil if rates.ceil is not None else rates.peak)
        if (problem := one.obstacle()) is not None:
            self.log.error(rates.mark, f"{whose}: {problem}")


def _no_buckets(name: str, buckets: Mapping[str, queues.Tokens], link: Link) -> str:
    if not buckets:
        return f"the queue of link `{link.name}` has no token buckets: no shaper, policer or class with a rate"
    if not name:
        return f"the queue of link `{link.name}` has no rate itself; its classes have: give `class_rates`"
    return f"link `{link.name}` has no class `{name}` with a rate{choose(name, [one for one in buckets if one])}"

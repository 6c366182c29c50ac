"""The changes of a plan's links for readers: instants with a letter, and what changes there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from string import ascii_uppercase

import msgspec

from weir import queues
from weir.plan import Change, DelayChange, LossChange, RateChange, SharesChange, TokenRates, kind_of
from weir.report._text import quantity
from weir.run import Plan

__all__ = ["Changes", "Course", "Instant", "LinkChange", "changes_of"]

_COURSE = 20
"""More changes of one value of a link are a course, such as a trace of its rate: marks would hide the curves."""


@dataclass(frozen=True)
class LinkChange:
    """What changes at a link."""

    link: str
    kind: str
    """The value that changes: ``rate``, ``delay``, ``losses``, ``weights``, ``quanta`` or ``rates of the queue``."""
    text: str
    """The new value in words."""


@dataclass(frozen=True)
class Instant:
    """The changes at one instant."""

    label: str
    """The letter of its mark in charts; empty if charts do not mark it."""
    at_s: float
    changes: tuple[LinkChange, ...]


@dataclass(frozen=True)
class Course:
    """Changes of one value that are too many for marks."""

    link: str
    kind: str
    number: int
    from_s: float
    to_s: float


@dataclass(frozen=True)
class Changes:
    """All changes of a plan."""

    instants: tuple[Instant, ...] = ()
    """In the order of time."""
    courses: tuple[Course, ...] = ()

    @property
    def marked(self) -> tuple[Instant, ...]:
        """The instants that charts mark."""
        return tuple(one for one in self.instants if one.label)


def changes_of(plan: Plan, end_ns: int) -> Changes:
    """The changes of ``plan``; those from the first instant until ``end_ns``, both excluded, have letters."""
    listed = plan.typed.changes
    times = Counter((one.link, kind_of(one.change)) for one in listed)
    rates = _Rates(plan)
    at: dict[int, list[LinkChange]] = {}
    courses: dict[tuple[int, str], list[Change]] = {}
    for one in listed:
        key = (one.link, kind_of(one.change))
        if times[key] > _COURSE:
            courses.setdefault(key, []).append(one)
        else:
            at.setdefault(one.at_ns, []).append(_told(plan, one, rates))
    letters = iter(ascii_uppercase)
    instants = [
        Instant(next(letters, "") if 0 < time < end_ns else "", time / 1e9, tuple(changes))
        for time, changes in sorted(at.items())
    ]
    return Changes(tuple(instants), tuple(_course(plan, several) for several in courses.values()))


def _course(plan: Plan, several: list[Change]) -> Course:
    first = several[0]
    times = [one.at_ns / 1e9 for one in several]
    return Course(plan.links[first.link].name, _kind(plan, first), len(several), min(times), max(times))


def _kind(plan: Plan, one: Change) -> str:
    match one.change:
        case RateChange():
            return "rate"
        case DelayChange():
            return "delay"
        case LossChange():
            return "losses"
        case SharesChange():
            classes = getattr(plan.links[one.link].typed.queue, "classes", ())
            return "weights" if any(hasattr(each, "weight_ppm") for each in classes) else "quanta"
    return "rates of the queue"


def _told(plan: Plan, one: Change, rates: _Rates) -> LinkChange:
    kind = _kind(plan, one)
    match one.change:
        case RateChange(rate_bps=rate):
            text = f"rate {quantity(rate, 'bit/s')}" if rate else "rate 0, an outage"
        case DelayChange(delay=delay):
            text = f"delay {quantity(delay.delay_ns / 1e9, 's')} ({kind_of(delay)})"
        case LossChange(loss=loss):
            words = [] if loss is None else [kind_of(loss).replace("_", " "), *_numbers(loss)]
            text = f"losses ({', '.join(words)})" if words else "no losses"
        case SharesChange(shares=shares):
            text = f"{kind} {', '.join(_shares(plan, one.link, shares))}"
        case other:
            text = ", ".join(rates.new(one.link, other.rates)) or "the same rates"
    return LinkChange(plan.links[one.link].name, kind, text)


def _numbers(loss: msgspec.Struct) -> Iterator[str]:
    """The probabilities of a loss model."""
    for name in loss.__struct_fields__:
        value = getattr(loss, name)
        if isinstance(value, float):
            yield f"{name} {value:.3g}"


def _shares(plan: Plan, link: int, shares: tuple[int, ...]) -> Iterator[str]:
    for one, share in zip(getattr(plan.links[link].typed.queue, "classes", ()), shares, strict=False):
        weighted = hasattr(one, "weight_ppm")
        yield f"{one.name} {share / 1e4:.3g} %" if weighted else f"{one.name} {quantity(share, 'bytes')}"


class _Rates:
    """The rates of the token buckets of each link so far: a change lists all of them."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.links: dict[int, list[tuple[str, str | None, int | None, int | None]]] = {}

    def new(self, link: int, rates: tuple[TokenRates, ...]) -> Iterator[str]:
        """The rates that differ from those before, in words; they are known from then on."""
        if link not in self.links:
            found = queues.token_buckets(msgspec.to_builtins(self.plan.links[link].typed.queue))
            known = [(one.name, one.peak, one.rates()) for one in found]
            self.links[link] = [(name, peak, now["rate_bps"], now["peak_bps"]) for name, peak, now in known]
        before = self.links[link]
        for number, (one, (name, peak, rate_bps, peak_bps)) in enumerate(zip(rates, before, strict=False)):
            before[number] = (name, peak, one.rate_bps, one.peak_bps)
            parts = [f"rate {quantity(one.rate_bps, 'bit/s')}"] if one.rate_bps != rate_bps else []
            if one.peak_bps is not None and one.peak_bps != peak_bps:
                parts.append(f"{peak} {quantity(one.peak_bps, 'bit/s')}")
            if parts:
                yield f"{name or 'queue'}: {', '.join(parts)}"

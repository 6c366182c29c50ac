"""Rate profiles of flows over TCP and UDT: checks, and their form in plans."""

from __future__ import annotations

from functools import partial
from typing import Any

from weir.language.problem import Log, gather
from weir.language.units import show_rate
from weir.plan import IP_TCP_HEADERS, TIMESTAMPS, UDT_HEADERS

from ._lang_workload import Profiled, RateStep
from ._network import Network
from ._sources import Flow
from ._transport import Resolved
from ._udt import Udt

__all__ = ["check_profile", "profile_plan"]


def check_profile(entry: Profiled, profile: tuple[RateStep, ...], transport: object, log: Log) -> None:
    """Reports steps without one positive rate, and entries that cannot follow a profile."""
    place = entry.at("profile")
    if not isinstance(transport, Resolved | Udt):
        raise log.error(place, "only TCP and UDT follow a rate profile; leave `protocol` out")
    if entry.levels:
        text = f"`{next(iter(entry.levels))}` counts sources by the rates of their links; leave it or `profile` out"
        raise log.error(place, text)
    for key in ("jump_start", "quick_start"):
        if isinstance(transport, Resolved) and getattr(transport.spec, key):
            raise log.error(place, f"`{key}` sets the rate of the first window, and so does `profile`; keep one")
    gather(partial(_check_step, step, log) for step in profile)


def _check_step(step: RateStep, log: Log) -> None:
    if step.rate is not None and step.wire_rate is not None:
        raise log.error(step.at("wire_rate"), "`wire_rate` and `rate` both give the rate; give one")
    if step.rate is None and step.wire_rate is None:
        raise log.error(step.mark, "the rate of this step is missing: `rate` of the IP packets, or `wire_rate`")
    if not (step.rate or step.wire_rate):
        raise log.error(step.at(step.given), "a rate of 0 never sends; give a positive one")


def profile_plan(
    entry: Profiled, profile: tuple[RateStep, ...], transport: dict[str, Any], flow: Flow, net: Network
) -> list[dict[str, int]]:
    """The profile of a flow with these settings of its transport as the plan has it: rates of IP packets,
    instants of the run.
    """
    first = net.links[flow.path.links[0]]
    size = _packet_bytes(transport)
    rates = []
    for step in profile:
        # Rounded down: what a packet takes beyond the wire's rate would wait in the host's queue.
        rate = step.rate if step.wire_rate is None else step.wire_rate * size // (size + first.overhead)
        rates.append(max(1, rate or 0))
    if flow.index == 0:
        _warn_of_bottleneck(entry, profile, rates, size, flow, net)
    return [{"at_ns": flow.start + step.at_, "rate_bps": rate} for step, rate in zip(profile, rates, strict=True)]


def _warn_of_bottleneck(
    entry: Profiled, profile: tuple[RateStep, ...], rates: list[int], size: int, flow: Flow, net: Network
) -> None:
    """Warns of the highest step if a link of the path is too slow for it."""
    highest = max(rates)
    links = [net.links[link] for link in flow.path.links]
    slowest = min(links, key=lambda link: link.rate * size // (size + link.overhead))
    on_wire = highest * (size + slowest.overhead) // size * entry.parallel
    if on_wire <= slowest.rate:
        return
    step = profile[rates.index(highest)]
    text = f"{show_rate(on_wire)} on the wire exceed the {show_rate(slowest.rate)} of link `{slowest.name}`"
    net.log.warn(step.at(step.given), f"flow `{entry.name}[0]`: {text}, so that it falls behind its profile")


def _packet_bytes(transport: dict[str, Any]) -> int:
    """Bytes of a full IP packet."""
    if transport["protocol"] == "udt":
        return int(transport["payload_bytes"]) + UDT_HEADERS
    return int(transport["mss_bytes"]) + IP_TCP_HEADERS + (TIMESTAMPS if transport["timestamps"] else 0)

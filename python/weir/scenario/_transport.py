"""Merges the TCP settings of a scenario and an entry into the settings of one flow."""

from __future__ import annotations

import importlib
import json
import os
from dataclasses import fields, replace
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

from weir import _linux
from weir import cc as users
from weir.language.problem import Log, Mark, choose, gather
from weir.language.units import Amount
from weir.plan import IP_TCP_HEADERS, TIMESTAMPS

from ._lang_transport import STACKS, CongestionControl, Transport
from ._network import Path as Way

__all__ = ["Resolved", "buffer_bytes", "buffer_of", "merge", "tcp_plan"]

_MAX_MSS = 65_495

KERNELS = frozenset(
    {
        *("bbr", "bic", "cdg", "cubic", "dctcp", "highspeed", "htcp", "hybla", "illinois"),
        *("lp", "nv", "reno", "scalable", "vegas", "veno", "westwood", "yeah"),
    }
)
"""The congestion controls of Linux (``net/ipv4/tcp_*.c``). The lab's kernel has all of them; others may lack some."""

_FOREIGN = "linux:"

PROCESSING_NS = 10_000
"""Maximum time that a receiving host takes to answer. Interrupts and scheduling of an idle Linux host take a few
microseconds. That is enough to keep flows from falling into step with a queue (Floyd and Jacobson, "On traffic phase
effects in packet-switched gateways", 1992).
"""


def merge(base: Transport, over: Transport) -> Transport:
    """The settings of an entry: its own if given, else the scenario's."""
    given = {f.name: getattr(over, f.name) for f in fields(over) if f.metadata and getattr(over, f.name) is not None}
    if over.buffers is not None:
        # Both buffers at once are closer to this entry than one of the scenario's.
        base = replace(base, send_buffer=None, receive_buffer=None)
    marks = {**base.marks, **over.marks}
    return replace(base, **given, marks=marks, mark=over.mark if over.marks else base.mark)


class Resolved:
    """The TCP settings of an entry, for any of its flows."""

    def __init__(self, transport: Transport, mark: Mark, folder: str, log: Log) -> None:
        self.spec = transport
        self.log = log
        self.mark = mark
        if transport.ccid is not None:
            text = "TCP has no `ccid`: it is the congestion control of `protocol: dccp`; give `cc`"
            raise log.error(transport.marks.get("ccid", mark), text)
        if transport.timer is not None:
            text = "TCP has no `timer`: it is that of a host with `protocol: udt`"
            raise log.error(transport.marks.get("timer", mark), text)
        if transport.cc is None:
            raise log.error(mark, "no congestion control: give `transport: {cc: ...}` here or for the whole scenario")
        self.cc, self.source = _found(transport.cc, folder, log)
        self.stack = transport.stack or "linux"
        defaults = STACKS[self.stack]
        self.backlog = _or(transport.backlog, defaults.backlog)
        self.txqueuelen = defaults.txqueuelen
        self.initial_window = _or(transport.initial_window, defaults.initial_window)
        self.sack: bool = _or(transport.sack, defaults.sack)
        self.timestamps: bool = _or(transport.timestamps, defaults.timestamps)
        own = transport.buffers
        self.send = buffer_of(transport.send_buffer or own, defaults.send_buffer)
        self.receive = buffer_of(transport.receive_buffer or own, defaults.receive_buffer)


def buffer_of(amount: Amount | None, default: int) -> Amount:
    """The given size, or the profile's ``default`` bytes if that is asked for or none is given."""
    return Amount(Fraction(default), "bytes") if amount is None or amount.unit == "default" else amount


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _found(cc: CongestionControl, folder: str, log: Log) -> tuple[CongestionControl, dict[str, str]]:
    """The congestion control, checked as far as possible without a kernel, and its entry in the plan."""
    if users.is_file_name(cc.name):
        return _users(cc, folder, log)
    if cc.name.startswith(_FOREIGN):
        _check_kernels(cc, log)
        for name, _ in cc.options:
            text = f"`{name}`: a control of the kernel takes no options; they are for weir's own"
            log.error(cc.marks.get(name, cc.mark), text)
    else:
        _check_registered(cc, log)
    return cc, {}


def _check_kernels(cc: CongestionControl, log: Log) -> None:
    """Refuses a name that neither the lab's kernel nor this host's has; warns if this host does not tell.

    The executing method reports which of the two lacks it.
    """
    name = cc.name.removeprefix(_FOREIGN)
    if name in KERNELS or _linux.has(name):
        return
    here = _linux.available()
    known = sorted({*KERNELS, *(here or ())})
    hint = choose(cc.name, [_FOREIGN + other for other in known])
    if here is None:
        log.warn(cc.mark, f"Linux comes without a congestion control `{name}`{hint}")
    else:
        raise log.error(cc.mark, f"neither the lab's kernel nor this host's has a congestion control `{name}`{hint}")


@cache
def _registry() -> dict[str, dict[str, tuple[int, int]]]:
    """The registered congestion controls, and the ranges of their options."""
    described = json.loads(importlib.import_module("weir._weir").cc_everywhere())
    return {cc["name"]: {o["name"]: (o["min"], o["max"]) for o in cc["options"]} for cc in described}


def _check_registered(cc: CongestionControl, log: Log) -> None:
    known = _registry()
    if cc.name not in known:
        raise log.error(cc.mark, f"there is no congestion control `{cc.name}`{choose(cc.name, known)}")
    _check_options(cc, known[cc.name], log)


def _check_options(cc: CongestionControl, ranges: dict[str, tuple[int, int]], log: Log) -> None:
    gather(partial(_check_option, cc, name, value, ranges, log) for name, value in cc.options)


def _check_option(cc: CongestionControl, name: str, value: int, ranges: dict[str, tuple[int, int]], log: Log) -> None:
    mark = cc.marks.get(name, cc.mark)
    if name not in ranges:
        there = choose(name, ranges) if ranges else "; it has none"
        raise log.error(mark, f"`{name}` is not an option of `{cc.name}`{there}")
    low, high = ranges[name]
    if not low <= value <= high:
        raise log.error(mark, f"`{name}` of `{cc.name}` is {low} to {high}, not {value}")
    if name in cc.quoted:
        raise log.error(mark, f"`{name}` of `{cc.name}` is a number from {low} to {high}: write {value} without quotes")


def _users(cc: CongestionControl, folder: str, log: Log) -> tuple[CongestionControl, dict[str, str]]:
    """A user's control: built if necessary; a child process reads its options.

    Its path is relative to the scenario's folder, or to the working directory if `--set` names it. The plan identifies
    its source, so that another source makes another plan.
    """
    path = Path(cc.mark.base(folder), cc.name)
    # A path without a slash would look like a name.
    cc = replace(cc, name=str(path) if len(path.parts) > 1 else f".{os.sep}{path}")
    if not path.exists():
        hint = "" if path.suffix in (".c", ".py") else "; `weir cc build` makes it, or name its C file"
        raise log.error(cc.mark, f"there is no file `{path}`{hint}")
    try:
        found = users.control(cc.name)
    except users.ControlError as error:
        raise log.error(cc.mark, error.brief) from None
    _check_options(cc, {option.name: (option.min, option.max) for option in found.about.options}, log)
    return cc, {"cc_source": found.identity}


def tcp_plan(settings: Resolved, path: Way, rtt: int) -> dict[str, Any]:
    """The TCP settings of a flow on ``path`` with base RTT ``rtt`` (ns), in the form of the plan."""
    spec, log = settings.spec, settings.log
    if spec.accecn and not spec.ecn:
        raise log.error(spec.marks.get("accecn", settings.mark), "`accecn` is feedback of ECN; set `ecn: true` as well")
    if settings.cc.name in users.controls_that("needs_accecn") and spec.accecn is False:
        text = f"`{settings.cc.name}` acts on AccECN's feedback; leave `accecn: false` out"
        raise log.error(spec.marks.get("accecn", settings.mark), text)
    if settings.cc.name in users.controls_that("needs_ecn") and not spec.ecn:
        text = f"`{settings.cc.name}` acts on marks, and gets none without ECN; `ecn: true` is missing"
        log.warn(settings.cc.mark, text)
    if spec.ecn and settings.cc.name in users.controls_that("has_cong_control") - users.controls_that("needs_ecn"):
        text = f"`{settings.cc.name}` does not react to marks: queues that mark its packets instead of dropping them"
        log.warn(settings.cc.mark, f"{text} do not slow it; without `ecn` they drop")
    headers = IP_TCP_HEADERS + (TIMESTAMPS if settings.timestamps else 0)
    mss = _or(spec.mss, min(path.mtu - headers, _MAX_MSS))
    mark = spec.marks.get("mss", settings.mark)
    if mss < 1:
        raise log.error(mark, f"an MTU of {path.mtu} bytes leaves no room for data after {headers} bytes of headers")
    if mss + headers > path.mtu or mss > _MAX_MSS:
        largest = min(path.mtu - headers, _MAX_MSS)
        raise log.error(mark, f"an MSS of {mss} bytes does not fit the path's MTU of {path.mtu}; at most {largest} do")
    send = buffer_bytes(settings, "send", settings.send, path, rtt, mss)
    receive = buffer_bytes(settings, "receive", settings.receive, path, rtt, mss)
    bdp = path.rate * rtt // 8_000_000_000
    if min(send, receive) < bdp:
        which = "send" if send <= receive else "receive"
        place = spec.marks.get(f"{which}_buffer", spec.marks.get("buffers", settings.mark))
        log.info(place, f"the {which} buffer of {min(send, receive)} bytes is below the path's BDP of {bdp} bytes")
    return {
        "protocol": "tcp",
        "cc": settings.cc.name,
        "cc_options": dict(settings.cc.options),
        **settings.source,
        "stack": settings.stack,
        "mss_bytes": mss,
        "timestamps": settings.timestamps,
        "sack": settings.sack,
        "ecn": _or(spec.ecn, False),
        **({"accecn": True} if spec.accecn else {}),
        "initial_window": settings.initial_window,
        **({"initial_ssthresh": spec.initial_ssthresh} if spec.initial_ssthresh else {}),
        **_startup(settings),
        "send_buffer_bytes": send,
        "receive_buffer_bytes": receive,
        "pacing": _or(spec.pacing, False),
        "ack": _or(spec.ack, "delayed"),
        "processing_ns": _or(spec.processing, PROCESSING_NS),
        **_old_host(settings),
    }


_LEAST_QUICK_START = 80_000
"""The least rate that a Quick-Start request can say, bit/s (RFC 4782, section 3.1)."""


def _startup(settings: Resolved) -> dict[str, Any]:
    """How connections begin, if not with slow start."""
    spec, log = settings.spec, settings.log
    key = "quick_start" if spec.quick_start else "jump_start" if spec.jump_start else ""
    # The simulator refuses weir's own controls; it learns of a user's only when it executes them.
    if key and users.is_file_name(settings.cc.name) and users.control(settings.cc.name).about.has_cong_control:
        own = f"`{settings.cc.name}` sets window and rate by itself from the first acknowledgement on"
        text = (
            f"`{key}` sets the first window, and {own}; take a control that grows a window, such as `reno` or `cubic`"
        )
        raise log.error(spec.marks.get(key, settings.mark), text)
    if not spec.quick_start:
        return {"jump_start": True} if spec.jump_start else {}
    mark = spec.marks.get("quick_start", settings.mark)
    if spec.jump_start:
        raise log.error(mark, "a connection begins in one way; keep `jump_start` or `quick_start`")
    if spec.quick_start < _LEAST_QUICK_START:
        raise log.error(mark, f"a Quick-Start request is for at least 80 kb/s, not {spec.quick_start} b/s")
    return {"quick_start_bps": spec.quick_start}


def _old_host(settings: Resolved) -> dict[str, Any]:
    """What only hosts of old kernels have, as far as it differs from none."""
    spec, log = settings.spec, settings.log
    given = [name for name in ("sack_cost", "backlog", "moderation") if getattr(spec, name) is not None]
    if given and settings.stack == "linux":
        place = spec.marks.get(given[0], settings.mark)
        raise log.error(place, f"`{given[0]}` belongs to hosts of old kernels; set `stack: linux-2.6` or `linux-2.4`")
    if spec.backlog is not None and spec.sack_cost is None:
        raise log.error(spec.marks.get("backlog", settings.mark), "nothing waits for the host without a `sack_cost`")
    if spec.sack_cost and not settings.sack:
        raise log.error(spec.marks.get("sack_cost", settings.mark), "`sack: false` leaves no SACK that could cost time")
    cost = {"sack_cost_ns": spec.sack_cost, "backlog_packets": settings.backlog} if spec.sack_cost else {}
    return {**cost, **({"unmoderated": True} if spec.moderation is False else {})}


class Buffered(Protocol):
    """The settings of a transport with buffers."""

    spec: Transport
    mark: Mark
    log: Log


def buffer_bytes(settings: Buffered, name: str, amount: Amount, path: Way, rtt: int, mss: int) -> int:
    """The size of the buffer ``name`` (``send`` or ``receive``), which must hold a segment of ``mss`` bytes."""
    size = int(amount.value)
    if amount.unit == "bdp":
        size = int(Fraction(path.rate * rtt) * amount.value / 8_000_000_000)
    if size < mss:
        spec = settings.spec
        place = spec.marks.get(f"{name}_buffer", spec.marks.get("buffers", settings.mark))
        raise settings.log.error(place, f"a {name} buffer of {size} bytes cannot hold one segment of {mss} bytes")
    return size

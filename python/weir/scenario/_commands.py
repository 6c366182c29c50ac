"""Compiles workload entries of external traffic programs into the programs of the plan."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from weir.language.problem import Log
from weir.language.units import show_duration
from weir.plan import IP_TCP_HEADERS, TIMESTAMPS, UDP_HEADERS

from ._lang_commands import Command, Iperf3, ReadyAfter, ReadyOutput, ReadyPort

__all__ = ["check", "command_source", "iperf3_source"]

_MAX_S = 86_400
"""iperf3's longest duration."""
_MAX_MSS = 9216
"""iperf3's largest segment size; the path's MTU limits larger ones."""
_MIN_INTERVAL_NS = 100_000_000
_MAX_INTERVAL_NS = 60_000_000_000
"""Limits of iperf3's reporting interval."""

_OURS = {
    "-c": "`between`",
    "--client": "`between`",
    "-s": "`between`",
    "--server": "`between`",
    "-p": "weir",
    "--port": "weir",
    "-t": "`until`, `duration` or `stop`",
    "--time": "`until`, `duration` or `stop`",
    "-P": "`streams`",
    "--parallel": "`streams`",
    "-R": "`reverse`, or `between` the other way round",
    "--reverse": "`reverse`, or `between` the other way round",
    "--bidir": "a second entry with `reverse: true`",
    "-u": "`udp`",
    "--udp": "`udp`",
    "-b": "`rate`",
    "--bitrate": "`rate`",
    "--bandwidth": "`rate`",
    "-C": "`transport: {cc: ...}`",
    "--congestion": "`transport: {cc: ...}`",
    "-M": "`transport: {mss: ...}`",
    "--set-mss": "`transport: {mss: ...}`",
    "-J": "weir",
    "--json": "weir",
    "--json-stream": "weir",
    "--logfile": "weir",
    "-i": "`measure: {goodput: ...}`",
    "--interval": "`measure: {goodput: ...}`",
    "-D": "weir",
    "--daemon": "weir",
    "--cport": "weir",
    "-B": "weir",
    "--bind": "weir",
    "-6": "weir",
    "--dscp": "`dscp`",
    "-S": "`dscp`",
    "--tos": "`dscp`",
}
"""Arguments of iperf3 that follow from the scenario, and their sources."""


def check(entry: Command | Iperf3, log: Log) -> None:
    """Reports contradictions in ``entry``."""
    if isinstance(entry, Command):
        _check_command(entry, log)
        return
    if entry.has("packet") and not entry.udp:
        raise log.error(entry.at("packet"), "`packet` is for datagrams; give `udp: true`, or `transport: {mss: ...}`")
    for argument in entry.arguments:
        name = argument.partition("=")[0] if argument.startswith("--") else argument[:2]
        if name in _OURS:
            raise log.error(entry.at("arguments"), f"`{argument}` follows from {_OURS[name]}; leave it out")


def _check_command(entry: Command, log: Log) -> None:
    if entry.peer is not None:
        return
    if entry.ready is not None:
        raise log.error(entry.at("ready"), "`ready` is about the `peer`, and there is none")
    if entry.sender == "peer":
        raise log.error(entry.at("sender"), "`sender: peer` needs a `peer`")


def command_source(entry: Command, folder: str) -> dict[str, Any]:
    """The programs of a flow of ``entry``, in the form of the plan."""
    peer = None if entry.peer is None else _located(entry.peer, entry.at("peer").base(folder))
    return {
        "kind": "command",
        "command": _located(entry.command, entry.at("command").base(folder)),
        "peer": peer,
        "ready": _ready(entry.ready, peer),
        "sender": entry.sender,
        "report": None,
        "rate_bps": None,
    }


def _located(arguments: Sequence[str], folder: str) -> list[str]:
    """Resolves a program given by path relative to ``folder``."""
    program, *rest = arguments
    if os.sep in program:
        program = str(Path(folder, program).absolute())
    return [program, *rest]


def _ready(ready: ReadyPort | ReadyOutput | ReadyAfter | None, peer: Sequence[str] | None) -> dict[str, Any]:
    match ready:
        case ReadyPort():
            return {"when": "port", "port": ready.port}
        case ReadyOutput():
            return {"when": "output", "text": ready.text}
        case ReadyAfter():
            return {"when": "after", "time_ns": ready.time}
    named = any("${WEIR_PORT}" in argument for argument in peer or ())
    return {"when": "port", "port": None} if named else {"when": "started"}


def iperf3_source(
    entry: Iperf3,
    transport: dict[str, Any],
    rate_bps: int | None,
    *,
    horizon: int,
    goodput_ns: int,
    folder: str,
    log: Log,
) -> dict[str, Any]:
    """Client and server of a flow of ``entry`` that lasts ``horizon`` ns, with the plan's ``transport``."""
    seconds = -(-horizon // 1_000_000_000)
    if seconds > _MAX_S:
        last = show_duration(_MAX_S * 10**9)
        raise log.error(entry.mark, f"{show_duration(horizon)} are too long for iperf3; it runs {last} at most")
    interval = min(max(goodput_ns or _MAX_INTERVAL_NS, _MIN_INTERVAL_NS), _MAX_INTERVAL_NS) / 1e9
    program = _located([entry.program], entry.at("program").base(folder) if entry.has("program") else folder)
    common = ["-4", "-p", "${WEIR_PORT}", "-J", "-i", f"{interval:g}"]
    client = [*program, "-c", "${WEIR_PEER}", *common, "-t", str(max(seconds, 1))]
    client += _of_udp(transport, rate_bps) if entry.udp else _of_tcp(transport, rate_bps)
    if entry.dscp:
        client += ["--dscp", str(entry.dscp)]
    return {
        "kind": "command",
        "command": [*client, *entry.arguments],
        "peer": [*program, "-s", "-1", *common],
        "ready": {"when": "port", "port": None},
        "sender": "command",
        "report": "iperf3",
        "rate_bps": rate_bps,
    }


def _of_udp(udp: dict[str, Any], rate_bps: int | None) -> list[str]:
    assert rate_bps is not None  # the checks require a rate for datagrams
    payload = udp["payload_bytes"]
    return ["-u", "-l", str(payload), "-b", str(rate_bps * payload // (payload + UDP_HEADERS))]


def _of_tcp(tcp: dict[str, Any], rate_bps: int | None) -> list[str]:
    options = TIMESTAMPS if tcp["timestamps"] else 0
    mss = tcp["mss_bytes"]
    # Linux counts the options within the size that an application asks for.
    words = ["-C", "${WEIR_CC}"]
    if mss + options <= _MAX_MSS:
        words += ["-M", str(mss + options)]
    if rate_bps is not None:
        words += ["-b", str(rate_bps * mss // (mss + options + IP_TCP_HEADERS))]
    return words

"""The process that makes table ``links`` from the counters of queueing disciplines: ``python _queues.py``.

It is a process of a run like an agent (``crates/weir-protocol``): a job on standard input, then commands; messages and
tables on standard output; at the end of standard input it leaves. It imports nothing of weir, so that it is there
within milliseconds, also in the lab. One netlink socket a namespace asks for all of its disciplines at once, every
``measure.links``.

Values that the kernel does not count are estimated from the queue at both ends of an interval: the delay in it (its
mean length over the rate) and its maximum. Lost packets are assumed to have the link's largest size.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import socket
import struct
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Queue", "Reading", "enter", "interval_row", "main", "parse_dump"]

_CLONE_NEWNET = 0x4000_0000
_RTM_NEWQDISC, _RTM_GETQDISC = 36, 38
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_REQUEST_DUMP = 0x301
_TCA_KIND, _TCA_STATS2 = 1, 7
_STATS_BASIC, _STATS_QUEUE, _STATS_APP = 1, 3, 4
_HEADER = struct.Struct("=IHHII")
_TCMSG = struct.Struct("=BxxxiIII")

_LOSSES, _RATE, _QUEUE = (major << 16 for major in (1, 2, 3))
"""Handles of the disciplines of a link (``netem.py``)."""
_NULL = (1 << 64) - 1
_WORD = (1 << 32) - 1
_FLUSH_NS = 250_000_000
_LATE_SHARE = 4
_MANY_OF = 100
_LINK_COLUMNS = (
    *("time_ns", "link", "in_packets", "in_bytes", "out_packets", "out_bytes", "drop_packets", "drop_bytes"),
    *("mark_packets", "queue_bytes", "queue_packets", "queue_max_bytes", "queue_delay_ns", "queue_delay_max_ns"),
)
_PART_COLUMNS = ("time_ns", "flow", "link", "packets")
_NARROW = {"link", "flow"}


@dataclass(frozen=True)
class Queue:
    """A link, with the needed parts of the job."""

    link: int
    device: int
    """Index of its device in its namespace."""
    overhead_bytes: int
    mtu_bytes: int
    rate_bps: int
    flow: int | None
    marks_word: int | None
    """Index of the 32-bit word with the number of marked packets in the discipline's statistics; ``None``: it marks
    none.
    """


@dataclass(frozen=True)
class Reading:
    """Counters of a link since it was made; bytes are those on the wire."""

    out_bytes: int = 0
    out_packets: int = 0
    drops: int = 0
    marks: int = 0
    queue_bytes: int = 0
    queue_packets: int = 0


@dataclass(frozen=True)
class _Discipline:
    kind: bytes
    size: int
    packets: int
    backlog: int
    length: int
    drops: int
    app: bytes
    """The discipline's own statistics."""

    def marks(self, word: int | None) -> int:
        """The number of packets that it marked; older kernels may lack it."""
        known = word is not None and len(self.app) >= 4 * word + 4
        return int(struct.unpack_from("=I", self.app, 4 * word)[0]) if known and word is not None else 0


Disciplines = Mapping[tuple[int, int], _Discipline]
"""By the index of the device and the handle."""


# Netlink -------------------------------------------------------------------------------------------------------------


def _attributes(content: bytes) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while offset + 4 <= len(content):
        length, kind = struct.unpack_from("=HH", content, offset)
        if length < 4:
            return
        yield kind & 0x3FFF, content[offset + 4 : offset + length]
        offset += (length + 3) & ~3


def parse_dump(content: bytes) -> tuple[dict[tuple[int, int], _Discipline], bool]:
    """The disciplines in a piece of an answer, and whether it was the last piece.

    Raises:
        OSError: the kernel answered with an error.
    """
    found: dict[tuple[int, int], _Discipline] = {}
    offset = 0
    while offset + _HEADER.size <= len(content):
        length, kind, _, _, _ = _HEADER.unpack_from(content, offset)
        body = content[offset + _HEADER.size : offset + length]
        if kind == _NLMSG_DONE:
            return found, True
        if kind == _NLMSG_ERROR:
            code = -struct.unpack_from("=i", body)[0]
            raise OSError(code, f"the kernel's disciplines cannot be listed: {os.strerror(code)}")
        if kind == _RTM_NEWQDISC:
            _, device, handle, _, _ = _TCMSG.unpack_from(body)
            found[device, handle] = _discipline(dict(_attributes(body[_TCMSG.size :])))
        offset += max((length + 3) & ~3, _HEADER.size)
    return found, False


def _discipline(attributes: Mapping[int, bytes]) -> _Discipline:
    kind = attributes.get(_TCA_KIND, b"").rstrip(b"\0")
    stats = dict(_attributes(attributes.get(_TCA_STATS2, b"")))
    size, packets = struct.unpack_from("=QI", stats.get(_STATS_BASIC, bytes(12)))
    length, backlog, drops, _, _ = struct.unpack_from("=5I", stats.get(_STATS_QUEUE, bytes(20)))
    return _Discipline(kind, size, packets, backlog, length, drops, stats.get(_STATS_APP, b""))


def enter(namespace: str) -> None:
    """Moves this thread alone into the network namespace at a path; Python's library has ``setns`` from 3.12 on.

    Raises:
        OSError: the namespace does not exist, or this process may not enter it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(fd, _CLONE_NEWNET) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), namespace)
    finally:
        os.close(fd)


class _Namespace:
    """A network namespace, with a socket in it to ask for its disciplines."""

    def __init__(self, path: str) -> None:
        """Enters it, and stays there."""
        self.queues: list[Queue] = []
        enter(path)
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        self._socket.bind((0, 0))

    def add(self, facts: Mapping[str, Any]) -> None:
        """Adds a link whose device is here; this process is still inside."""
        names = ("link", "overhead_bytes", "mtu_bytes", "rate_bps", "flow", "marks_word")
        self.queues.append(Queue(device=socket.if_nametoindex(facts["device"]), **{n: facts[n] for n in names}))

    def read(self) -> list[tuple[Queue, Reading]]:
        """The current counters of its links."""
        found = self._dump()
        return [(queue, _reading(queue, found)) for queue in self.queues]

    def _dump(self) -> dict[tuple[int, int], _Discipline]:
        request = _TCMSG.pack(0, 0, 0, 0, 0)
        self._socket.send(_HEADER.pack(_HEADER.size + len(request), _RTM_GETQDISC, _REQUEST_DUMP, 1, 0) + request)
        found: dict[tuple[int, int], _Discipline] = {}
        done = False
        while not done:
            part, done = parse_dump(self._socket.recv(1 << 18))
            found |= part
        return found


def _reading(queue: Queue, found: Disciplines) -> Reading:
    """The combined counters of a link's disciplines.

    The bucket counts refused packets, which the queue below counts too; the losses count both as their own.
    """
    nothing = _Discipline(b"", 0, 0, 0, 0, 0, b"")
    bucket = found.get((queue.device, _RATE), nothing)
    line = found.get((queue.device, _QUEUE), nothing)
    losses = found.get((queue.device, _LOSSES))
    lost = (losses.drops - bucket.drops) & _WORD if losses else 0
    drops = (lost + line.drops) & _WORD
    marks = line.marks(queue.marks_word)
    return Reading(bucket.size, bucket.packets, drops, marks, line.backlog, line.length)


# Rows ----------------------------------------------------------------------------------------------------------------

Row = tuple[int, ...]


def interval_row(queue: Queue, time_ns: int, before: Reading, now: Reading) -> Row | None:
    """The row of table ``links`` for the interval between two readings; ``None`` without packets."""
    overhead = queue.overhead_bytes
    out = (now.out_packets - before.out_packets) & _WORD
    out_bytes = now.out_bytes - before.out_bytes - overhead * out
    drops = (now.drops - before.drops) & _WORD
    drop_bytes = drops * queue.mtu_bytes
    waiting = now.queue_bytes - overhead * now.queue_packets
    waited = before.queue_bytes - overhead * before.queue_packets
    came = out + drops + now.queue_packets - before.queue_packets
    if not (came or out or drops or now.queue_packets):
        return None
    delays = [8_000_000_000 * reading.queue_bytes // queue.rate_bps for reading in (before, now)]
    return (
        *(time_ns, queue.link, came, out_bytes + drop_bytes + waiting - waited, out, out_bytes, drops, drop_bytes),
        *((now.marks - before.marks) & _WORD, waiting, now.queue_packets, max(waiting, waited)),
        *((sum(delays) // 2, max(delays)) if out else (_NULL, _NULL)),
    )


class _Tables:
    """Rows waiting to be handed over."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Row]] = {"links": [], "drops": [], "marks": []}

    def add(self, queue: Queue, time_ns: int, before: Reading, now: Reading) -> None:
        row = interval_row(queue, time_ns, before, now)
        if row is None:
            return
        self.rows["links"].append(row)
        if queue.flow is not None:
            for table, column in (("drops", "drop_packets"), ("marks", "mark_packets")):
                if packets := row[_LINK_COLUMNS.index(column)]:
                    self.rows[table].append((time_ns, queue.flow, queue.link, packets))

    def flush(self) -> None:
        for table, rows in self.rows.items():
            if rows:
                _write_table(table, _LINK_COLUMNS if table == "links" else _PART_COLUMNS, rows)
                rows.clear()


def _write_table(name: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
    kinds = [(column, "u32" if column in _NARROW else "u64") for column in columns]
    content = b"".join(
        struct.pack(f"<{len(rows)}{'I' if kind == 'u32' else 'Q'}", *(row[place] for row in rows))
        for place, (_, kind) in enumerate(kinds)
    )
    _say({"message": "table", "name": name, "rows": len(rows), "columns": kinds, "bytes": len(content)}, content)


def _say(message: Mapping[str, Any], content: bytes = b"") -> None:
    out = sys.stdout.buffer
    out.write(json.dumps(message).encode() + b"\n" + content)
    out.flush()


# The run -------------------------------------------------------------------------------------------------------------


class _Input:
    """Lines of standard input, as they come."""

    def __init__(self) -> None:
        self._over = False
        self._held = b""

    def ended(self) -> bool:
        """Whether the input has ended."""
        return self._over and b"\n" not in self._held

    def line(self, until_ns: int | None) -> Mapping[str, Any] | None:
        """The next line; ``None`` if there is none until an instant of the monotonic clock, or at the end."""
        while b"\n" not in self._held and not self._over:
            wait_s = None if until_ns is None else max(0.0, (until_ns - time.monotonic_ns()) / 1e9)
            if not select.select([0], [], [], wait_s)[0]:
                return None
            more = os.read(0, 1 << 20)
            self._over = not more
            self._held += more
        if b"\n" not in self._held:
            return None
        text, self._held = self._held.split(b"\n", 1)
        found: Mapping[str, Any] = json.loads(text)
        return found


def main() -> None:
    """Serves one run."""
    given = _Input()
    job = given.line(None)
    if job is None:
        return
    try:
        namespaces = _open(job["queues"])
        _say({"message": "ready"})
        start = given.line(None)
        if start is not None and start["command"] == "start":
            _run(job, namespaces, _epoch_ns(start), given)
    except (OSError, KeyError, ValueError) as error:
        _say({"message": "error", "text": f"{type(error).__name__}: {error}"})
        sys.exit(1)


def _epoch_ns(start: Mapping[str, Any]) -> int:
    """Instant 0 of the plan on ``CLOCK_MONOTONIC``, as ``crates/weir-protocol/src/start.rs`` has it."""
    at_ns: int = start["reading_ns"] + start["after_ns"]
    if start["clock"] == "monotonic":
        return at_ns
    if start["clock"] == "realtime":
        return time.monotonic_ns() + at_ns - time.time_ns()
    raise ValueError(f"{start['clock']!r} is not a clock; there are monotonic and realtime")


def _open(queues: Sequence[Mapping[str, Any]]) -> list[_Namespace]:
    found: list[_Namespace] = []
    here = ""
    for facts in sorted(queues, key=lambda facts: str(facts["netns"])):
        if facts["netns"] != here:
            here = facts["netns"]
            found.append(_Namespace(here))
        found[-1].add(facts)
    return found


def _run(job: Mapping[str, Any], namespaces: Sequence[_Namespace], epoch_ns: int, given: _Input) -> None:
    """Reads the counters every interval until the plan ends, or is ended."""
    interval, end = job["interval_ns"] or job["end_ns"], job["end_ns"]
    before: dict[int, Reading] = {}
    tables = _Tables()
    time_ns, flushed, ticks, late = 0, 0, 0, 0
    while not given.ended():
        command = given.line(epoch_ns + time_ns)
        if given.ended():
            return
        stopped = command is not None and command["command"] == "stop"
        now = time.monotonic_ns() - epoch_ns
        at = min(now, end) if stopped else time_ns
        ticks, late = ticks + 1, late + (now - at > interval // _LATE_SHARE)
        for namespace in namespaces:
            for queue, reading in namespace.read():
                if queue.link in before and job["interval_ns"]:
                    tables.add(queue, at, before[queue.link], reading)
                before[queue.link] = reading
        if stopped or time_ns >= end:
            break
        if at >= flushed + _FLUSH_NS:
            flushed = at
            tables.flush()
            _say({"message": "progress", "now_ns": now})
        # Skips instants in the past; their packets count in the next interval.
        passed = max(0, now - time_ns) // interval
        time_ns = min(time_ns + (passed + 1) * interval, end)
    tables.flush()
    if late * _MANY_OF > ticks:
        text = f"{late} of {ticks} instants of measure came late by more than a quarter of their interval"
        _say({"message": "warning", "text": text})
    cpu = os.times()
    _say({"message": "end", "stats": {"late_ticks": late, "cpu_user_s": cpu.user, "cpu_system_s": cpu.system}})


if __name__ == "__main__":
    main()

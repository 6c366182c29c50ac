"""Traces of a link's rate: CSV files of instants and rates, and packet-delivery traces of Mahimahi.

Both become changes of the rate, which every method executes. A packet-delivery trace has one line for each packet that
the link can deliver, with the instant in milliseconds (R. Netravali et al., Mahimahi, USENIX ATC 2015). Its rate is
that of the packets in intervals of equal length, each as large on the wire as the link's MTU.
"""

from __future__ import annotations

import csv
import io
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from pathlib import Path

from weir.language import units

__all__ = ["MAX_BYTES", "RateError", "Step", "packets_of", "steps_of"]

MAX_BYTES = 64 << 20
"""Largest file."""
_MS = 1_000_000
_LEAST_BPS = 1_000
"""A trace that never exceeds it has another unit."""
_BARE = re.compile(r"[0-9.]+(e[0-9+-]+)?", re.IGNORECASE)


class RateError(ValueError):
    """A trace cannot be read; the message says where and why."""


@dataclass(frozen=True)
class Step:
    """From this instant of the trace on, the link has this rate."""

    at_ns: int
    rate_bps: int


def steps_of(
    path: Path, *, every_ns: int, packet_bytes: int, until_ns: int, repeat: bool, most: int, spaced: bool = False
) -> list[Step]:
    """The steps of the trace in ``path``, without those that change nothing.

    Args:
        path: The file. A first line with two columns makes it CSV.
        every_ns: Length of the intervals of a packet-delivery trace.
        packet_bytes: Bytes on the wire that one of its lines delivers.
        until_ns: Where the steps end.
        repeat: Whether the trace begins again at its end.
        most: Limit on the number of steps.
        spaced: Whether the scenario gives the length of the intervals; a CSV file has its own.

    Raises:
        RateError: it cannot be read, has more steps, or has its own intervals beside those given.
    """
    text = _text(path)
    first = next((line for line in text.splitlines() if line.strip() and not line.startswith("#")), "")
    if "," in first:
        if spaced:
            raise RateError(f"{path.name} has instants of its own; `every` is for packet-delivery traces")
        found, length = _of_csv(path.name, text)
    else:
        found, length = _of_packets(packets_of(path.name, text), every_ns, packet_bytes)
    taken = list(islice(_changing(_repeated(found, length, until_ns, repeat=repeat)), most + 1))
    if len(taken) > most:
        raise RateError(f"{path.name} changes the rate more than {most} times; take longer intervals, or a shorter run")
    return taken


def _text(path: Path) -> str:
    try:
        if not path.is_file():
            raise RateError(f"{path} is not a file" if path.exists() else f"there is no file {path}")
        if path.stat().st_size > MAX_BYTES:
            raise RateError(f"{path.name} has more than {MAX_BYTES >> 20} MiB")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise RateError(f"{path.name} is no text") from None
    except OSError as error:
        raise RateError(f"{path}: {error.strerror}") from None


# CSV ------------------------------------------------------------------------------------------------------------------


def _of_csv(name: str, text: str) -> tuple[list[Step], int]:
    """The steps of a CSV file, and where it ends: as long after the last step as that is after the one before."""
    found: list[Step] = []
    for number, row in enumerate(csv.reader(io.StringIO(text)), start=1):
        if not row or row[0].lstrip().startswith("#"):
            continue
        if len(row) != 2:
            raise RateError(f"{name}, line {number}: expected an instant and a rate, found {len(row)} columns")
        if not found and not _is_number(row[0]):
            continue  # the names of the columns
        at, rate = _instant(name, number, row[0].strip()), _rate(name, number, row[1].strip())
        if found and at <= found[-1].at_ns:
            raise RateError(f"{name}, line {number}: the instant {row[0].strip()} is not after the one before")
        found.append(Step(at, rate))
    if not found:
        raise RateError(f"{name} has no line with an instant and a rate")
    most = max(step.rate_bps for step in found)
    if most < _LEAST_BPS:
        raise RateError(
            f"{name}: no rate is above {most} bit/s; a bare number is in bit/s, others have units: 12.5Mbps"
        )
    last = found[-1].at_ns - found[-2].at_ns if len(found) > 1 else 0
    return found, found[-1].at_ns + last


def _is_number(text: str) -> bool:
    return text.strip()[:1].isdigit() or text.strip()[:1] in ".-+"


def _instant(name: str, number: int, text: str) -> int:
    """An instant: seconds, or a duration with its unit."""
    return _quantity(name, number, text, "s", units.DURATION, "an instant such as 1.5 (seconds) or 1500ms")


def _rate(name: str, number: int, text: str) -> int:
    """A rate: bit/s, or a rate with its unit."""
    return _quantity(name, number, text, "bps", units.RATE, "a rate such as 12500000 (bit/s) or 12.5Mbps")


def _quantity(name: str, number: int, text: str, unit: str, kind: units.Quantity, expected: str) -> int:
    """A quantity; a bare number has the unit ``unit``."""
    try:
        return kind.parse(text + unit if _BARE.fullmatch(text) else text)
    except ValueError:
        raise RateError(f"{name}, line {number}: expected {expected}, found {text[:40]!r}") from None


# Packet-delivery traces -----------------------------------------------------------------------------------------------


def packets_of(name: str, text: str) -> list[int]:
    """The instants of a packet-delivery trace, ms.

    Raises:
        RateError: a line is no instant, or before the one before it.
    """
    found: list[int] = []
    for number, line in enumerate(text.splitlines(), start=1):
        word = line.strip()
        if not word or word.startswith("#"):
            continue
        if not word.isascii() or not word.isdigit() or len(word) > 12:
            if name.endswith(".csv"):
                raise RateError(
                    f"{name}, line {number}: expected an instant and a rate with a comma between, found {word[:40]!r}"
                )
            raise RateError(f"{name}, line {number}: expected an instant in whole milliseconds, found {word[:40]!r}")
        if found and int(word) < found[-1]:
            raise RateError(f"{name}, line {number}: the instant {word} is before that of the line before")
        found.append(int(word))
    if not found:
        raise RateError(f"{name} has no line with an instant")
    if found[-1] == 0:
        raise RateError(f"{name} ends at 0 ms: a trace takes time")
    return found


def _of_packets(instants_ms: list[int], every_ns: int, packet_bytes: int) -> tuple[list[Step], int]:
    """The rates of intervals; a packet of the instant at which an interval ends belongs to it."""
    length = instants_ms[-1] * _MS
    found = []
    for begin in range(0, length, every_ns):
        end = min(begin + every_ns, length)
        # An instant of 0 belongs to the first interval.
        low = 0 if begin == 0 else bisect_right(instants_ms, begin // _MS)
        count = bisect_right(instants_ms, end // _MS) - low
        found.append(Step(begin, round(Fraction(count * packet_bytes * 8 * 10**9, end - begin))))
    return found, length


# Steps ----------------------------------------------------------------------------------------------------------------


def _repeated(found: list[Step], length: int, until_ns: int, *, repeat: bool) -> Iterator[Step]:
    """The steps before ``until_ns``; the trace begins again where it ends, if it is repeated."""
    begin = 0
    while True:
        for step in found:
            if begin + step.at_ns >= until_ns:
                return
            yield Step(begin + step.at_ns, step.rate_bps)
        if not repeat or length <= 0:
            return
        begin += length


def _changing(found: Iterator[Step]) -> Iterator[Step]:
    last = None
    for step in found:
        if step.rate_bps != last:
            last = step.rate_bps
            yield step

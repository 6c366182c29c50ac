"""Quantities with units: text to exact integers and back.

Times are nanoseconds, rates bits per second, sizes bytes, all integers, as everywhere in weir. Numbers are read as
exact decimals: ``11.5ms`` is exactly 11 500 000 ns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from weir.language.problem import choose

__all__ = [
    "BUFFER",
    "DELAY",
    "DURATION",
    "MTU",
    "OVERHEAD",
    "PACKET",
    "PROBABILITY",
    "RATE",
    "SIZE",
    "Amount",
    "Quantity",
    "amount_hint",
    "amount_pattern",
    "parse_amount",
    "show_duration",
    "show_rate",
]

_NUMBER = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?(?:[eE][-+]?[0-9]{1,3})?) ?(.*)\Z", re.DOTALL)
_NUMBER_PATTERN = r"[0-9]{1,20}(\.[0-9]{1,20})?([eE][-+]?[0-9]{1,3})?"


@dataclass(frozen=True)
class Quantity:
    """A kind of quantity: its units with their factors to the base unit, and the range of sensible values."""

    name: str
    example: str
    units: dict[str, Fraction]
    most: int
    most_text: str
    least: int = 0
    least_text: str = "0"

    def parse(self, text: str) -> int:
        """Converts ``text`` to the base unit.

        Raises:
            ValueError: not such a quantity; the message says what is wrong and what was expected.
        """
        return round(self.exact(text))

    def exact(self, text: str) -> Fraction:
        """Converts ``text`` to the base unit, which must give a whole number; raises like :meth:`parse`."""
        number, unit = _split(text, self.name, self.hint())
        if unit == "" and number != 0:
            raise ValueError(f"`{_cut(text)}` needs a unit; expected {self.hint()}")
        if unit and unit not in self.units:
            raise ValueError(f"`{_cut(unit)}` is not a unit of a {self.name}{_choose_unit(unit, self.units)}")
        value = number * self.units[unit] if unit else Fraction(0)
        if value > self.most:
            raise ValueError(f"`{_cut(text)}` is out of range; the largest {self.name} is {self.most_text}")
        if value < self.least:
            raise ValueError(f"`{_cut(text)}` is out of range; the least {self.name} is {self.least_text}")
        whole = Fraction(round(value))
        if whole == 0 and value > 0:
            raise ValueError(
                f"`{_cut(text)}` is too small; a {self.name} is a whole number of {next(iter(self.units))}"
            )
        return whole

    def hint(self) -> str:
        """An example value with its unit."""
        article = "an" if self.name[0] in "Mo" else "a"
        return f"{article} {self.name} such as `{self.example}` (units: {', '.join(self.units)})"

    def pattern(self) -> str:
        """A regular expression for the JSON schema."""
        return _pattern(self.units)


# Spellings too far from the valid ones for a comparison of letters.
_SPELLINGS = {
    "s": ("sec", "secs", "second", "seconds"),
    "ms": ("msec", "msecs", "millisecond", "milliseconds"),
    "us": ("usec", "usecs", "microsecond", "microseconds"),
    "ns": ("nsec", "nanosecond", "nanoseconds"),
    "min": ("m", "mins", "minute", "minutes"),
    "h": ("hr", "hour", "hours"),
    "d": ("day", "days"),
    "packets": ("p", "pkt", "pkts", "pckts"),
    "B": ("byte", "bytes"),
    "Mbps": ("M", "Mb", "Mb/s", "Mbit"),
    "Gbps": ("G", "Gb", "Gb/s", "Gbit"),
    "kbps": ("k", "kb", "kb/s", "kbit"),
}


def _choose_unit(unit: str, known: Iterable[str]) -> str:
    ours = list(known)
    of_bytes = re.fullmatch("([kMGT])B(?:ps|/s)", unit)
    if of_bytes and f"{of_bytes[1]}bps" in ours:
        return f"; rates count bits: write 8 times as many `{of_bytes[1]}bps`"
    for meant, spellings in _SPELLINGS.items():
        if unit in spellings and meant in ours:
            return f"; did you mean `{meant}`?"
    return choose(unit, ours)


def _pattern(units: dict[str, Fraction]) -> str:
    return f"^(0|{_NUMBER_PATTERN} ?({'|'.join(units)}))$"


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 40 else text[:40] + "..."


def _split(text: str, name: str, hint: str) -> tuple[Fraction, str]:
    if text.startswith("-") and _NUMBER.match(text[1:]):
        raise ValueError(f"`{_cut(text)}` is negative; expected {hint}")
    match = _NUMBER.match(text)
    if match is None or re.match("[0-9]+,[0-9]", text):
        comma = " (write a decimal point, not a comma)" if match else ""
        raise ValueError(f"`{_cut(text)}` is not a {name}{comma}; expected {hint}")
    if match[2][:1].isdigit():
        raise ValueError(f"`{_cut(text)}` is out of range, or has too many digits; expected {hint}")
    return Fraction(match[1]), match[2]


def _decimal(base: str, prefixes: str, step: int = 1000, power: int = 0) -> dict[str, Fraction]:
    return {f"{p.strip()}{base}": Fraction(step) ** (power + i) for i, p in enumerate(prefixes)}


RATE = Quantity(
    "rate",
    "100Mbps",
    {**_decimal("bps", " kMGT"), **_decimal("bit/s", " kMGT")},
    10**14,
    "100Tbps",
)
_TIMES = {
    "ns": Fraction(1),
    "us": Fraction(10**3),
    "µs": Fraction(10**3),
    "ms": Fraction(10**6),
    "s": Fraction(10**9),
    "min": Fraction(60 * 10**9),
    "h": Fraction(3600 * 10**9),
    "d": Fraction(86400 * 10**9),
}
_BYTES = {**_decimal("B", " kMGTP"), **_decimal("iB", "KMGTP", 1024, 1)}

# Instants and durations; delays of packets; amounts of data; sizes of packets; capacities of queues and buffers.
DURATION = Quantity("duration", "11.5ms", _TIMES, 100 * 86400 * 10**9, "100d")
DELAY = Quantity("delay", "11.5ms", _TIMES, 3600 * 10**9, "1h")
SIZE = Quantity("size", "50MB", _BYTES, 10**18, "1000PB")
MTU = Quantity("MTU", "1500B", _BYTES, 65_535, "65535B", 68, "68B (IPv4)")
PACKET = Quantity("size of a packet", "1500B", _BYTES, 65_535, "65535B", 1, "1B")
OVERHEAD = Quantity("overhead of a packet", "38B", _BYTES, 10_000, "10kB")
BUFFER = Quantity("buffer", "4MB", _BYTES, 10**12, "1TB")
_PACKETS = Quantity("number of packets", "100packets", {"packets": Fraction(1), "packet": Fraction(1)}, 10**9, "10^9")
_BDP = Quantity("multiple of the BDP", "0.5bdp", {"bdp": Fraction(1)}, 1000, "1000")
_AMOUNTS = {"bytes": BUFFER, "packets": _PACKETS, "ns": DELAY, "bdp": _BDP}

# A probability has no base unit to round to; it is not a Quantity.
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,20})?(?:[eE]-[0-9]{1,2})?) ?%\Z")
_FRACTION = re.compile(r"0(?:\.[0-9]{1,20})?\Z|[0-9](?:\.[0-9]{1,20})?[eE]-[0-9]{1,2}\Z")


class _Probability:
    name = "probability"

    def parse(self, text: str) -> float:
        """``1%`` or ``0.01`` as a number from 0 to 1; raises ``ValueError`` like :meth:`Quantity.parse`."""
        match = _PERCENT.match(text)
        if match:
            value = Fraction(match[1]) / 100
        elif _FRACTION.match(text):
            value = Fraction(text)
        else:
            raise ValueError(f"`{_cut(text)}` is not a probability; expected {self.hint()}")
        if value > 1:
            raise ValueError(f"`{_cut(text)}` is out of range; a probability is at most 100%")
        return float(value)

    def hint(self) -> str:
        """An example value."""
        return "a percentage such as `1%`, or a number under 1 such as `0.01`"

    def pattern(self) -> str:
        """A regular expression for the JSON schema."""
        return r"^(0|[0-9]{1,3}(\.[0-9]{1,20})?([eE]-[0-9]{1,2})? ?%)$"


PROBABILITY = _Probability()


@dataclass(frozen=True)
class Amount:
    """The size of a queue or buffer in one of its possible units."""

    value: Fraction
    unit: Literal["bytes", "packets", "ns", "bdp", "default"]


def parse_amount(text: str, units: tuple[str, ...]) -> Amount:
    """The size of a queue or buffer; ``units`` are those allowed: ``bytes``, ``packets``, ``ns``, ``bdp``, ``default``.

    Raises:
        ValueError: not such a size; the message says what is wrong and what was expected.
    """
    if text == "default" in units:
        return Amount(Fraction(0), "default")
    allowed = {name: _AMOUNTS[name] for name in units if name != "default"}
    every = {unit: name for name, kind in allowed.items() for unit in kind.units}
    number, unit = _split(text, "size", amount_hint(units))
    if unit == "" and number != 0:
        raise ValueError(f"`{_cut(text)}` needs a unit; expected {amount_hint(units)}")
    if unit == "":
        return Amount(Fraction(0), "bytes")
    if unit not in every:
        raise ValueError(f"`{_cut(unit)}` is not a unit of a size here{_choose_unit(unit, every)}")
    name = every[unit]
    if name == "bdp":
        if number > _BDP.most:
            raise ValueError(f"`{_cut(text)}` is out of range; the largest {_BDP.name} is {_BDP.most_text}")
        return Amount(number, "bdp")
    return Amount(allowed[name].exact(text), name)  # type: ignore[arg-type]


def amount_hint(units: tuple[str, ...]) -> str:
    """Example sizes of a queue or buffer."""
    examples = {
        "bytes": "`64KiB`",
        "packets": "`100packets`",
        "ns": "`100ms`",
        "bdp": "`0.5bdp`",
        "default": "`default`",
    }
    return "a size such as " + ", ".join(examples[u] for u in units)


def amount_pattern(units: tuple[str, ...]) -> str:
    """A regular expression for the JSON schema."""
    return _pattern(
        {unit: factor for name in units if name in _AMOUNTS for unit, factor in _AMOUNTS[name].units.items()}
    )


def show_duration(ns: int) -> str:
    """Formats a duration for a message, in the largest unit that keeps it whole or short."""
    for unit, factor in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if ns >= factor:
            return f"{ns / factor:.6g}{unit}"
    return f"{ns}ns"


def show_rate(bps: int | float) -> str:
    """Formats a rate for a message."""
    for unit, factor in (("Tbps", 1e12), ("Gbps", 1e9), ("Mbps", 1e6), ("kbps", 1e3)):
        if bps >= factor:
            return f"{bps / factor:.6g}{unit}"
    return f"{bps:.6g}bps"

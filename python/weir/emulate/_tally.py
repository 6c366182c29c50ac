"""Adds up the emulator's measurements and summarises them in a few lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from weir.hosts.messages import Frame

__all__ = ["Direction", "Report", "Tally", "emulator_lines"]

_NO_DELAY = (1 << 64) - 1


@dataclass
class Direction:
    """One direction of the link, from beginning to end."""

    packets: int = 0
    """Packets that were transmitted."""
    bytes: int = 0
    """Their IP bytes."""
    dropped: int = 0
    marked: int = 0
    queue_mean_ns: float = 0.0
    """Mean time in the queue, over the packets transmitted."""
    queue_max_ns: int = 0
    queue_max_bytes: int = 0

    def add(self, row: Mapping[str, int]) -> None:
        """Adds a row of table ``links``."""
        packets = row["out_packets"]
        if row["queue_delay_ns"] != _NO_DELAY:
            known = self.packets + packets
            self.queue_mean_ns += (row["queue_delay_ns"] - self.queue_mean_ns) * packets / max(known, 1)
            self.queue_max_ns = max(self.queue_max_ns, row["queue_delay_max_ns"])
        self.packets += packets
        self.bytes += row["out_bytes"]
        self.dropped += row["drop_packets"]
        self.marked += row["mark_packets"]
        self.queue_max_bytes = max(self.queue_max_bytes, row["queue_max_bytes"])

    def line(self, seconds: float) -> str:
        """Formats the direction for people."""
        mean, most = self.queue_mean_ns / 1e6, self.queue_max_ns / 1e6
        return f"{self.counts(seconds)}; queue {mean:.2f} ms, at most {most:.2f} ms"

    def counts(self, seconds: float) -> str:
        """The same without the queue: packets may wait where nothing measures their times, as in a switch."""
        share = self.dropped / max(self.packets + self.dropped, 1)
        rate = 8e-6 * self.bytes / max(seconds, 1e-9)
        return (
            f"{self.packets} packets, {self.bytes / 1e6:.3f} MB, {rate:.2f} Mb/s; "
            f"{self.dropped} dropped ({share:.2%}), {self.marked} marked"
        )


@dataclass(frozen=True)
class Report:
    """The measurements."""

    seconds: float
    up: Direction
    down: Direction
    stats: Mapping[str, float]
    """The emulator's statistics of itself; see ``crates/weir-emu/src/meter.rs``."""
    warnings: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """The report for programs."""
        return asdict(self)

    def lines(self, up: str, down: str) -> Iterator[str]:
        """The report for people; ``up`` and ``down`` name the directions."""
        width = max(len(up), len(down))
        yield f"{up:<{width}}  {self.up.line(self.seconds)}"
        yield f"{down:<{width}}  {self.down.line(self.seconds)}"
        yield from emulator_lines(self.stats, self.warnings)


def emulator_lines(stats: Mapping[str, float], warnings: Sequence[str]) -> Iterator[str]:
    """What the emulator says of itself, for people."""
    late = [stats.get(f"lateness_{name}_ns", 0.0) / 1e3 for name in ("p50", "p99", "max")]
    busy = stats.get("busy_share", 0.0)
    yield (
        f"emulator: {late[0]:.0f} us late at the median, {late[1]:.0f} us at the 99th percentile, "
        f"{late[2]:.0f} us at most; {busy:.0%} of a processor"
    )
    yield from (f"warning: {text}" for text in warnings)


@dataclass
class Tally:
    """Adds up tables as they come."""

    directions: tuple[Direction, Direction] = field(default_factory=lambda: (Direction(), Direction()))
    last_ns: int = 0

    def take(self, frame: Frame) -> None:
        """Adds the rows of ``frame``, if it is of table ``links``."""
        if frame.table != "links":
            return
        columns = {name: values.tolist() for name, values in frame.columns.items()}
        for index in range(frame.rows):
            row = {name: values[index] for name, values in columns.items()}
            self.directions[row["link"]].add(row)

    def report(self, seconds: float, stats: Mapping[str, float], warnings: Sequence[str]) -> Report:
        """The sum of all tables so far."""
        return Report(seconds, *self.directions, stats, tuple(warnings))

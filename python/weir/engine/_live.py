"""A real-time run as a table on a terminal and as a line in a log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from weir.methods import Live, LiveFlow, LiveLink

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

__all__ = ["line", "screen"]

_PREFIXES = ("", "k", "M", "G", "T")


def _scaled(value: float | None, unit: str) -> str:
    """Formats a value: ``94.1 Mb/s``; ``-`` without one."""
    if value is None:
        return "-"
    place = 0
    while abs(value) >= 999.5 and place < len(_PREFIXES) - 1:
        value, place = value / 1000, place + 1
    return f"{value:.3g} {_PREFIXES[place]}{unit}"


def line(live: Live) -> str:
    """The state in one line."""
    words = [f"{live.now_ns / 1e9:.1f} of {live.end_ns / 1e9:g} s"]
    count = len(live.flows) + live.more_flows
    words.append(f"{count} flow{'' if count == 1 else 's'} {_scaled(live.total_goodput_bps, 'b/s')}")
    words += [f"{link.name}: queue {_scaled(link.queue_bytes, 'B')}" for link in live.links[:1]]
    if live.upcoming:
        words.append(f"next: {_next(live)}")
    return ", ".join(words)


def _next(live: Live) -> str:
    return "; ".join(f"{event.what} in {(event.at_ns - live.now_ns) / 1e9:.0f} s" for event in live.upcoming)


def screen(live: Live, rows: int) -> Group:
    """A table of at most about ``rows`` flows or, with more, one row per workload entry; and the next change."""
    from rich.console import Group
    from rich.text import Text

    upcoming = [Text(f"next: {_next(live)}", style="italic dim")] if live.upcoming else []
    return Group(_table(live, rows), *upcoming)


def _table(live: Live, rows: int) -> Table:
    from rich.table import Table

    found = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for number, head in enumerate(("flow", "goodput", "cwnd", "RTT", "retransmitted")):
        found.add_column(head, justify="right" if number else "left", no_wrap=True)
    for cells in _flow_rows(live, max(rows, 1)):
        found.add_row(*cells)
    for link in live.links:
        found.add_row(*_link_row(link), style="dim")
    return found


def _flow_rows(live: Live, most: int) -> Iterable[tuple[str, ...]]:
    rows = live.flows if len(live.flows) <= most else _grouped(live.flows)
    for flow in rows[:most]:
        yield _flow_row(flow)
    hidden = live.more_flows + sum(_count(flow.name) for flow in rows[most:])
    if hidden or len(live.flows) > 1:
        name = f"all, {hidden} not shown" if hidden else "all"
        yield name, _scaled(live.total_goodput_bps, "b/s"), "", "", ""


_TIMES = " x "


def _grouped(flows: Sequence[LiveFlow]) -> list[LiveFlow]:
    """One row per workload entry: ``streams x 40`` has the sum of their goodputs and the means of other values."""
    entries: dict[str, list[LiveFlow]] = {}
    for flow in flows:
        entries.setdefault(flow.name.partition("[")[0], []).append(flow)
    return [own[0] if len(own) == 1 else _together(name, own) for name, own in entries.items()]


def _together(name: str, flows: Sequence[LiveFlow]) -> LiveFlow:
    goodputs = [flow.goodput_bps for flow in flows if flow.goodput_bps is not None]
    retransmitted = [flow.retransmitted_packets for flow in flows if flow.retransmitted_packets is not None]
    return LiveFlow(
        f"{name}{_TIMES}{len(flows)}",
        sum(goodputs) if goodputs else None,
        _mean([flow.cwnd for flow in flows]),
        _mean([flow.srtt_ns for flow in flows]),
        sum(retransmitted) if retransmitted else None,
    )


def _mean(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known)) if known else None


def _count(name: str) -> int:
    """Number of flows in a row."""
    count = name.rpartition(_TIMES)[2]
    return int(count) if _TIMES in name and count.isdecimal() else 1


def _flow_row(flow: LiveFlow) -> tuple[str, ...]:
    return (
        flow.name,
        _scaled(flow.goodput_bps, "b/s"),
        "-" if flow.cwnd is None else f"{flow.cwnd}",
        "-" if flow.srtt_ns is None else f"{flow.srtt_ns / 1e6:.1f} ms",
        "-" if flow.retransmitted_packets is None else f"{flow.retransmitted_packets}",
    )


def _link_row(link: LiveLink) -> tuple[str, ...]:
    drops = f"{link.drop_packets} dropped"
    return f"link {link.name}", _scaled(link.out_bps, "b/s"), "", f"queue {_scaled(link.queue_bytes, 'B')}", drops

"""The set-ups of scenarios as a table, from their plans: rates, round-trip times, flows, controls, duration, cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from weir.plan import BulkSource, CbrSource, Flow, Plan, TcpTransport, TransfersSource, typed
from weir.scenario import Scenario
from weir.study.claims._links import file_of

__all__ = ["table_of_setups"]

_HEAD = ("scenario", "links, Mb/s", "round trip, ms", "flows", "congestion control", "duration, s", "cells")
_LISTED = 4
"""Number of different values that a table lists; of more it has the ends."""
_KINDS = {BulkSource: "bulk", CbrSource: "constant rate"}


def table_of_setups(scenarios: Mapping[str, Scenario]) -> list[str]:
    """The lines of a table of scenarios at the papers' size."""
    lines = ["| " + " | ".join(_HEAD) + " |", "|" + "---|" * len(_HEAD)]
    return [*lines, *(_row(name, scenario) for name, scenario in scenarios.items()), ""]


def _row(name: str, scenario: Scenario) -> str:
    cells = scenario.cells()
    plans = [typed(cell.plan()) for cell in cells if cell.repeat == 0]
    repeats = len(cells) // len(plans)
    flows = [(plan, flow) for plan in plans for flow in plan.flows]
    texts = (
        f"[{name}]({file_of(name)})",
        _range(_rate(plan, link) for plan, flow in flows for link in flow.path),
        _range(_round_trip_ms(plan, flow) for plan, flow in flows),
        _flows(plans),
        ", ".join(dict.fromkeys(_control(flow) for _, flow in flows)),
        _range(round(plan.end_ns / 1e9, 2) for plan in plans),
        f"{len(plans)}" + (f", {repeats} repeats" if repeats > 1 else ""),
    )
    return "| " + " | ".join(texts) + " |"


def _range(values: Iterable[float]) -> str:
    """The different values in order; of many, the ends."""
    found = sorted(set(values))
    if len(found) > _LISTED:
        return f"{found[0]:g} to {found[-1]:g}"
    return ", ".join(f"{value:g}" for value in found)


def _rate(plan: Plan, link: int) -> float:
    """Mb/s in three digits: clocks that differ by 0.01 % do not show."""
    return float(f"{plan.links[link].rate_bps / 1e6:.3g}")


def _round_trip_ms(plan: Plan, flow: Flow) -> float:
    """Delays of both ways, without queues and transmission."""
    return round(sum(plan.links[link].delay.delay_ns for link in (*flow.path, *flow.reverse_path)) / 1e6, 3)


def _control(flow: Flow) -> str:
    return flow.transport.cc if isinstance(flow.transport, TcpTransport) else _protocol(flow)


def _protocol(flow: Flow) -> str:
    return type(flow.transport).__name__.removesuffix("Transport").upper()


def _flows(plans: Sequence[Plan]) -> str:
    """Of each entry of the workload, the number of its flows and what they send."""
    counts = [Counter(flow.group for flow in plan.flows) for plan in plans]
    groups: dict[str, list[Flow]] = {}
    for plan in plans:
        for flow in plan.flows:
            groups.setdefault(flow.group, []).append(flow)
    numbers = {group: _range(count[group] for count in counts) for group in groups}
    return "; ".join(f"{group}: {numbers[group]} × {_sends(flows)}" for group, flows in groups.items())


def _sends(flows: Sequence[Flow]) -> str:
    sources = [flow.source for flow in flows]
    transfers = [source.transfers for source in sources if isinstance(source, TransfersSource)]
    if not transfers:
        return _KINDS.get(type(sources[0]), "program")
    size = f"of {_range(round(one.bytes / 1e6, 1) for row in transfers for one in row)} MB"
    most = max(len(row) for row in transfers)
    return f"{most} transfers {size}" if most > 1 else f"transfer {size}"

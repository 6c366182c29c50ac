"""What a referee asks: the scenarios, the figures that answer, and the values that no referee accepts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

__all__ = ["CASES", "FOLDER", "PREFIX", "Case", "Measure", "references"]

FOLDER = Path(__file__).with_name("cases")
PREFIX = "with-"
"""Begins the names of scenarios in which a control shares a path with a reference."""

_ENTRANT = "workload.entrant.transport.cc"


@dataclass(frozen=True)
class Measure:
    """A figure of a scenario, for each control."""

    name: str
    """As the beginning of a sentence."""
    expression: str
    unit: Literal["%", "ms", "s", "1", "Mbit/s"]
    better: Literal["more", "less", "half"] = "more"
    """``half``: the nearer to 50 %, the better."""
    where: Mapping[str, str] = field(default_factory=dict)
    """Values of the factors that the scenario itself sweeps."""
    never: float | None = None
    """A value, in ``unit``: a worse one is a serious fault, if no reference is as bad."""
    excused: bool = True
    """Whether a reference that is as bad excuses it."""
    fault: str = ""
    """What it means then."""
    alike: float = 0.03
    """Share by which two values differ without being different."""
    slack: float = 0.0
    """The same in ``unit``, for values near zero."""


@dataclass(frozen=True)
class Case:
    """A scenario and what is read from it."""

    name: str
    """Of its file."""
    measures: tuple[Measure, ...]
    factor: str = "transport.cc"
    """The path in the scenario that gets the controls."""
    picture: Literal["flows", "together", "queue", ""] = ""
    """The series that its picture shows: goodput of each flow, or of all together, or the queue."""
    against: str = ""
    """The reference beside which the control runs."""

    @property
    def file(self) -> Path:
        """Its scenario."""
        return FOLDER / f"{self.name}.yaml"


def references() -> tuple[str, ...]:
    """The controls with which every scenario runs, too: those of the files ``with-NAME.yaml``."""
    return tuple(case.against for case in CASES if case.against)


def _used(phase: str = "steady", **more: object) -> Measure:
    given = {"never": 60.0, "fault": "the path stays unused", **more}
    return Measure("Utilisation", f"utilisation@{phase}", "%", **given)  # type: ignore[arg-type]


def _queue(phase: str = "steady", **where: str) -> Measure:
    return Measure("Mean queueing delay", f"queue.delay@{phase}", "ms", "less", where, alike=0.1, slack=1.0)


def _lost(phase: str = "steady", **more: object) -> Measure:
    return Measure("Packets lost", f"link.loss@{phase}", "%", "less", alike=0.15, slack=0.02, **more)  # type: ignore[arg-type]


def _beside(name: str) -> Case:
    share = "goodput.mean(entrant)@steady / (goodput.mean(entrant)@steady + goodput.mean(other)@steady)"
    measures = (
        Measure("Its share", share, "%", "half", never=5, fault="one of the two starves", slack=3),
        Measure("Goodput of the other", "goodput.mean(other)@steady", "Mbit/s", alike=0.1),
        _queue(),
    )
    return Case(f"{PREFIX}{name}", measures, _ENTRANT, "flows", name)


def _at_loss(share: str, **more: object) -> Measure:
    given = {"where": {"loss": share}, "never": None, "alike": 0.1, **more}
    return Measure(f"Utilisation at {share} loss", "utilisation@steady", "%", **given)  # type: ignore[arg-type]


def _managed(queue: str) -> tuple[Measure, ...]:
    return (
        Measure(f"Utilisation behind {queue}", "utilisation@steady", "%", where={"queue": queue}),
        Measure(
            f"Mean queueing delay behind {queue}", "queue.delay@steady", "ms", "less", {"queue": queue}, alike=0.15,
            slack=1.0,
        ),
    )  # fmt: skip


def _delay(flows: str, metric: str, name: str, unit: Literal["ms", "s"]) -> Measure:
    return Measure(name, f"{metric}({flows})@steady", unit, "less", alike=0.1)


def _cases(found: Callable[[], list[str]]) -> tuple[Case, ...]:
    return (
        Case(
            "alone",
            (
                _used(),
                _queue(),
                _lost(),
                Measure("Time to 85 % of the rate", "goodput.aggregate.reach[share: 85%]", "s", "less", alike=0.25),
            ),
            picture="together",
        ),
        Case("shallow", (_used(), _lost()), picture="together"),
        Case("deep", (_used(), _queue()), picture="queue"),
        Case(
            "long-fat",
            (
                _used(never=30.0),
                _lost(),
                Measure("Time to 80 % of the rate", "goodput.aggregate.reach[share: 80%]", "s", "less", alike=0.25),
            ),
            picture="together",
        ),
        Case(
            "fairness",
            (Measure("Jain's index", "jain@steady", "1", never=0.6, fault="its flows starve each other"), _used()),
            picture="flows",
        ),
        Case(
            "convergence",
            (
                Measure("Jain's index, 5 to 20 s after the newcomer", "jain@soon", "1", alike=0.05),
                Measure("Jain's index, 30 to 60 s after it", "jain@late", "1", never=0.7, fault="the newcomer starves"),
            ),
            picture="flows",
        ),
        Case(
            "rtts",
            (
                Measure(
                    "Share of the far flow", "goodput.mean(far)@steady / (goodput.mean(far)@steady + "
                    "goodput.mean(near)@steady)", "%", "half", never=2, fault="one of the two starves", slack=3,
                ),
                _used(),
            ),
            picture="flows",
        ),
        *(_beside(name) for name in found()),
        Case("losses", (_at_loss("0.01%"), _at_loss("0.1%"), _at_loss("1%"))),
        Case(
            "collapse",
            (
                Measure(
                    "Rate that it keeps sending", "throughput.aggregate.mean@lossy", "Mbit/s", "less", alike=0.3,
                    slack=0.5, never=25,
                    excused=False, fault="it keeps sending into a collapsed path (RFC 9743, section 5.1.1)",
                ),
            ),
        ),
        Case(
            "capacity",
            (
                Measure("Mean queueing delay after the fall", "queue.delay@low", "ms", "less", alike=0.1, slack=5),
                _used("low", never=60.0),
                Measure("Utilisation in the 10 s after the rise", "utilisation@back", "%", alike=0.05),
            ),
            picture="together",
        ),
        Case(
            "route",
            (
                Measure("Utilisation with the longer route", "utilisation@longer", "%", never=30, fault="it is misled"),
                Measure("Utilisation with the shorter route again", "utilisation@shorter", "%"),
            ),
            picture="together",
        ),
        Case(
            "short-flows",
            (
                _delay("web", "page.completion.p50", "Median time of a page", "s"),
                _delay("web", "page.completion.p95", "95th percentile of it", "s"),
                _used("steady", never=None),
            ),
        ),
        Case(
            "call",
            (
                _delay("call", "delay.p95", "95th percentile of the call's one-way delay", "ms"),
                Measure("Mean jitter of it", "delay.jitter.mean(call)@steady", "ms", "less", alike=0.15, slack=0.3),
            ),
        ),
        Case("managed", (*_managed("codel"), *_managed("pie"))),
        Case(
            "crowd",
            (
                _lost(never=15, fault="losses beyond what transports bear"),
                Measure("Jain's index", "jain@steady", "1", alike=0.05),
                _used(),
            ),
        ),
    )  # fmt: skip


def _found() -> list[str]:
    return sorted(path.stem.removeprefix(PREFIX) for path in FOLDER.glob(f"{PREFIX}*.yaml"))


CASES = _cases(_found)

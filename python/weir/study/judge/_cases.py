"""What a referee asks: the scenarios, the figures that answer, and the values that no referee accepts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from weir.scenario import load

__all__ = [
    "CASES",
    "FOLDER",
    "LEFT",
    "LOST",
    "MORE",
    "PREFIX",
    "PUSHED",
    "REPEATS",
    "Case",
    "Measure",
    "references",
    "standards",
]

FOLDER = Path(__file__).with_name("cases")
PREFIX = "with-"
"""Begins the names of scenarios in which a control shares a path with a reference."""

REPEATS = 8
"""Of a scenario, with other draws: start times, clocks, losses, pages. Repeat k has the same for every control."""
MORE = 3
"""As many times more repeats has a scenario in which equal flows often find equal shares, but not always."""

_ENTRANT = "workload.entrant.transport.cc"
_STANDARD = "standard"
"""Tag of the scenarios beside a control that a standard of the IETF defines."""

LOST = (10.0, 25.0)
"""Packets lost, %: the limit, and the bound of a rejection."""
PUSHED = (10.0, 25.0)
"""Rate into the path that loses a third of all packets, Mb/s: the same."""
LEFT = (0.25, 0.05)
"""What the other flow keeps, as a share of what standard controls leave to it: the same."""


@dataclass(frozen=True)
class Measure:
    """A figure of a scenario, for each control."""

    name: str
    """As the beginning of a sentence."""
    expression: str
    unit: Literal["%", "ms", "s", "1", "Mb/s"]
    better: Literal["more", "less", "half"] = "more"
    """``half``: the nearer to 50 %, the better."""
    where: Mapping[str, str] = field(default_factory=dict)
    """Values of the factors that the scenario itself sweeps."""
    limit: float | None = None
    """A value, in ``unit``: a worse one is a serious fault, unless a standard control is as bad."""
    bound: float | None = None
    """A value beyond the limit: a worse one alone rejects the control."""
    fault: str = ""
    """What a value beyond the limit means, as a clause."""
    grave: str = ""
    """What one beyond the bound means, if it is something else."""
    peer: str = ""
    """A reference that is a yardstick beside the standard controls: the other flow's own kind."""
    relative: bool = False
    """Whether limit and bound are shares of the worst value of the yardstick."""
    praised: bool = True
    """Whether a value that is better than all others is a strong point."""
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
    """The path in the scenario that gets the controls. If it ends with ``transport``, those that want ECN get it."""
    picture: Literal["flows", "together", "queue", ""] = ""
    """The series that its picture shows: goodput of each flow, or of all together, or the queue."""
    times: int = 1
    """It is repeated this many times ``REPEATS``."""
    against: str = ""
    """The reference beside which the control runs."""

    @property
    def file(self) -> Path:
        """Its scenario."""
        return FOLDER / f"{self.name}.yaml"

    @property
    def label(self) -> str:
        """The name of the controls' factor in results."""
        return self.factor.rpartition(".")[2]

    def changes(self, controls: Mapping[str, str], marked: Collection[str] = ()) -> dict[str, object]:
        """The changes of the scenario with which it sweeps ``controls``, by their names, and repeats each; those
        ``marked`` want ECN.
        """
        given: dict[str, object] = dict(controls)
        if self.label != "cc":
            given = {name: {"cc": control, "ecn": name in marked} for name, control in controls.items()}
        return {f"sweep.{self.factor}": given, "repeat": self.times * REPEATS}


def references() -> tuple[str, ...]:
    """The controls with which every scenario runs, too: those of the files ``with-NAME.yaml``."""
    return tuple(case.against for case in CASES if case.against)


@functools.cache
def standards() -> frozenset[str]:
    """Those of them that a standard of the IETF defines."""
    found = (path for path in FOLDER.glob(f"{PREFIX}*.yaml") if _STANDARD in load(path).tags)
    return frozenset(path.stem.removeprefix(PREFIX) for path in found)


def _used(phase: str = "steady", **more: object) -> Measure:
    given = {"limit": 60.0, "fault": "the path stays unused", **more}
    return Measure("Utilisation", f"utilisation@{phase}", "%", **given)  # type: ignore[arg-type]


def _queue(phase: str = "steady", **where: str) -> Measure:
    return Measure("Mean queueing delay", f"queue.delay@{phase}", "ms", "less", where, alike=0.1, slack=1.0)


def _lost(phase: str = "steady") -> Measure:
    return Measure(
        "Packets lost", f"link.loss@{phase}", "%", "less", limit=LOST[0], bound=LOST[1], alike=0.15,
        slack=0.02, fault="more packets are lost than a network bears (RFC 9743, section 5.1.3)",
    )  # fmt: skip


def _pair(other: str, *, fatal: bool) -> tuple[Measure, ...]:
    """What two flows get: the one under test, and the other, whose control is ``other``."""
    share = "goodput.mean(entrant)@steady / (goodput.mean(entrant)@steady + goodput.mean(other)@steady)"
    return (
        Measure("Its own share (judged if too small)", share, "%", limit=5, fault="it starves", praised=False, slack=3),
        Measure(
            "Left to the other flow", "goodput.mean(other)@steady", "Mb/s", limit=LEFT[0],
            bound=LEFT[1] if fatal else None, fault="it harms the other flow (RFC 9743, section 5.2)",
            grave="it starves the other flow (RFC 9743, section 5.2)", peer=other, relative=True,
            praised=False, alike=0.1,
        ),
    )  # fmt: skip


def _beside(name: str) -> Case:
    return Case(f"{PREFIX}{name}", (*_pair(name, fatal=name in standards()), _queue()), _ENTRANT, "flows", against=name)


def _at_loss(share: str, **more: object) -> Measure:
    given = {"where": {"loss": share}, "limit": None, "alike": 0.1, **more}
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
                _used(limit=30.0),
                _lost(),
                Measure("Time to 80 % of the rate", "goodput.aggregate.reach[share: 80%]", "s", "less", alike=0.25),
            ),
            picture="together",
        ),
        Case(
            "fairness",
            (Measure("Jain's index", "jain@steady", "1", limit=0.6, fault="its flows starve each other"), _used()),
            picture="flows",
            times=MORE,
        ),
        Case(
            "convergence",
            (
                Measure("Jain's index, 5 to 20 s after the newcomer", "jain@soon", "1", alike=0.05),
                Measure("Jain's index, 30 to 60 s after it", "jain@late", "1", limit=0.7, fault="the newcomer starves"),
            ),
            picture="flows",
            times=MORE,
        ),
        Case(
            "rtts",
            (
                Measure(
                    "Share of the far flow", "goodput.mean(far)@steady / (goodput.mean(far)@steady + "
                    "goodput.mean(near)@steady)", "%", "half", limit=2, fault="one of the two starves", slack=3,
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
                    "Rate that it keeps sending", "throughput.aggregate.mean@lossy", "Mb/s", "less", limit=PUSHED[0],
                    bound=PUSHED[1], alike=0.3, slack=0.5,
                    fault="it keeps sending into a collapsed path (RFC 9743, section 5.1.1)",
                ),
            ),
        ),
        Case(
            "capacity",
            (
                Measure("Mean queueing delay after the fall", "queue.delay@low", "ms", "less", alike=0.1, slack=5),
                _used("low", limit=60.0),
                Measure("Utilisation in the 10 s after the rise", "utilisation@back", "%", alike=0.05),
            ),
            picture="together",
        ),
        Case(
            "route",
            (
                Measure("Utilisation with the longer route", "utilisation@longer", "%", limit=30, fault="it is misled"),
                Measure("Utilisation with the shorter route again", "utilisation@shorter", "%"),
            ),
            picture="together",
        ),
        Case(
            "short-flows",
            (
                _delay("web", "page.completion.p50", "Median time of a page", "s"),
                _delay("web", "page.completion.p95", "95th percentile of it", "s"),
                _used("steady", limit=None),
            ),
        ),
        Case(
            "call",
            (
                _delay("call", "delay.p95", "95th percentile of the call's one-way delay", "ms"),
                Measure(
                    "Mean jitter of it", "delay.jitter.mean(call)@steady", "ms", "less", alike=0.15,
                    slack=0.3,
                ),
            ),
        ),
        Case("managed", (*_managed("codel"), *_managed("pie"))),
        Case(
            "marks",
            (_used(), _queue(), _lost(), Measure("Jain's index", "jain@steady", "1", alike=0.05)),
            "workload.flows.transport",
            "flows",
        ),
        Case("marks-beside", (*_pair("", fatal=False), _queue()), "workload.entrant.transport", "flows"),
        Case(
            "crowd",
            (
                _lost(),
                Measure("Jain's index", "jain@steady", "1", alike=0.05),
                _used(),
            ),
        ),
    )  # fmt: skip


def _found() -> list[str]:
    return sorted(path.stem.removeprefix(PREFIX) for path in FOLDER.glob(f"{PREFIX}*.yaml"))


CASES = _cases(_found)

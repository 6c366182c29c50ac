"""One cell of a scenario as a unit of work."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import weir
from weir import cc, methods
from weir.engine._estimate import Estimate, estimate
from weir.plan import Plan, canonical, plan_hash, typed
from weir.run import tables

__all__ = ["Cell", "Expectation", "Failure", "Job", "Scenario"]


class Cell(Protocol):
    """One cell of a sweep and one repeat of it."""

    @property
    def id(self) -> str:
        """Unique within the scenario, and a valid folder name."""

    @property
    def factors(self) -> Mapping[str, str]:
        """Swept parameters by short name, in the scenario's own text."""

    @property
    def repeat(self) -> int:
        """Number of the repeat, from 0."""

    def plan(self) -> dict[str, Any]:
        """The plan; equal at every call."""


class Expectation(Protocol):
    """A claim about the results; the engine only copies it into the manifest."""

    @property
    def claim(self) -> str:
        """The claim in words."""

    @property
    def where(self) -> Mapping[str, str]:
        """Factor values of its cells."""

    @property
    def check(self) -> str:
        """The check, as an expression."""

    @property
    def source(self) -> str:
        """Its origin."""

    @property
    def note(self) -> str:
        """A remark for readers."""

    @property
    def expected(self) -> str:
        """The known outcome: ``holds`` or ``fails``."""

    @property
    def basis(self) -> Mapping[str, str]:
        """What else the scenario says about it: ``id``, ``paper``, ``tolerance``, ``refuted_by``, ``fitted``,
        ``beyond``, ``chance``; each if given."""


class Shown(Protocol):
    """A figure of the summary."""

    @property
    def value(self) -> str:
        """The expression."""

    @property
    def title(self) -> str:
        """Its title; empty without one."""


class Scenario(Protocol):
    """The engine's view of a scenario."""

    @property
    def title(self) -> str:
        """Title."""

    @property
    def text(self) -> str:
        """The text of the file."""

    @property
    def file(self) -> str:
        """The path of the file."""

    @property
    def expect(self) -> Sequence[Expectation]:
        """Its claims."""

    @property
    def summary(self) -> Sequence[Shown]:
        """The figures on top of its report."""

    def cells(self) -> Sequence[Cell]:
        """The cells, in the order of the sweep."""


@dataclass(frozen=True)
class Failure:
    """A cell that failed."""

    cell: str
    error: str
    trace: str = ""
    """Stack trace, if the failure is a defect of weir."""
    factors: Mapping[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """The cell with its factors, for people."""
        values = ", ".join(f"{name} = {value}" for name, value in self.factors.items())
        return f"cell {self.cell} ({values})" if values else f"cell {self.cell}"


@dataclass(frozen=True)
class Job:
    """A cell, with the facts known before it runs. Its plan may be large, so it is compiled again when needed."""

    cell: Cell
    plan_hash: str
    key: str
    """Equal keys mean equal results: plan, method, version of weir and of its tables, files that the plan names."""
    seed: int
    estimate: Estimate
    end_ns: int
    cost: float
    """Relative amount of work: the method's estimate in seconds, or packets."""
    controls: Mapping[str, str] = field(default_factory=dict)
    """The source of each user's congestion control, by name."""
    on: str | None = None
    """The file of the inventory on which it is executed, for a method that takes one."""

    @classmethod
    def of(cls, cell: Cell, method: str, on: str | None = None) -> Job:
        """The job of executing ``cell`` by ``method``, on the inventory in the file ``on`` if that takes one.

        Raises:
            weir.plan.PlanError: the cell's document is no plan.
        """
        document = cell.plan()
        plan, digest = typed(document), plan_hash(document)
        versions = {"weir": weir.__version__, "tables": tables.FORMAT}
        where = {} if on is None else {"on": hashlib.sha256(Path(on).read_bytes()).hexdigest()}
        key = canonical({"plan": digest, "method": method, **versions, "inputs": _inputs(plan), **where})
        expected = estimate(document)
        cost = _cost(document, expected.packets, methods.get(method, on))
        return cls(cell, digest, key, plan.seed, expected, plan.end_ns, cost, cc.sources_of(plan), on)

    def message(self, run: Path, method: str) -> dict[str, Any]:
        """The message to a worker: see :mod:`weir.engine.worker`.

        Raises:
            weir.cc.ControlError: a user's congestion control cannot be built any more.
        """
        plan = self.cell.plan()
        names = cc.controls_of(typed(plan)) if methods.get(method).loads_controls else ()
        return {
            "id": self.cell.id,
            "run": str(run.absolute()),
            "method": method,
            "plan": canonical(plan),
            "manifest": {**self.facts(), "method": method, "key": self.key},
            **({} if self.on is None else {"on": self.on}),
            **({"objects": {name: str(cc.object_of(name)) for name in names}} if names else {}),
        }

    def facts(self) -> dict[str, Any]:
        """The cell's facts for manifests."""
        return {
            "id": self.cell.id,
            "factors": dict(self.cell.factors),
            "repeat": self.cell.repeat,
            "seed": self.seed,
            "plan_hash": self.plan_hash,
            **({"controls": dict(self.controls)} if self.controls else {}),
        }


def _cost(plan: Mapping[str, Any], packets: int, method: methods.Method) -> float:
    """The estimate of ``method`` for ``plan``, in seconds; in packets if it has none."""
    with contextlib.suppress(methods.MethodError):  # the execution of the plan will report it
        if (seconds := method.foreseen_s(plan, packets)) is not None:
            return seconds
    return float(packets + 1000)


def _inputs(plan: Plan) -> dict[str, str]:
    """Hashes of the files that a plan names: users' built congestion controls."""
    found = {}
    for name in cc.controls_of(plan):
        with contextlib.suppress(cc.ControlError):  # the method reports a missing file with a better message
            found[name] = cc.file_hash(name)
    return found

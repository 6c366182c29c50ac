"""Builds a congestion control in the three ways, and checks each build. What a machine lacks is said, not hidden."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import weir
from weir import cc as users
from weir.control import is_python
from weir.study.judge._cases import CASES

__all__ = ["Check", "checks"]

Outcome = Literal["passed", "doubtful", "failed", "not run"]

_CALLS = 20_000


@dataclass(frozen=True)
class Check:
    """A build or a check, and what came of it."""

    name: str
    outcome: Outcome
    said: str
    """What was found, or why it was not run."""
    listed: tuple[str, ...] = ()
    """What it asked for, one by one."""


def checks(source: Path) -> Iterator[Check]:
    """Builds the control in ``source`` and checks the builds, one after the other.

    Raises:
        ControlError: it does not even run in the simulator.
    """
    if is_python(source.name):
        yield _asked(source)
        yield _repeatable(source)
        yield from _without_builds()
        return
    yield _simulator(source)
    yield _undefined(source)
    yield _suite(source)
    bpf = _bpf(source)
    yield bpf
    yield _parity(source, bpf)
    yield _module(source)


def _asked(source: Path) -> Check:
    """The trial of a control in Python, as far as it is one."""
    users.control(str(source))
    said = (
        "loads, and answers ten reports with options at their defaults and at both ends: calm, losses, marks, a "
        "timeout and a pause"
    )
    return Check("Simulator", "passed", said)


def _repeatable(source: Path) -> Check:
    """Whether two processes get the same tables: a control with a generator of its own seed would not."""
    name = "Same results"
    changes = {**CASES[0].changes({"yours": str(source.absolute())}), "repeat": 1}
    with tempfile.TemporaryDirectory(prefix="weir-cc-") as folder:
        runs = [
            weir.execute(CASES[0].file, Path(folder) / which, method="sim", set=changes, workers=1) for which in "ab"
        ]
        first, second = (run.cells[0].table("goodput").collect() for run in runs)
    if not first.equals(second):
        return Check(name, "failed", "two runs with the same seed differ: draw random numbers from Flow.seed only")
    return Check(name, "passed", "two runs with the same seed are equal")


def _without_builds() -> Iterator[Check]:
    """The checks of a control in C that one in Python cannot have."""
    yield Check("BPF and kernel module", "not run", "no kernel executes Python; only the simulator runs it")
    yield Check("Simulator = BPF", "not run", "there is no second build to compare with")
    yield Check(
        "Shared suite and guards",
        "not run",
        "they ask about calls for single acknowledgements, and it is asked once a round trip or at an interval; its "
        "answers are checked instead: finite, positive, within bounds",
    )


def _simulator(source: Path) -> Check:
    with tempfile.TemporaryDirectory(prefix="weir-cc-") as folder:
        warnings = users.compiled(source, Path(folder) / "control.so")
    about = users.control(str(source)).about
    said = (
        f"compiles, uses {about.state_bytes} of 104 bytes, and passes the trial: thousands of calls, with options at "
        "their defaults and at both ends, write nothing that Linux would forbid"
    )
    if warnings:
        return Check("Simulator", "doubtful", f"{said}; but the compiler warns:\n{warnings}")
    return Check("Simulator", "passed", said)


def _undefined(source: Path) -> Check:
    """The trial of a build that stops at undefined behaviour."""
    name = "Undefined behaviour"
    with tempfile.TemporaryDirectory(prefix="weir-cc-") as folder:
        shared = Path(folder) / f"{source.stem}.so"
        try:
            users.compiled(source, shared, sanitize=True)
            users.describe(shared, str(source))
        except users.ControlError as error:
            return Check(name, "failed", str(error))
    return Check(name, "passed", "a build with UBSan passes the same trial: no overflow, no oversized shift")


def _suite(source: Path) -> Check:
    """What every control should do, asked of the simulator's build."""
    name = "Shared suite"
    try:
        found = users.requirements(users.object_of(str(source)), str(source))
    except users.ControlError as error:
        return Check(name, "failed", f"{error}. The suite calls it with its options at their defaults, without HyStart")
    broken = [one for one in found if one.instead is not None]
    asked = tuple(one.title for one in found)
    if broken:
        said = "\n".join(f"{one.title}: {one.instead}" for one in broken)
        outcome: Outcome = "failed" if 2 * len(broken) >= len(found) else "doubtful"
        return Check(
            name, outcome, f"{len(found) - len(broken)} of {len(found)} requirements are met; not:\n{said}", asked
        )
    few = "; the rest is about windows that losses set, and its cong_control sets the window" if len(found) == 1 else ""
    return Check(name, "passed", f"{len(found)} of {len(found)} requirements on every control are met{few}", asked)


def _bpf(source: Path) -> Check:
    from weir import _weir, bpf, confine
    from weir.methods import MethodError

    name = "BPF"
    try:
        verdict, reason = _weir.cc_check_bpf(_weir.CcSources(source), confine.by())
    except (ValueError, confine.ConfineError) as error:
        return Check(name, "not run", str(error))
    if verdict == "no clang":
        return Check(name, "not run", f"there is no {reason!r} here; install clang")
    if verdict == "refused":
        return Check(name, "failed", f"it does not compile:\n{reason}")
    try:
        why_not = bpf.status().why_not
        if why_not is not None:
            return Check(name, "passed", f"it compiles; this kernel's verifier was not asked: {why_not}")
        with bpf.Loader() as loader:
            loader.load(str(source.absolute()))
    except MethodError as error:
        return Check(name, "failed", str(error))
    return Check(name, "passed", "it compiles, and this kernel's verifier accepts it")


def _parity(source: Path, bpf: Check) -> Check:
    from weir.bpf import parity, status
    from weir.methods import MethodError

    name = "Simulator = BPF"
    if bpf.outcome != "passed":
        return Check(name, "not run", "there is no BPF build to compare with")
    try:
        if (why_not := status().why_not) is not None:
            return Check(name, "not run", why_not)
        found = parity(str(source), _CALLS)
    except MethodError as error:
        return Check(name, "not run", str(error))
    if found.differences:
        first = found.differences[0]
        options = ", ".join(f"{option}={value}" for option, value in first.options.items()) or "by default"
        where = f"flow {first.flow}, call {first.call}, {first.operation} (options: {options})"
        return Check(name, "failed", f"{where}: {first.what}")
    return Check(
        name, "passed", f"{found.calls} drawn calls in {found.flows} flows leave the same state in both builds"
    )


def _module(source: Path) -> Check:
    from weir import lab

    name = "Kernel module"
    try:
        if (why_not := lab.unavailable()) is not None:
            return Check(name, "not run", f"it is built against the lab's kernel: {why_not}")
        kernel = lab.find()
        assert kernel is not None
        kernel.modules([lab.Control.of(source)])
    except lab.LabError as error:
        return Check(name, "failed", str(error))
    return Check(name, "passed", f"it compiles against Linux {kernel.version}, the lab's kernel")

"""The compared congestion controls: the kernel's, and weir's by the paper and as Linux, in the lab and simulated."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from weir import _weir, cc
from weir.lab import BUILT_IN
from weir.plan import tcp_flows, typed
from weir.scenario import load
from weir.study import Side, StudyError

__all__ = ["AS_LINUX", "KINDS", "Kind", "kernels", "named_in", "names", "sides"]

AS_LINUX = "as_linux"
"""The option with which a congestion control behaves like the kernel's."""


@dataclass(frozen=True)
class Kind:
    """The origin of a side's congestion control, and the method that runs it."""

    name: str
    method: str
    rules: Literal["kernel", "paper", "as linux"]

    def congestion_control(self, name: str, against: str | None = None) -> Any:
        """``name`` as a scenario writes it for this side; ``None`` if the side has no such control.

        ``against`` is the kernel's control for the comparison; ``None``: the one of its name.
        """
        if self.rules == "kernel":
            other = name if against is None else against
            return f"linux:{other}" if other in BUILT_IN else None
        # A path is relative to the working directory here, and to the scenario's folder there.
        named = str(Path(name).absolute()) if cc.is_file_name(name) else name
        if self.rules == "paper":
            return named
        return {"name": named, AS_LINUX: True} if AS_LINUX in _options(name) else None

    def side(self, chosen: Sequence[str], against: str | None = None) -> Side | None:
        """The side that executes the congestion controls ``chosen``; ``None`` if it has none of them."""
        there = {name: value for name in chosen if (value := self.congestion_control(name, against)) is not None}
        return Side(self.name, self.method, {"sweep.transport.cc": json.dumps(there)}) if there else None


KINDS = (
    Kind("kernel", "lab", "kernel"),
    Kind("lab", "lab", "paper"),
    Kind("lab as_linux", "lab", "as linux"),
    Kind("sim", "sim", "paper"),
    Kind("sim as_linux", "sim", "as linux"),
)
"""The kernel's own first: it is the reference."""


def sides(chosen: Sequence[str], against: str | None = None) -> list[Side]:
    """The sides of a validation of the congestion controls ``chosen``.

    ``against`` is the kernel's control with which all are compared; ``None``: each with the one of its name.
    """
    return [side for kind in KINDS if (side := kind.side(chosen, against)) is not None]


def kernels(name: str) -> str:
    """The congestion control of the lab's kernel that ``linux:NAME`` names.

    Raises:
        StudyError: the kernel has none of that name.
    """
    found = name.removeprefix("linux:")
    if not name.startswith("linux:") or found not in BUILT_IN:
        there = ", ".join(f"linux:{one}" for one in BUILT_IN)
        raise StudyError(f"{name}: the lab's kernel has no such congestion control; there are {there}")
    return found


def names(chosen: Sequence[str]) -> tuple[str, ...]:
    """The congestion controls ``chosen``, each once: registered ones in the registry's order, then users'.

    A control that the lab's kernel lacks is compared between the lab and the simulator only.

    Raises:
        StudyError: weir has no such congestion control, or a user's cannot be used.
    """
    known = _registered()
    for name in chosen:
        if cc.is_file_name(name):
            _usable(name)
        elif name not in known:
            raise StudyError(f"{name}: weir has no such congestion control; there are {', '.join(known)}, or a C file")
    users = dict.fromkeys(name for name in chosen if cc.is_file_name(name))
    return (*(name for name in known if name in chosen), *users)


def named_in(scenario: Path, overrides: Mapping[str, str], *, quick: bool) -> tuple[str, ...]:
    """The congestion controls in a scenario; ``linux:NAME`` stands for weir's of that name.

    Raises:
        weir.scenario.ScenarioError: the scenario is wrong.
        StudyError: as :func:`names`.
    """
    loaded = load(scenario, quick=quick, overrides=overrides)
    transports = (tcp for cell in loaded.cells() for _, tcp in tcp_flows(typed(cell.plan())))
    return names(tuple(dict.fromkeys(tcp.cc.removeprefix("linux:") for tcp in transports)))


def _usable(name: str) -> None:
    try:
        cc.control(name)
        cc.source_of(Path(name))
    except cc.ControlError as error:
        raise StudyError(str(error)) from None


def _options(name: str) -> set[str]:
    if cc.is_file_name(name):
        return {option.name for option in cc.control(name).about.options}
    return _registered()[name]


def _registered() -> dict[str, set[str]]:
    """The options of weir's congestion controls, by name."""
    described = json.loads(_weir.cc_list())
    return {one["name"]: {option["name"] for option in one["options"]} for one in described}

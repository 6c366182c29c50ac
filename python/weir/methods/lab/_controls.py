"""The kernel modules of a plan's congestion controls: ``cubic`` is weir's, ``linux:cubic`` the lab kernel's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.lab import BUILT_IN, Control, Kernel, registered
from weir.methods import MethodError
from weir.methods.emul._congestion import FOREIGN, Wanted, wanted

__all__ = ["Controls", "controls", "obstacle"]

_NAME = 15
"""Longest name of a congestion control in Linux."""


@dataclass(frozen=True)
class Controls:
    """What the guest loads, and what the agents then ask for."""

    modules: tuple[tuple[Path, str], ...]
    """Module and parameters."""
    names: Mapping[str, str]
    """The kernel's name of each congestion control of the plan, by label."""


def controls(plan: Mapping[str, Any], kernel: Kernel) -> Controls:
    """The congestion controls of ``plan``; modules that the cache lacks are built.

    Raises:
        MethodError: the plan names one that there is not.
        weir.lab.LabError: one does not compile.
    """
    names: dict[str, str] = {}
    ours: dict[Wanted, Control] = {}
    used: dict[str, int] = {}
    for cc in wanted(plan):
        if cc.name.startswith(FOREIGN):
            names[cc.label] = _native(cc)
            continue
        source = _source(cc.name)
        number = used[cc.name] = used.get(cc.name, -1) + 1
        # The same source with other options is another module.
        ours[cc] = Control.of(source, "weir_" if number == 0 else f"w{number}_")
        names[cc.label] = ours[cc].kernel_name
        if len(names[cc.label]) > _NAME:
            raise MethodError(f"cc: {cc.name}: {names[cc.label]!r} is longer than a name in Linux, {_NAME} characters")
    modules = kernel.modules(ours.values())
    loads = tuple((modules[control], _parameters(cc)) for cc, control in ours.items())
    return Controls(loads, names)


def obstacle(plan: Mapping[str, Any]) -> str | None:
    """Why there is none of the congestion controls of ``plan``; nothing is built."""
    try:
        for cc in wanted(plan):
            if cc.name.startswith(FOREIGN):
                _native(cc)
            else:
                _source(cc.name)
    except MethodError as error:
        return str(error)
    return None


def _native(cc: Wanted) -> str:
    name = cc.name.removeprefix(FOREIGN)
    if name not in BUILT_IN:
        raise MethodError(f"cc: {cc.name}: the lab kernel has no {name!r}; it has {', '.join(BUILT_IN)}")
    if cc.options:
        raise MethodError(f"cc: {cc.name}: options are for weir's own congestion controls")
    return name


def _source(name: str) -> Path:
    known = registered()
    if name in known:
        return known[name]
    if name.endswith(".so"):
        source = Path(name).with_suffix(".c")
        if source.is_file():
            return source.absolute()
        raise MethodError(f"cc: {name}: the lab compiles its source, which should be {source}")
    raise MethodError(f"cc: {name}: there is no congestion control of that name; there are {', '.join(known)}")


def _parameters(cc: Wanted) -> str:
    return " ".join(f"{option}={value}" for option, value in cc.options)

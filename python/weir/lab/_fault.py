"""Finds out why a lab's kernel died, from its last messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from weir.lab._modules import Loaded, Place

__all__ = ["Fault", "fault"]

_DIVISION = re.compile(r"weir: (\w{1,64}): (\w{1,128})(?:\.[\w.]{0,128})?(?: \[\w{1,64}\])? divides by zero")
"""The message of ``lab/guest/division``. Bounded, so that the time is not quadratic in the guest's output.
"""
_SIGNAL = re.compile(r"Kernel panic - not syncing: Kernel mode signal (\d+)")
_ACCESS = re.compile(r"Kernel (?:mode fault at|tried to access user memory at) addr 0x[0-9a-f]+, ip 0x([0-9a-f]+)")
_MEMORY = re.compile(r"Kernel panic - not syncing: (?:Segfault with no mm|Kernel mode signal (?:7|11))")
_PANIC = re.compile(r"Kernel panic - not syncing: (.*)")
_STACK = re.compile(r"corrupted stack|stack[- ]overflow|stack-protector", re.IGNORECASE)
_FLOATING_POINT = 8


@dataclass(frozen=True)
class Fault:
    """The fault, as a predicate, and its place; ``None`` if the kernel did not say."""

    what: str
    place: Place | None


def fault(console: str, modules: Sequence[Loaded]) -> Fault | None:
    """The fault in ``console``; ``None`` if the kernel did not die of one."""
    if found := _DIVISION.search(console):
        return Fault("divides by zero", Place(found[1], found[2]))
    if (found := _SIGNAL.search(console)) and int(found[1]) == _FLOATING_POINT:
        return Fault("divides by zero", None)
    if found := _ACCESS.search(console):
        return Fault("uses memory that is not its own", _place(int(found[1], 16), modules))
    if _MEMORY.search(console) or _STACK.search(console):
        return Fault("uses memory that is not its own", None)
    if found := _PANIC.search(console):
        return Fault(f"made the kernel panic ({found[1].strip()})", None)
    return None


def _place(address: int, modules: Sequence[Loaded]) -> Place | None:
    return next((module.place(address) for module in modules if module.holds(address)), None)

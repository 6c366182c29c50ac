"""The lab: a Linux kernel that runs as an ordinary program, in virtual time, without root.

It is User-Mode Linux with time travel: its clock advances only while every program in it waits, so that results do not
depend on the speed of the machine. :func:`build` builds it once; :class:`Lab` runs one. Inside, the host's files are
visible read-only and its programs run.
"""

from __future__ import annotations

from weir.lab._build import build
from weir.lab._errors import LabError
from weir.lab._fault import Fault
from weir.lab._kernel import BUILT_IN, Control, Kernel, find, registered, unavailable
from weir.lab._lab import FaultError, HungError, Lab, LoopError, Script, Settings, Tail
from weir.lab._left import left_behind
from weir.lab._modules import Place

__all__ = [
    "BUILT_IN",
    "Control",
    "Fault",
    "FaultError",
    "HungError",
    "Kernel",
    "Lab",
    "LabError",
    "LoopError",
    "Place",
    "Script",
    "Settings",
    "Tail",
    "build",
    "find",
    "left_behind",
    "registered",
    "unavailable",
]

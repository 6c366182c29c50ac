"""Stages of an experiment on real machines: the executables that an inventory names for them, and the state of tasks.

An inventory may name executables for equipment that weir does not know, such as latency emulators, routers and images
of operating systems (docs/hosts.md, "Hooks"). They run on this machine, as this user. What they have to undo is written
down before each is started, so that it is undone whatever becomes of this process.
"""

from __future__ import annotations

from weir.stages._call import obstacle
from weir.stages._contract import CONTRACT, Answer
from weir.stages._hooks import Done, Hooks
from weir.stages._keep import keep
from weir.stages.errors import HookError

__all__ = ["CONTRACT", "Answer", "Done", "HookError", "Hooks", "keep", "obstacle"]

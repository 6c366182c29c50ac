"""One emulated link for any program: ``weir emulate``.

Either a program runs in a network namespace whose only exit is the link (:func:`emulate`), with a peer at the far end;
or the link bridges two interfaces of this host (:func:`bridge`); or a switch is between several of them
(:func:`switch`). Link and switch are those of the scenario language, in the emulator that executes plans.
"""

from __future__ import annotations

from ._bridge import bridge, switch
from ._link import LinkOptions, OptionError, plan
from ._program import emulate
from ._switch import Pair, Port, SwitchReport, switch_plan
from ._tally import Direction, Report

__all__ = [
    "Direction",
    "LinkOptions",
    "OptionError",
    "Pair",
    "Port",
    "Report",
    "SwitchReport",
    "bridge",
    "emulate",
    "plan",
    "switch",
    "switch_plan",
]

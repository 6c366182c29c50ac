"""One emulated link for any program: ``weir emulate``.

Either a program runs in a network namespace whose only exit is the link (:func:`emulate`), with a peer at the far end;
or the link bridges two interfaces of this host (:func:`bridge`). The link is one of the scenario language, in the
emulator that executes plans.
"""

from __future__ import annotations

from ._bridge import bridge
from ._link import LinkOptions, OptionError, plan
from ._program import emulate
from ._tally import Direction, Report

__all__ = ["Direction", "LinkOptions", "OptionError", "Report", "bridge", "emulate", "plan"]

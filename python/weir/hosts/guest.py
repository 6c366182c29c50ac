"""A lab's guest as a place: another kernel, with devices, namespaces and a clock of its own.

Its clock is real, because someone outside is waited for: what a plan wants in virtual time is a script that the guest
carries out alone (:mod:`weir.methods.lab`). Its root is this machine's files, read-only.
"""

from __future__ import annotations

import sys

from weir.hosts.relay import Relay, far_end
from weir.lab import Kernel, Lab, Script, Settings

__all__ = ["Guest"]

_FOLDER = "/run/tmp"
"""Where processes of the guest may write."""


class Guest(Relay):
    """A lab that runs until the place is closed."""

    def __init__(self, kernel: Kernel, memory_mb: int = 512) -> None:
        """Starts it.

        Raises:
            PlaceError: it does not come up; the message has its console.
            LabError: this machine cannot start one.
        """
        script = Script()
        script.add("shell", *far_end(_FOLDER, sys.executable))
        self._lab = Lab(kernel, script, Settings(memory_mb=memory_mb, virtual=False, stream=True))
        self._lab.__enter__()
        try:
            send, receive = self._lab.stream
            super().__init__("the lab's guest", send, receive, self._lab.console)
        except BaseException:
            self._lab.__exit__(None, None, None)
            raise

    def close(self) -> None:
        """See :meth:`weir.hosts.place.Place.close`; the guest goes as a whole, whatever it does."""
        super().close()
        self._lab.__exit__(None, None, None)

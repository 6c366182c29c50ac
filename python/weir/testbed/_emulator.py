"""The emulator of a test bed: ``weir-emu``, which never gets the command to start, and so reports nothing."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
from collections.abc import Mapping, Sequence
from typing import IO, Any

from weir._programs import find
from weir.testbed._errors import BedError
from weir.testbed._shape import FIRST_PORT

__all__ = ["Emulator"]

_PRIORITY = -20
"""As in a run (:mod:`weir.hosts.processes`, which imports NumPy; this process lives long)."""
_READY_S = 60.0
_LEAVE_S = 5.0


class Emulator:
    """The links between the nodes."""

    def __init__(
        self, plan: str, hosts: Sequence[Mapping[str, Any]], environment: Mapping[str, str], log: IO[bytes]
    ) -> None:
        """Starts it; when this returns, packets pass.

        Args:
            plan: The plan, as JSON in one line.
            hosts: Where its hosts are, as a job has them.
            environment: Of the process.
            log: Takes what it says to people.

        Raises:
            BedError: it cannot do what it is told.
            weir._programs.ProgramError: it is not there.
        """
        pipe = subprocess.PIPE
        program = [str(find("weir-emu"))]
        self._process = subprocess.Popen(program, stdin=pipe, stdout=pipe, stderr=log, env=dict(environment))
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, _PRIORITY)
        rest = json.dumps({"version": 1, "hosts": list(hosts), "first_port": FIRST_PORT})
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f'{{"plan":{plan.strip()},{rest[1:]}\n'.encode())
            self._process.stdin.flush()
            self._await_ready()
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise BedError(f"the emulator does not listen: {error.strerror}") from error
            raise

    def failure(self) -> str | None:
        """Why it has ended; ``None`` while it works."""
        code = self._process.poll()
        return None if code is None else f"the emulator ended with status {code}"

    def close(self) -> None:
        """Ends it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_LEAVE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _await_ready(self) -> None:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], _READY_S)[0]:
            raise BedError(f"the emulator was not ready in {_READY_S:g} s")
        line = self._process.stdout.readline()
        message = json.loads(line) if line else {}
        if message.get("message") != "ready":
            raise BedError(f"the emulator cannot work: {message.get('text') or 'it ended'}")

"""``Loader``: congestion controls that are loaded for the duration of a run."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from weir._programs import find
from weir.bpf._errors import BpfError, BpfRequestError
from weir.bpf._source import source_name

__all__ = ["Loader", "kernel_name"]

_NAME_MAX = 15
"""Linux' ``TCP_CA_NAME_MAX`` without its terminator."""
_LEAVE_SECONDS = 10


class Loader:
    """Loads congestion controls into the kernel and holds them until its context ends::

        with Loader() as loader:
            name = loader.load("cubic", {"beta": 717})  # for TCP_CONGESTION

    A child process holds them as long as this process keeps the child's standard input open, so they are removed
    however this process ends. ``environment`` is the child's, by default this process' own. Threads may share a loader.

    Raises:
        weir._programs.ProgramError: on entry, if ``weir-bpf`` is missing.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = None if environment is None else dict(environment)
        self._process: subprocess.Popen[str] | None = None
        self.probes: dict[str, int] = {}
        """The kernel's id of the map of each control whose probes are kept, by its name in the kernel."""
        self._count = itertools.count()
        self._asking = threading.Lock()

    def __enter__(self) -> Self:
        # A session of its own: Ctrl-C in a terminal reaches only this process, which then cleans up in its own order.
        self._process = subprocess.Popen(
            [str(find("weir-bpf")), "hold"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self._environment,
            start_new_session=True,
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it has died already
            process.stdin.close()
        process.stdout.close()
        try:
            process.wait(_LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()  # its controls are removed with it
            process.wait()

    @property
    def pid(self) -> int:
        """Id of the process that holds the loaded controls.

        Raises:
            BpfError: the loader has not been entered.
        """
        return self._running().pid

    def load(
        self, cc: str, options: Mapping[str, int] | None = None, *, unrestricted: bool = False, probes: bool = False
    ) -> str:
        """Loads congestion control ``cc`` with ``options`` and returns its name in the kernel. Another call loads it
        again.

        ``cc`` is a registered name, a C file, or a shared object of ``weir cc build`` beside its C file. The name has
        at most 15 characters. It contains the process id and the number of the call, so no two processes share one.
        Sockets of processes without ``CAP_NET_ADMIN`` can choose it only if ``unrestricted``. With ``probes``, the
        values that it shows are kept in the map ``self.probes[name]``, by the kernel's id.

        Raises:
            BpfRequestError: the congestion control or an option does not exist, a value is out of bounds, or the
                source does not compile.
            BpfError: this host or its kernel cannot load it, for lack of privilege, BTF or clang, or because the
                verifier rejects it.
        """
        source = source_name(cc)
        while True:
            name = kernel_name(cc, os.getpid(), next(self._count))
            request = {"cc": source, "as": name, "options": dict(options or {}), "unrestricted": unrestricted}
            answer = self._ask({"load": [{**request, "probes": True} if probes else request]})
            if answer.get("code") != "name-taken":
                loaded = str(_checked(answer)["loaded"])
                if "probes" in answer:
                    self.probes[loaded] = int(answer["probes"])
                return loaded
            # A process in another pid namespace may have the same id and name: take the next name.

    def unload(self, name: str) -> None:
        """Removes ``name``, which ``load`` returned, from the kernel's list; sockets that use it keep it.

        Raises:
            BpfRequestError: this loader does not hold it.
        """
        _checked(self._ask({"unload": [name]}))

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise BpfError("the loader is not entered: use it in a `with` statement")
        return self._process

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        with self._asking:
            with contextlib.suppress(BrokenPipeError):  # the read below reports it
                process.stdin.write(json.dumps(request) + "\n")
                process.stdin.flush()
            line = process.stdout.readline()
        if not line:
            raise BpfError(
                f"weir-bpf ended with code {process.wait()} while it held congestion controls; see its messages"
            )
        answer: dict[str, Any] = json.loads(line)
        return answer


def kernel_name(cc: str, pid: int, count: int) -> str:
    """The name of a process' ``count``-th congestion control, such as ``w3f2a.0_cubic``."""
    stem = re.sub(r"[^A-Za-z0-9_]", "_", Path(cc).name.removesuffix(".so").removesuffix(".c"))
    return f"w{pid:x}.{count:x}_{stem}"[:_NAME_MAX]


def _checked(answer: dict[str, Any]) -> dict[str, Any]:
    if "error" in answer:
        kind = BpfRequestError if answer.get("code") == "bad-input" else BpfError
        raise kind(answer["error"])
    return answer

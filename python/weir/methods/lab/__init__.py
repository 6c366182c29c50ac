"""The real Linux kernel in virtual time: the plan's hosts are namespaces of a lab (``weir.lab``).

The same hosts, addresses and kernel parameters as ``emul``, one agent for all ends of flows, and the links inside the
guest's kernel (``lab/guest/wire``), or the program ``weir-emu`` where the kernel lacks an element. Twice the same
plan gives the same tables. Each cell keeps ``lab.json``: which kernel it was and what its links were.

The options ``methods.lab`` of the plan choose the links, and what the hosts' devices do about segments: by default each
packet is alone from the start.
"""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from weir import confine
from weir._programs import ProgramError
from weir._programs import find as program
from weir.hosts import programs
from weir.hosts.checks import Checks
from weir.hosts.merge import Merger
from weir.hosts.messages import File, Frame, FrameError, read
from weir.hosts.session import Heard
from weir.hosts.windows import require_windows
from weir.hosts.wiring import Wiring, wire
from weir.lab import Kernel, Lab, LabError, Settings, find, unavailable
from weir.methods import INSIDE, TABLES, Method, MethodError, Outcome, Progress, Sink
from weir.methods._document import plan_of
from weir.methods.lab import _wire
from weir.methods.lab._controls import controls, obstacle
from weir.methods.lab._effort import foreseen_s, memory_mb, output_bytes, processes, remarks, trace_bytes, wall_s
from weir.methods.lab._links import choose, require_fit
from weir.methods.lab._script import AGENT, ROWS, script
from weir.methods.options import OPTIONS

__all__ = ["LabMethod"]

_GRACE_NS = 30_000_000_000
"""How much longer than the plan the guest's clock may run."""

_FACTS = "lab.json"
"""In each cell: which kernel it was, and what its links were."""

_PRICE = (
    "programs of others ran in the lab: each of their system calls and wake-ups costs ten to twenty microseconds of "
    "wall time, so that they take many times what weir's own traffic does. One that polls the clock makes it crawl; "
    "one that polls without reading it stops it for good, and is reported as hung"
)


class LabMethod(Method):
    """Runs a plan on the lab kernel, in virtual time."""

    name = "lab"
    clock: Literal["virtual", "real"] = "virtual"
    needs = "Linux on x86-64 and the lab kernel (`weir lab build`); no root"
    title = "real Linux in virtual time"
    tables = TABLES | INSIDE
    called = "the lab"
    precedence = 20
    options = OPTIONS["lab"]

    def available(self) -> str | None:
        """``None``, or why it cannot run here."""
        try:
            program("weir-agent")
        except ProgramError as error:
            return str(error)
        return unavailable()

    def obstacle(self, plan: Mapping[str, Any]) -> str | None:
        """See :meth:`weir.methods.Method.obstacle`."""
        try:
            typed = plan_of(plan)
            require_fit(typed, choose(typed, None)[0])
        except MethodError as error:
            return str(error)
        return obstacle(typed)

    def foreseen_s(self, plan: Mapping[str, Any], packets: int) -> float:
        """See :meth:`weir.methods.Method.foreseen_s`."""
        return foreseen_s(plan_of(plan), packets)

    def memory_bytes(self, plan: Mapping[str, Any]) -> int:
        """See :meth:`weir.methods.Method.memory_bytes`."""
        return memory_mb(plan_of(plan)) * 1_000_000

    def remarks(self, plan: Mapping[str, Any], packets: int) -> Iterator[str]:
        """See :meth:`weir.methods.Method.remarks`."""
        return remarks(plan_of(plan), packets)

    def refusal(self, obstacle: str) -> str:
        """See :meth:`weir.methods.Method.refusal`."""
        return f"no lab: {obstacle}"

    def baggage(self) -> dict[str, Path]:
        """See :meth:`weir.methods.Method.baggage`."""
        try:
            if (kernel := find()) is None:
                raise MethodError("the lab kernel is not built; `weir lab build` builds it")
            return kernel.files()
        except LabError as error:
            raise MethodError(str(error)) from error

    def kernel_of(self, cell: Path) -> str | None:
        """See :meth:`weir.methods.Method.kernel_of`."""
        try:
            about = json.loads((cell / _FACTS).read_text(encoding="utf-8"))["kernel"]
        except (OSError, ValueError, KeyError):
            return None
        return f"{about['version']} (lab, recipe {about['recipe']})"

    def execute(self, plan: str, sink: Sink, progress: Progress) -> Outcome:
        """Executes ``plan``; see :meth:`weir.methods.Method.execute`."""
        try:
            kernel = find()
            if kernel is None:
                raise MethodError("the lab kernel is not built; `weir lab build` builds it")
            return _Cell(json.loads(plan), kernel, sink, progress).execute()
        except (LabError, FrameError) as error:
            raise MethodError(str(error)) from error


class _Cell:
    """One execution of one plan."""

    def __init__(self, document: dict[str, Any], kernel: Kernel, sink: Sink, progress: Progress) -> None:
        from weir import _weir

        self._document = document
        self._plan = plan = plan_of(document)
        self._kernel = kernel
        self._sink = sink
        self._progress = progress
        self._network, self._why = choose(plan, kernel)
        require_fit(plan, self._network)
        netem, alone = self._network.netem, self._network.offload == "packets"
        self._wiring: Wiring = wire(plan, "lab", alone=alone) if netem is None else netem.wiring
        delays = netem is None and plan.measure.delay_ns > 0
        self._merger = Merger(pa.array(_weir.event_kinds(), pa.string()), delays, plan.measure.acks is not None)
        remains = programs.Remains(expected=programs.files_of(plan))
        self._heard = Heard(remains, list(self._wiring.warnings))
        self._most_bytes = output_bytes(plan)
        self._checks = Checks(len(plan.flows), len(plan.links), len(_weir.event_kinds()), plan.end_ns + _GRACE_NS)

    def execute(self) -> Outcome:
        held = controls(self._plan, self._kernel)
        made = script(self._document, self._plan, self._wiring, held, self._network)
        limit_ns = self._plan.end_ns + _GRACE_NS
        settings = Settings(
            seed=self._plan.seed,
            memory_mb=memory_mb(self._plan),
            limit_ns=limit_ns,
            processes=processes(self._plan),
            disk_bytes=self._most_bytes,
            file_bytes=max(self._most_bytes, (memory_mb(self._plan) + 1) << 20),  # its memory is a file, too
            wall_s=wall_s(self._plan),
        )
        self._sink.open(_FACTS).write((json.dumps(self._facts(held.names, settings), indent=2) + "\n").encode())
        try:
            with Lab(self._kernel, made, settings) as lab:
                self._observe(lab)
        except LabError as error:
            raise MethodError(held.explain(error)) from error
        for table, rows in self._merger.finish():
            self._sink.write(table, rows)
        self._heard.remains.keep(self._sink)
        del self._heard.stats["agent.ended"]
        notes = () if not programs.programs(self._plan) else (_PRICE,)
        unconfined = [warning] if (warning := confine.state().warning) else []
        return Outcome((*unconfined, *self._heard.warnings), self._heard.stats, notes)

    def _observe(self, lab: Lab) -> None:
        """Takes everything that the lab gives, until its end.

        Raises:
            MethodError: a process of it failed.
            weir.lab.LabError: the lab itself did.
        """
        from weir import _weir

        try:
            self._follow(lab, AGENT)
            if self._network.program is not None:
                self._follow(lab, self._network.program)
        except FrameError:
            if lab.over():
                lab.exit_code()  # a kernel that died says more than what it left unsaid
            raise
        lab.wait()
        code = lab.exit_code()
        if code or "agent.ended" not in self._heard.stats:
            raise MethodError(f"a process of the lab ended with {code}, before the plan did.{lab.console()}")
        if self._network.module is not None:
            self._take_rows(lab)
            if self._plan.measure.trace is not None:
                self._take_packets(lab)
        elif self._plan.measure.trace is not None:
            for name in _weir.trace_files():
                with self._result(lab, name, trace_bytes(self._plan)) as trace:
                    shutil.copyfileobj(trace, self._sink.open(name))
        self._heard.stats["lab.virtual_s"] = lab.now_ns / 1e9

    def _follow(self, lab: Lab, name: str) -> None:
        """Takes what the process ``name`` says, until it ends.

        Raises:
            FrameError: something of it is nothing that such a process says.
        """
        try:
            with io.BufferedReader(lab.output(name), 1 << 20) as stream:
                for what in read(stream):
                    if isinstance(what, Frame):
                        self._take(what)
                    elif isinstance(what, File):
                        self._heard.remains.take(what)
                    else:
                        self._heed(name, what)
        except FrameError as error:
            raise FrameError(f"{name} wrote what cannot be read: {error}") from error

    def _heed(self, name: str, what: Mapping[str, Any]) -> None:
        self._heard.heed(name, what)
        if what["message"] == "progress":
            self._progress(min(what["now_ns"], self._plan.end_ns))
        elif what["message"] == "end":
            self._heard.stats[f"{name}.ended"] = 1

    def _take(self, frame: Frame) -> None:
        self._checks(frame)
        require_windows(self._plan, frame)
        for table, rows in self._merger.take(frame):
            self._sink.write(table, rows)

    def _take_rows(self, lab: Lab) -> None:
        """The rows of the kernel's links, in pieces of a bounded size."""
        with io.BufferedReader(self._result(lab, f"{ROWS}.out", self._most_bytes)) as file:
            while content := file.read(_wire.ROW_BYTES * 65_536):
                for frame in _wire.frames(content, self._plan.end_ns):
                    self._take(frame)

    def _take_packets(self, lab: Lab) -> None:
        """The trace of the kernel's links."""
        from weir import _weir

        trace = _weir.RowTrace(json.dumps(self._document))
        with self._result(lab, f"{ROWS}.out", self._most_bytes) as file:
            for rows in _wire.packets(file, self._plan.end_ns):
                self._keep(trace.take(rows))
        self._keep(trace.finish())

    def _result(self, lab: Lab, name: str, most_bytes: int) -> io.FileIO:
        """The file ``name`` that the lab left, to be read in full.

        Raises:
            FrameError: it is not there, or larger than the plan can make it; a sparse file costs its writer nothing.
        """
        try:
            file = lab.result(name)
        except FileNotFoundError:
            raise FrameError(f"the lab left no {name}: something in it removed it") from None
        if (size := os.fstat(file.fileno()).st_size) > most_bytes:
            file.close()
            raise FrameError(f"{name} of the lab has {size} bytes, more than the {most_bytes} that it can have")
        return file

    def _keep(self, parts: Mapping[str, bytes]) -> None:
        for name, content in parts.items():
            self._sink.open(name).write(content)

    def _facts(self, names: Mapping[str, str], settings: Settings) -> dict[str, Any]:
        return {
            "kernel": dict(self._kernel.about),
            "links": self._network.links,
            "because": self._why,
            "offload": self._network.offload,
            "congestion_controls": dict(names),
            "memory_mb": settings.memory_mb,
        }

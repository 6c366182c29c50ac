"""This host's Linux: a network namespace for each host of the plan, real sockets, links emulated on real packets.

The plan's hosts are namespaces with one TUN device each; the process ``weir-emu`` is the whole network between them.
With ``methods.emul.links: netem``, namespaces, pairs of devices and the kernel's queueing disciplines form the network.
Two processes ``weir-agent`` serve all sending and all receiving ends. Their observations become the tables of the run.
Each cell also keeps ``commands.sh``, which creates the same hosts by hand, the jobs of the processes, the self-check
from before the measurement, and the kernel's parameters.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

import pyarrow as pa

from weir import _owner, cc
from weir._programs import find
from weir.deploy import lacking_protocol
from weir.hosts import programs
from weir.hosts.checks import Checks
from weir.hosts.congestion import kernel_names, renamed
from weir.hosts.congestion import obstacle as lacking_control
from weir.hosts.jobs import job
from weir.hosts.load import HostWatch, facts
from weir.hosts.local import Local
from weir.hosts.merge import Merger
from weir.hosts.needs import lacking
from weir.hosts.netem import Links, queues_command, queues_job, wire_netem
from weir.hosts.network import DISCIPLINES, EMULATED, Network, environment, execute, script
from weir.hosts.processes import PRIORITY, Process
from weir.hosts.programs import Remains, files_of
from weir.hosts.rates import packets_alone, packets_per_s
from weir.hosts.selfcheck import SelfCheck
from weir.hosts.session import Heard, Session
from weir.hosts.windows import require_windows
from weir.hosts.wiring import Wiring, wire
from weir.methods import REAL, TABLES, Capacity, Method, MethodError, Outcome, Progress, Sink
from weir.methods._document import plan_of
from weir.methods._intervals import too_fine
from weir.methods._watch import Watcher
from weir.methods.emul._capacity import capacity, capacity_of_disciplines
from weir.methods.emul._fit import finest, require_fit
from weir.methods.emul._support import needs_netem, overrun_packets
from weir.methods.options import OPTIONS
from weir.plan import Plan

__all__ = ["Emul"]

_AHEAD_S = 0.4
"""Lead time of the run after the processes got their start time."""
_SETUP_S = 3.0
_GRACE_S = 20.0
"""Time beyond the plan's length after which a run is abandoned."""
_TELL_EVERY_S = 0.25
_PRIORITY = -10
_SLACK_NS = 250_000
"""Lateness of a timer of the kernel's disciplines that costs no rate."""
_TOOLS = ("ip", "tc", "sysctl", "nsenter", "unshare")


class Emul(Method):
    """Runs a plan on this host's kernel, in real time."""

    name = "emul"
    clock: Literal["virtual", "real"] = "real"
    needs = "Linux, root, iproute2, and for weir's own congestion controls a kernel with BTF"
    title = "this host's Linux in real time"
    tables = TABLES | REAL | {"probes"}
    precedence = 10
    options = OPTIONS["emul"]

    def available(self) -> str | None:
        """``None``, or everything that this machine lacks."""
        return "; ".join(lacking(_TOOLS, ("weir-agent", "weir-emu"))) or None

    def capacity(self, plan: Mapping[str, Any]) -> Capacity:
        """The demands of ``plan`` on this machine; see :meth:`weir.methods.Method.capacity`."""
        return _needed(plan_of(plan))

    def obstacle(self, plan: Mapping[str, Any]) -> str | None:
        """See :meth:`weir.methods.Method.obstacle`."""
        if (why := self.unfit(plan)) is not None:
            return why
        typed = plan_of(plan)
        try:
            missing = _needed(typed).missing
        except MethodError as error:
            return str(error)
        if missing:
            return f"this machine has too little: {', '.join(need.what for need in missing)}"
        return lacking_control(typed) or self.lacking(plan)

    def unfit(self, plan: Mapping[str, Any]) -> str | None:
        """See :meth:`weir.methods.Method.unfit`."""
        try:
            typed = plan_of(plan)
            require_fit(typed)
            if not _of_disciplines(typed):
                wire(typed, "emul")
            else:
                wire_netem(typed, "emul", _SLACK_NS)
        except MethodError as error:
            return str(error)
        return cc.no_kernel(typed)

    def lacking(self, plan: Mapping[str, Any]) -> str | None:
        """See :meth:`weir.methods.Method.lacking`."""
        return lacking_protocol(plan_of(plan))

    def untried(self, plan: Mapping[str, Any]) -> str | None:
        """See :meth:`weir.methods.Method.untried`."""
        names = cc.controls_of(plan_of(plan))
        if not names:
            return None
        return f"not tried: whether this kernel takes {' and '.join(names)} as BPF (`weir cc build --bpf`)"

    def foreseen_s(self, plan: Mapping[str, Any], packets: int) -> float:
        """See :meth:`weir.methods.Method.foreseen_s`."""
        return _SETUP_S + plan_of(plan).end_ns / 1e9

    def remarks(self, plan: Mapping[str, Any], packets: int) -> Iterator[str]:
        """See :meth:`weir.methods.Method.remarks`."""
        typed = plan_of(plan)
        if (why := too_fine(typed, finest(typed))) is not None:
            yield why

    def execute(self, plan: str, sink: Sink, progress: Progress) -> Outcome:
        """Executes ``plan``; see :meth:`weir.methods.Method.execute`."""
        return _Cell(json.loads(plan), sink, progress).execute()


def _of_disciplines(plan: Plan) -> bool:
    return plan.methods.emul.links == "netem"


def _needed(plan: Plan) -> Capacity:
    if not _of_disciplines(plan):
        return capacity(plan)
    if os.geteuid() == 0:
        needs_netem()
    return capacity_of_disciplines(plan)


class _Cell:
    """One execution of one plan."""

    def __init__(self, document: dict[str, Any], sink: Sink, progress: Progress) -> None:
        self._document = document
        self._plan = plan = plan_of(document)
        self._sink = sink
        self._progress = progress
        self._tag = _owner.new()
        self._links: Links | None = None
        require_fit(plan)
        if _of_disciplines(plan):
            self._links = wire_netem(plan, str(self._tag), _SLACK_NS)
            needs_netem()
        self._wiring = self._wired() if self._links is None else self._links.wiring
        self._times: dict[str, float] = {}
        self._probes: dict[str, int] = {}
        self._watcher = Watcher(plan)
        self._warnings: list[str] = []

    def _wired(self) -> Wiring:
        """The hosts around the emulator."""
        per_s, _ = packets_per_s(self._plan)
        return wire(self._plan, str(self._tag), alone=packets_alone(self._plan, per_s))

    def execute(self) -> Outcome:
        self._keep("commands.sh", script(self._wiring, EMULATED if self._links is None else DISCIPLINES))
        with contextlib.ExitStack() as stack:
            stack.enter_context(_priority())
            with self._timed("network_s"):
                network = stack.enter_context(Network(self._wiring, self._tag))
            with self._timed("congestion_controls_s"):
                names = stack.enter_context(kernel_names(self._plan, environment(self._tag), self._probes))
            self._settle_programs(names)
            from weir import _weir

            checks = Checks(len(self._plan.flows), len(self._plan.links), len(_weir.event_kinds()))
            remains = Remains(expected=files_of(self._plan))
            here = stack.enter_context(Local(environment=environment(self._tag), take=network.take, priority=PRIORITY))
            session = stack.enter_context(Session(checks, Heard(remains)))
            self._keep("kernel.json", _indented({"cc": names, "tcp": facts(self._wiring.hosts[0])}))
            self._prepare(session, here, names)
            watch = HostWatch(self._wiring.hosts)
            with watch, self._overruns():
                self._measure(session, network)
        session.heard.remains.keep(self._sink)
        seen = (*self._wiring.warnings, *network.warnings, *self._warnings, *self._watcher.warnings)
        warnings = (*seen, *session.heard.warnings, *watch.judge(session.heard.stats))
        return Outcome(warnings, {**self._times, **session.heard.stats, **watch.stats})

    @contextlib.contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        """Records the duration of a step before the run."""
        begin = time.monotonic()
        yield
        self._times[f"setup.{name}"] = round(time.monotonic() - begin, 3)

    def _settle_programs(self, names: Mapping[str, str]) -> None:
        """Makes the settings in Linux that programs cannot ask for; the congestion controls are loaded."""
        commands = programs.routes(self._plan, self._wiring, names)
        execute(commands)
        if commands:
            self._keep("commands.sh", "".join(f"{shlex.join(command)}\n" for command in commands))

    def _prepare(self, session: Session, here: Local, names: Mapping[str, str]) -> None:
        """Starts the processes one after another, and verifies the network between them."""
        flows = range(len(self._plan.flows))
        with self._timed("emulator_s"):
            session.await_ready([self._start_links(session, here)])
        with self._timed("selfcheck_s"):
            self._check()
        plan, agent = renamed(self._document, self._plan), [str(find("weir-agent"))]
        to, from_ = ([{end: flow} for flow in flows] for end in ("to", "from"))
        with self._timed("agents_s"):
            receivers = session.start("receivers", here, agent, self._job("receivers", plan, to, names))
            senders = session.start("senders", here, agent, self._job("senders", plan, from_, names))
            session.await_ready([receivers, senders])

    @contextlib.contextmanager
    def _overruns(self) -> Iterator[None]:
        """Warns of packets that were lost between two devices, where the plan has no losses."""
        before = overrun_packets()
        yield
        lost = overrun_packets() - before
        if lost and self._links is not None:
            self._warnings.append(
                f"host: {lost} packets were dropped between devices, more waited than net.core.netdev_max_backlog: "
                "raise it, or use lower rates"
            )

    def _start_links(self, session: Session, here: Local) -> Process:
        """The process of the links: the emulator, or the one that reads the counters of the kernel's disciplines."""
        if self._links is None:
            return self._start_emulator(session, here)
        told = queues_job(self._plan, self._links)
        self._keep("job-queues.json", _indented(told))
        return session.start("queues", here, queues_command(), told)

    def _start_emulator(self, session: Session, here: Local) -> Process:
        from weir import _weir

        command, files = [str(find("weir-emu"))], []
        if self._plan.measure.trace is not None:
            files = [self._sink.open(name).fileno() for name in _weir.trace_files()]
            command += ["--trace", *(f"/dev/fd/{file}" for file in files)]
        return session.add("emulator", here.start(command, files), self._job("emulator", self._document, []), here)

    def _check(self) -> None:
        """Verifies the network; the cell keeps the measurements.

        Raises:
            SelfCheckError: it differs from the plan's.
        """
        check = SelfCheck(self._plan, self._wiring)
        if self._links is not None:
            check = replace(check, late_ns=self._links.late_ns, together=False)
        check()
        self._keep("selfcheck.json", _indented(check.to_json()))

    def _measure(self, session: Session, network: Network) -> None:
        """Executes the plan, and writes its tables."""
        from weir import _weir

        watcher = self._watcher
        delays = self._links is None and self._plan.measure.delay_ns > 0
        merger = Merger(pa.array(_weir.event_kinds(), pa.string()), delays)
        begin = time.monotonic() + _AHEAD_S
        end_s = self._plan.end_ns / 1e9
        session.begin(round(begin * 1e9))

        told = 0.0

        def tell() -> None:
            nonlocal told
            now = time.monotonic()
            if now - told >= _TELL_EVERY_S:
                told = now
                network.watch()
                reached_ns = round(min(max(now - begin, 0.0), end_s) * 1e9)
                self._progress(reached_ns, watcher.now(reached_ns))

        for frame in session.frames(begin + end_s + _GRACE_S, tell):
            require_windows(self._plan, frame)
            watcher.take(frame)
            for table, rows in merger.take(frame):
                self._sink.write(table, rows)
        for table, rows in merger.finish():
            self._sink.write(table, rows)

    def _job(
        self, name: str, plan: Mapping[str, Any], ends: list[dict[str, int]], names: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """The job of a process; the cell keeps it."""
        hosts = (host.to_job() for host in self._wiring.hosts)
        told = job(plan, hosts, self._wiring.first_port, ends, names, probes=self._probes if names else None)
        self._keep(f"job-{name}.json", json.dumps(told, separators=(",", ":")) + "\n")
        return told

    def _keep(self, name: str, text: str) -> None:
        self._sink.open(name).write(text.encode())


@contextlib.contextmanager
def _priority() -> Iterator[None]:
    """Gives this process priority over others during the context."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _PRIORITY)
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)


def _indented(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"

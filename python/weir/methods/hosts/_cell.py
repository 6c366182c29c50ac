"""One execution of one plan on the nodes of an inventory."""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from weir.cc import controls_of
from weir.deploy import Change, deploy, describe, missing
from weir.hosts.checks import Checks
from weir.hosts.congestion import renamed
from weir.hosts.jobs import job
from weir.hosts.merge import Merger
from weir.hosts.messages import Frame
from weir.hosts.place import Running, here_ns
from weir.hosts.processes import PRIORITY, Process, ProcessError
from weir.hosts.programs import Remains, files_of
from weir.hosts.session import Heard, Session
from weir.hosts.windows import require_windows
from weir.hosts.wiring import FIRST_PORT
from weir.inventory import Inventory
from weir.methods import MethodError, Outcome, Progress, Sink
from weir.methods._document import plan_of
from weir.methods._watch import Watcher
from weir.methods.hosts._calibration import additions, calibrate
from weir.methods.hosts._controls import Controls
from weir.methods.hosts._emulator import Between
from weir.methods.hosts._fleet import Fleet, Member, together
from weir.methods.hosts._losses import losses
from weir.methods.hosts._own import Own
from weir.methods.hosts._settings import WISHED, changes, limits
from weir.methods.hosts._times import Times
from weir.methods.hosts._work import Work
from weir.plan import Flow, kind_of
from weir.stages import HookError

__all__ = ["Cell"]

_AHEAD_S = 0.4
"""Lead time of the start beyond what telling it takes."""
_GRACE_S = 20.0
"""Time beyond the plan's length after which a run is abandoned."""
_STOP_S = 4.0
"""Time that the others have to end when a node has failed."""
_TELL_EVERY_S = 0.25
_READINGS = 9
_CALIBRATED_S = 600.0
"""Time for which measurements of the network stand for it."""
_AT_ONCE = ("nice", "-n", str(PRIORITY))
"""Agents need little time, but at once, whatever the load."""
_LATE_NS = 20_000_000
_TOKEN_BYTES = 16
_PRIVATE = ("plan", "token")
"""Parts of a job that are not kept with it: the plan has a file of its own, the token is a secret."""
_UNSEEN = (".delay_p50_ns", ".delay_p99_ns", ".delay_max_ns")
"""One-way delays between two clocks that no one has set: an agent computes them, and they mean nothing."""


class Cell:
    """One execution of one plan."""

    def __init__(
        self,
        document: dict[str, Any],
        inventory: Inventory,
        fleet: Fleet,
        controls: Controls,
        sink: Sink,
        progress: Progress,
        work: Work,
    ) -> None:
        """Connects to the nodes of the plan that are not connected yet.

        Raises:
            LostError: one cannot be reached.
            MethodError: one is in use.
        """
        self._document = document
        self._inventory = inventory
        self._plan = plan = plan_of(document)
        self._sink = sink
        self._progress = progress
        self._work = work
        self._controls = controls
        self._fleet = fleet
        self._warnings: list[str] = []
        self._times: dict[str, float] = {}
        self._steps: list[tuple[str, int, int]] = []
        self._watcher = Watcher(plan)
        used = {end for flow in plan.flows for end in (flow.from_, flow.to)}
        bound = {host: node for host, node in inventory.bind(plan).items() if host in used}
        between = inventory.between if inventory.network == "emulated" else None
        with self._timed("connections_s"):
            members = fleet.members([*bound.values(), *([] if between is None else [between])])
        self._members: dict[int, Member] = dict(zip(bound, members[: len(bound)], strict=True))
        self._between: Between | None = None
        """The node that is the network, if one is."""
        if inventory.emulator is not None and between is not None:
            self._between = Between(plan, inventory.emulator, members[-1], self._members)
        self._own: Own | None = None
        """The emulators at the hosts, if they are the network."""
        if inventory.network == "emulated" and self._between is None:
            self._own = Own(plan, self._members)
        self._failed: dict[str, str] = {}
        self._begin_ns = 0
        self._processes: list[Process] = []
        self._at: dict[str, Member] = {}
        """The node of each process, by the name of the process."""

    @property
    def nodes(self) -> list[str]:
        """The names of its nodes."""
        return [member.name for member in self._everyone]

    def deploy(self) -> None:
        """Brings the programs to its nodes, where they are not yet."""
        with self._timed("agents_s"):
            together(_agent, self._all)
            for network in (self._between, self._own):
                if network is not None:
                    network.deploy()

    def execute(self) -> Outcome:
        """Executes it; see :meth:`weir.methods.Method.execute`."""
        with self._work.stage("configure", self.nodes):
            self._tell_former()
            with self._timed("environment_s"):
                self._keep_environments()
            self._require_protocols()
            self._work.call("configure", self._sink)
            with self._timed("settings_s"):
                changed = self._configure()
            with self._timed("congestion_controls_s"):
                names = self._controls.names(self._plan, self._all)
        with self._work.stage("execute", self.nodes):
            outcome = self._execute(changed, names)
        if outcome.partial is not None:
            self._work.tasks.fail("execute", outcome.partial)
        return self._collect(outcome)

    def _collect(self, outcome: Outcome) -> Outcome:
        """What the inventory's hooks collect belongs to the cell; without it the cell is not complete."""
        try:
            with self._work.stage("collect", self.nodes):
                self._work.call("collect", self._sink)
        except HookError as error:
            partial = str(error) if outcome.partial is None else f"{outcome.partial}; {error}"
            return Outcome(outcome.warnings, outcome.stats, partial=partial, lost=True)
        return outcome

    def _execute(
        self, changed: Mapping[str, Sequence[Mapping[str, Any]]], names: Mapping[str, Mapping[str, str]]
    ) -> Outcome:
        from weir import _weir

        agents = [_agent(member) for member in self._all]
        checks = Checks(len(self._plan.flows), len(self._plan.links), len(_weir.event_kinds()))
        session = Session(checks, Heard(Remains(expected=files_of(self._plan))))
        try:
            with session:
                self._start_emulators(session)
                with self._timed("calibration_s"):
                    self._calibrate()
                self._start(session, names, agents)
                times = self._measure(session)
        finally:
            self._keep("nodes.json", self._nodes(changed, names))
            self._keep_logs()
        steps = [[name, begin - self._begin_ns, end - self._begin_ns] for name, begin, end in self._steps]
        self._keep("clocks.json", {**times.to_json(session.heard.stats), "steps": steps})
        session.heard.remains.keep(self._sink)
        stats = {name: value for name, value in session.heard.stats.items() if not name.endswith(_UNSEEN)}
        late = [*self._late(stats), *times.warnings(session.heard.stats)]
        warnings = (*self._warnings, *self._watcher.warnings, *session.heard.warnings, *late)
        outcome = Outcome(warnings, {**self._times, **times.stats(session.heard.stats), **stats})
        return outcome if not self._failed else self._partial(outcome)

    @property
    def _all(self) -> list[Member]:
        """The nodes of hosts."""
        return list(self._members.values())

    @property
    def _everyone(self) -> list[Member]:
        """All nodes, in the order of their processes."""
        return [*([] if self._between is None else [self._between.member]), *self._all]

    @contextlib.contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        begin_ns = here_ns()
        yield
        end_ns = here_ns()
        self._times[f"setup.{name}"] = round((end_ns - begin_ns) / 1e9, 3)
        self._steps.append((name.removesuffix("_s"), begin_ns, end_ns))

    # Before the run.

    def _tell_former(self) -> None:
        for member in self._everyone:
            if member.restored:
                self._warnings.append(
                    f"{member.name}: {member.restored} changes of an interrupted experiment were undone before"
                )
                member.restored = 0

    def _keep_environments(self) -> None:
        """Keeps what each node is, in the first cell of the run that uses it."""
        new = [member for member in self._everyone if not member.described]
        for member, facts in zip(new, together(_facts, new), strict=True):
            self._keep(f"environment/{member.name}.json", facts)
            member.described = True

    def _require_protocols(self) -> None:
        """Asks the kernels of the ends of each flow for its protocol.

        Raises:
            MethodError: some lack one. The message names their nodes.
        """

        def lacking(host: int) -> str | None:
            member = self._members[host]
            kinds = {kind_of(flow.transport) for flow in self._plan.flows if host in (flow.from_, flow.to)}
            why = missing(kinds, lambda sockets: member.keeper.ask("sockets", sockets=sockets)["lacking"])
            return None if why is None else f"{member.name}: {why[0]}: this kernel has no {why[1]}"

        if told := [why for why in together(lacking, self._members) if why is not None]:
            raise MethodError("; ".join(told))

    def _configure(self) -> dict[str, Sequence[Mapping[str, Any]]]:
        """Changes the nodes; what was changed, by node."""
        network = self._between or self._own
        addresses = {host: member.address for host, member in self._members.items()}
        wanted = changes(self._plan, addresses, None if network is None else network.ways)
        own = {} if self._own is None else {host: self._own.changes(host) for host in self._members}
        if self._between is not None:
            own = self._between.cards()
            self._warnings += self._between.warnings()
        pairs = [
            (member, [*own.get(host, ()), *wanted[host], *self._besides(host, member)])
            for host, member in self._members.items()
        ]
        if self._between is not None:
            pairs.append((self._between.member, self._between.changes()))
        done = together(lambda pair: pair[0].keeper.apply(pair[1]), pairs)
        return {member.name: made for (member, _), made in zip(pairs, done, strict=True)}

    def _besides(self, host: int, member: Member) -> list[Change]:
        """Changes that depend on the privileges of the node's user."""
        if member.keeper.is_root:
            return [*WISHED]
        if member.keeper.becomes_root:
            return [*WISHED, *limits(self._plan, host)]
        if lacking := member.keeper.lacking(WISHED):
            commands = "; ".join(map(describe, lacking))
            self._warnings.append(f"{member.name}: connections may depend on those before: only root can {commands}")
        return []

    def _calibrate(self) -> None:
        """Compares the network with the scenario's; what was measured some minutes ago is not measured again."""
        about = {"links": self._document["links"], "flows": [flow["path"] for flow in self._document["flows"]]}
        which = json.dumps([about, [member.name for member in self._all]])
        held = self._fleet.calibrated.get(which)
        if held is None or time.monotonic() - held[0] > _CALIBRATED_S:
            held = self._fleet.calibrated[which] = (
                time.monotonic(),
                calibrate(self._plan, self._members, self._inventory),
            )
        age_s = round(time.monotonic() - held[0], 1)
        self._keep("calibration.json", {"age_s": age_s, "checks": [check.to_json() for check in held[1]]})
        self._warnings += [str(check) for check in held[1] if not check.holds]
        self._warnings += additions(held[1])

    def _start(self, session: Session, names: Mapping[str, Mapping[str, str]], agents: Sequence[str]) -> None:
        """Starts an agent on each node."""
        plan = renamed(self._document, self._plan)
        hosts = [
            {"node": host, "netns": None, "address": member.address, "device": member.device}
            for host, member in self._members.items()
        ]
        token = secrets.token_bytes(_TOKEN_BYTES)
        with self._timed("ready_s"):
            commands = [
                (*(_AT_ONCE if member.keeper.is_root else ()), agent, "--at-once")
                for member, agent in zip(self._all, agents, strict=True)
            ]
            with contextlib.ExitStack() as stack:  # ends those that started, if one cannot

                def start(pair: tuple[Member, Sequence[str]]) -> Running:
                    running = pair[0].place.start(pair[1])
                    stack.callback(running.kill)
                    return running

                started = together(start, zip(self._all, commands, strict=True))
                for (host, member), running in zip(self._members.items(), started, strict=True):
                    told = job(plan, hosts, FIRST_PORT, _ends(self._plan.flows, host), names[member.name], token)
                    self._keep_job(member.name, told)
                    self._at[member.name] = member
                    self._processes.append(session.add(member.name, running, told, member.place))
                stack.pop_all()
            session.await_ready(self._processes[-len(self._members) :])

    def _start_emulators(self, session: Session) -> None:
        """Starts the emulator of the node between, or those of the hosts: from now on, packets pass."""
        if self._between is None and self._own is None:
            return
        with self._timed("emulator_s"):
            if self._between is not None:
                started = [(self._between.member, *self._between.start(session, self._document))]
            elif self._own is not None:
                started = self._own.start(session, self._document)
        for member, process, told in started:
            self._keep_job(process.name, told)
            self._processes.append(process)
            self._at[process.name] = member

    def _keep_job(self, name: str, told: Mapping[str, Any]) -> None:
        self._keep(f"job-{name}.json", {key: value for key, value in told.items() if key not in _PRIVATE})

    # The run.

    def _measure(self, session: Session) -> Times:
        """Executes the plan, and writes its tables."""
        from weir import _weir

        together(lambda member: member.ask_clock(_READINGS), self._everyone)
        is_ours = self._between is not None or self._own is not None
        delays = is_ours and self._plan.measure.delay_ns > 0
        merger = Merger(pa.array(_weir.event_kinds(), pa.string()), delays)
        worst = max(member.readings[-1].error_ns for member in self._everyone)
        self._begin_ns = here_ns() + round(_AHEAD_S * 1e9) + 4 * worst
        self._fleet.begin_ns = self._begin_ns
        times = Times(self._begin_ns, self._everyone)
        for process in self._processes:
            process.send(times.start(self._at[process.name]))
        end_s = self._plan.end_ns / 1e9
        held: list[tuple[str, Frame]] = []
        deadline = self._begin_ns / 1e9 + end_s + _GRACE_S
        for process, frame in session.frames_by(deadline, self._tell, self._fail, self._begin_ns / 1e9):
            require_windows(self._plan, frame)
            self._watcher.take(frame)
            if times.holds(frame):
                held.append((self._at[process.name].name, frame))
                continue
            self._write(merger, frame)
        self._last_readings()
        times.finish()
        known = [times.corrected(name, frame) for name, frame in held]
        unseen: Iterator[Frame] = iter(())
        if not is_ours:  # the emulator says what it has dropped
            unseen = losses((one for one in known if one.table == "flows"), session.heard.stats)
        for frame in (*known, *unseen):
            self._write(merger, frame)
        for table, rows in merger.finish():
            self._sink.write(table, rows)
        return times

    def _write(self, merger: Merger, frame: Frame) -> None:
        for table, rows in merger.take(frame):
            self._sink.write(table, rows)

    def _last_readings(self) -> None:
        def ask(member: Member) -> None:
            with contextlib.suppress(MethodError):
                if not member.place.gone and not member.hangs:
                    member.ask_clock(_READINGS)

        together(ask, self._everyone)

    _told_s = 0.0

    def _tell(self) -> None:
        now = time.monotonic()
        if now - self._told_s >= _TELL_EVERY_S:
            self._told_s = now
            reached_ns = min(max(here_ns() - self._begin_ns, 0), self._plan.end_ns)
            self._progress(reached_ns, self._watcher.now(reached_ns))

    # Failures.

    def _fail(self, by: Process, error: ProcessError) -> float:
        """A node failed: the others are stopped, and have some seconds to say what they have."""
        member = self._at[by.name]
        if member.name not in self._failed:
            self._failed[member.name] = _why(member, error, self._begin_ns)
        for process in self._processes:
            if process is not by:
                with contextlib.suppress(ProcessError):
                    process.send({"command": "stop"})
        return time.monotonic() + _STOP_S

    def _partial(self, outcome: Outcome) -> Outcome:
        """What there is, marked so."""
        lost = [member.name for member in self._everyone if member.place.gone]
        first = lost or list(self._failed)[:1]
        text = "; ".join(self._failed[name] for name in first if name in self._failed) or next(
            iter(self._failed.values())
        )
        return Outcome(outcome.warnings, outcome.stats, partial=text, lost=bool(lost))

    # What is kept.

    def _late(self, stats: Mapping[str, float]) -> Iterator[str]:
        for member in self._all:
            late = stats.get(f"{member.name}.timer_late_p99_ns", 0.0)
            if late > _LATE_NS:
                often = f"{late / 1e6:.2g} ms late or more in one case of a hundred"
                yield f"{member.name}: the agent came {often}: the node was busy"

    def _nodes(
        self, changed: Mapping[str, Sequence[Mapping[str, Any]]], names: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        hosts: list[tuple[str | None, Member]] = [(self._plan.nodes[host].name, m) for host, m in self._members.items()]
        between = [] if self._between is None else [(None, self._between.member)]
        return [
            {
                "name": member.name,
                "set": member.node.set,
                "host": host,
                "address": member.address,
                "device": member.device,
                "changes": list(changed.get(member.name, ())),
                "congestion_controls": names.get(member.name, {}),
                **self._objects(member),
            }
            for host, member in (*hosts, *between)
        ]

    def _objects(self, member: Member) -> dict[str, Any]:
        """What was brought to the node as its users' congestion controls, if something was."""
        if not controls_of(self._plan):
            return {}
        return {"objects": self._controls.objects(member)}

    def _keep_logs(self) -> None:
        """Keeps what agents wrote to their standard errors, if they did."""
        for process in self._processes:
            if said := process.log.content():
                self._sink.open(f"logs/{process.name}.agent.txt").write(said)

    def _keep(self, name: str, value: object) -> None:
        self._sink.open(name).write((json.dumps(value, indent=2) + "\n").encode())


def _facts(member: Member) -> dict[str, Any]:
    return member.keeper.ask("facts", device=member.device)


def _agent(member: Member) -> str:
    if "weir-agent" not in member.programs:
        member.programs["weir-agent"] = deploy(member.keeper, "weir-agent")
    return member.programs["weir-agent"]


def _ends(flows: Sequence[Flow], host: int) -> list[dict[str, int]]:
    """The ends of ``flows`` at ``host``."""
    return [
        {end: number}
        for number, flow in enumerate(flows)
        for end, at in (("from", flow.from_), ("to", flow.to))
        if at == host
    ]


def _why(member: Member, error: ProcessError, begin_ns: int) -> str:
    """What to say of a node that failed: which, since when, why."""
    since_s = max(0.0, (member.heard_ns - begin_ns) / 1e9)
    if member.place.gone or member.hangs:
        return f"{member.name} is lost, and was last heard at {since_s:.1f} s of the run"
    now_s = (here_ns() - begin_ns) / 1e9
    return f"{member.name} failed at {now_s:.1f} s of the run: {error}"

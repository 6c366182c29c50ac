"""Real machines over SSH: an inventory gives each host of the plan a node, on which an agent sends and receives.

Links are as they are, or emulated by a node between (:mod:`weir.methods.hosts._emulator`) or by each node
(:mod:`weir.methods.hosts._own`). The scenario's topology is a claim, which a calibration checks before the traffic
(:mod:`weir.methods.hosts._calibration`). One connection a node carries everything for all cells of a run. Whatever is
changed on a node is in a journal there, and is undone when the run has ended, however it ends (:mod:`weir.deploy`).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from weir import cc
from weir.deploy import describe
from weir.hosts.fitness import Wish
from weir.hosts.relay import Relay
from weir.inventory import Inventory, InventoryError, Node, load, used_hosts
from weir.inventory.reserved import reserved
from weir.methods import REAL, TABLES, About, LostError, Method, MethodError, Outcome, Progress, Sink
from weir.methods._document import plan_of
from weir.methods.hosts import _effort
from weir.methods.hosts._calibration import rated
from weir.methods.hosts._cell import Cell
from weir.methods.hosts._controls import Controls
from weir.methods.hosts._fleet import Connect, Fleet
from weir.methods.hosts._settings import changes, obstacle
from weir.methods.hosts._work import Work
from weir.plan import Flow, Plan
from weir.stages import HookError, remains, tasks
from weir.stages import obstacle as hook_obstacle

__all__ = ["Hosts"]

_WITHOUT = "it needs machines: name their inventory, --on INVENTORY"


def _with_anyone(inventory: Inventory) -> Inventory:
    """``inventory`` with names for the nodes that are not reserved yet: for checks that need none."""
    for each in inventory.unreserved:
        names = [f"{each.alias}-{number}" for number in range(1, each.size + 1)]
        inventory = inventory.with_nodes(each.alias, [each.node(name) for name in names])
    return inventory


def _by_ssh(node: Node) -> Relay:
    from weir.hosts import ssh

    return ssh.connect(node)


class Hosts(Method):
    """Runs a plan on the nodes of an inventory, in real time."""

    name = "hosts"
    clock: Literal["virtual", "real"] = "real"
    needs = "nodes with SSH and Python 3.8, and an inventory of them; root there for what a plan changes in Linux"
    title = "real machines over SSH"
    called = "the machines"
    takes_inventory = True

    def __init__(self, connect: Connect | None = None) -> None:
        """Connects to nothing.

        Args:
            connect: The way to a node; ``None``: SSH.
        """
        self._connect = connect
        self._file: str | None = None
        self._fleet: Fleet | None = None
        self._controls = Controls()
        self._held: Inventory | None = None
        self._text = b""
        self._reservations = contextlib.ExitStack()
        self._work = Work(None)

    @property
    def tables(self) -> frozenset[str]:  # type: ignore[override]
        """Those of links and one-way delays only where the network is weir's; of probes, those of TFRC."""
        return (TABLES | REAL | {"probes"}) - (
            {"classes"} if self._is_emulated() else {"links", "classes", "delays", "delay_bins"}
        )

    def _is_emulated(self) -> bool:
        with contextlib.suppress(InventoryError, MethodError):
            return self._inventory().network == "emulated"
        return False

    def on(self, inventory: str) -> Hosts:
        """See :meth:`weir.methods.Method.on`."""
        found = Hosts(self._connect)
        found._file = inventory
        return found

    def prepare(self, about: About) -> None:
        """See :meth:`weir.methods.Method.prepare`."""
        if self._work.run is None and self._held is None:
            self._work = Work(about.run)
        self._work.about = about

    def close(self) -> None:
        """See :meth:`weir.methods.Method.close`: restores every node, and undoes what hooks did."""
        work, self._work = self._work, Work(None)
        if self._fleet is None:
            return
        with work.tasks.task("clean"):
            self._leave(work)

    def _leave(self, work: Work) -> None:
        fleet, self._fleet = self._fleet, None
        try:
            if fleet is not None:
                work.keep_logs(fleet.close())
        finally:
            self._held = None
            try:
                work.clean()
            finally:
                self._reservations.close()

    def undo(self, run: Path) -> Iterator[str]:
        """See :meth:`weir.methods.Method.undo`: calls the hooks of a run whose process was killed."""
        tasks.interrupt(run)
        with contextlib.suppress(OSError, ValueError):
            if any(task.stage == "clean" and task.state == "failed" for task in tasks.read(run)):
                return  # its process has tried, and said so
        for remain in () if self._file is None else remains.find(self._file):
            if remain.run == run.absolute() and not remain.alive and not remain.kept:
                yield "undoing what hooks of the inventory did"
                try:
                    remain.clean()
                except HookError as error:
                    yield f"not everything was undone: {error}"
        tasks.leave(run)

    def available(self) -> str | None:
        """``None``, or what it lacks."""
        return _WITHOUT if self._file is None else None

    def obstacle(self, plan: Mapping[str, Any]) -> str | None:
        """See :meth:`weir.methods.Method.obstacle`."""
        try:
            typed = plan_of(plan)
            held = self._inventory()
            why = obstacle(typed, held) or hook_obstacle(held)
            if why is None:
                self.nodes(plan)
        except (MethodError, InventoryError) as error:
            return str(error)
        return why

    def untried(self, plan: Mapping[str, Any]) -> str | None:
        """See :meth:`weir.methods.Method.untried`."""
        names = cc.controls_of(plan_of(plan))
        return f"not tried: whether the nodes' kernels take {' and '.join(names)} as BPF" if names else None

    def nodes(self, plan: Mapping[str, Any]) -> Mapping[str, Node]:
        """See :meth:`weir.methods.Method.nodes`; those that are not reserved yet have names by set and number."""
        typed = plan_of(plan)
        used = used_hosts(typed)
        bound = _with_anyone(self._inventory()).bind(typed)
        return {typed.nodes[host].name: node for host, node in bound.items() if host in used}

    def wishes(self, plan: Mapping[str, Any]) -> Mapping[int, tuple[Wish, ...]]:
        """See :meth:`weir.methods.Method.wishes`; where a route leads to is the host's name in the plan."""
        typed = plan_of(plan)
        names = {number: node.name for number, node in enumerate(typed.nodes)}
        return {
            host: tuple(
                Wish(describe(each), each["name"] if each["kind"] == "sysctl" else None, str(each["value"]))
                for each in several
            )
            for host, several in changes(typed, names).items()
        }

    def foreseen_s(self, plan: Mapping[str, Any], packets: int) -> float:
        """See :meth:`weir.methods.Method.foreseen_s`."""
        return _effort.cell_s(plan_of(plan))

    def besides_s(self, plans: Sequence[Mapping[str, Any]]) -> float:
        """See :meth:`weir.methods.Method.besides_s`."""
        return _effort.besides_s([plan_of(plan) for plan in plans], self._rated)

    def _rated(self, plan: Plan) -> Sequence[Flow]:
        """Flows between whose hosts the rate is measured; the first, if it is not known which nodes there are."""
        with contextlib.suppress(InventoryError, MethodError):
            return rated(plan, _with_anyone(self._inventory()).bind(plan))
        return plan.flows[:1]

    def remarks(self, plan: Mapping[str, Any], packets: int) -> Iterator[str]:
        """See :meth:`weir.methods.Method.remarks`."""
        typed = plan_of(plan)
        if self._file is None:
            return
        if (typed.measure.links_ns or typed.measure.delay_ns) and not self._is_emulated():
            yield "links and one-way delays are not seen from the machines at their ends: metrics of them are undefined"

    def execute(self, plan: str, sink: Sink, progress: Progress) -> Outcome:
        """Executes ``plan``; see :meth:`weir.methods.Method.execute`."""
        if self._file is None:
            raise MethodError(_WITHOUT)
        fleet = self._fleet = self._fleet or Fleet(self._connect or _by_ssh)
        document = json.loads(plan)

        def cell(held: Inventory) -> Cell:
            return Cell(document, held, fleet, self._controls, sink, progress, self._work)

        try:
            if self._held is None:
                self._held = self._reserved()
                self._text = Path(self._file).read_bytes()
            sink.open("inventory.yaml").write(self._text)  # it has no secrets: the loader refuses them
            if self._work.deployed:
                return cell(self._held).execute()
            typed = plan_of(document)
            with self._work.tasks.task("deploy", nodes=_names(self._held, typed)):
                self._work.deploy(self._held, typed.title)
                first = cell(self._held)
                first.deploy()
            return first.execute()
        except HookError as error:  # the next cell would need it, too
            raise LostError(str(error)) from error
        except InventoryError as error:
            raise MethodError(str(error)) from error
        except LostError:
            raise
        except MethodError as error:
            gone = [name for name, member in fleet.all.items() if member.place.gone]
            if gone:
                raise LostError(f"{', '.join(gone)} is lost, before the run had begun: {error}") from error
            raise

    def _reserved(self) -> Inventory:
        """The inventory with nodes, which are reserved until the end."""
        inventory = self._inventory()
        if not inventory.unreserved:
            return inventory
        with self._work.tasks.task("reserve"):
            return self._reservations.enter_context(reserved(inventory))

    def _inventory(self) -> Inventory:
        if self._file is None:
            raise MethodError(_WITHOUT)
        return load(self._file)


def _names(inventory: Inventory, plan: Plan) -> list[str]:
    """The nodes that take the place of hosts with flows."""
    used = used_hosts(plan)
    hosts = [node.name for host, node in inventory.bind(plan).items() if host in used]
    between = inventory.between if inventory.network == "emulated" else None
    return hosts if between is None else [*hosts, between.name]

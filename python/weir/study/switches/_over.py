"""A rig around a real switch between machines: interfaces of nodes, and ``weir-agent tester`` on each node.

An interface is named ``NODE/eth1``, or ``NODE/NAMESPACE/eth1``. Each node sends and receives for its own interfaces.
All begin at one instant, which each node is told as a reading of its own clock (:class:`weir.hosts.place.Clock`).
Instants of two nodes differ by the errors of these readings; the rig knows how large they may be.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from weir import inventory
from weir._errors import MethodError, UnavailableError
from weir._interfaces import Interface, Run
from weir.deploy import Keeper, deploy
from weir.hosts import ssh
from weir.hosts.place import Place, Running, here_ns
from weir.hosts.relay import Relay
from weir.inventory import Node
from weir.study.switches._between import GRACE_S, RETRIES, BetweenRig, require_three
from weir.study.switches._rig import Trial

__all__ = ["OverRig", "over"]

_AHEAD_NS = 300_000_000
"""From the question for clocks to the start."""
_LIMIT_S = 900
"""A node that hears nothing for so long ends what it executes; a trial is shorter."""


class OverRig(BetweenRig):
    """The ports of a switch between nodes. See :class:`weir.study.switches.Rig`."""

    def __init__(
        self,
        keepers: Mapping[str, Keeper],
        interfaces: Sequence[str],
        rate_bps: float | None = None,
        overhead_bytes: int = 38,
        retries: int = RETRIES,
    ) -> None:
        """A rig of ``interfaces`` of connected nodes; the last ones are its outputs.

        Raises:
            UnavailableError: as :class:`BetweenRig`, or frames cannot be sent there.
            DeployError: a node cannot have the tester.
        """
        require_three(interfaces)
        self.keepers = keepers
        self.nodes = [word.partition("/")[0] for word in interfaces]
        rest = [word.partition("/")[2] for word in interfaces]
        found = {
            word: Interface.of(name, _run(keepers[node].place), node)
            for word, node, name in zip(interfaces, self.nodes, rest, strict=True)
        }
        self._set(found, rate_bps, overhead_bytes, retries)
        for name in dict.fromkeys(self.nodes):
            if not keepers[name].becomes_root:
                raise UnavailableError(f"{name}: Ethernet frames need root there, or `sudo -n`")
        self._commands = {
            name: (*keepers[name].prefix, deploy(keepers[name], "weir-agent"), "tester") for name in set(self.nodes)
        }

    def _run(self, trial: Trial) -> dict[str, Any]:
        job = self._job(trial) | {"together": True}
        names = list(dict.fromkeys(self.nodes))
        with contextlib.ExitStack() as stack:
            running = {name: self._started(name, job, stack) for name in names}
            for name in names:
                if not _out(running[name]).readline():
                    self._ended(name, running[name], GRACE_S)
                    raise MethodError(f"{name}: the tester ended before it began")
            self._begin(running)
            found = {name: self._ended(name, running[name], trial.end_ns / 1e9 + GRACE_S) for name in names}
        return self._merged(trial, found)

    def _started(self, name: str, job: Mapping[str, Any], stack: contextlib.ExitStack) -> Running:
        ports = [
            {key: value for key, value in port.items() if node == name or key not in ("device", "netns")}
            for port, node in zip(job["ports"], self.nodes, strict=True)
        ]
        running = self.keepers[name].place.start(self._commands[name])
        stack.callback(running.kill)
        _say(running, {**job, "ports": ports})
        return running

    def _begin(self, running: Mapping[str, Running]) -> None:
        clocks = {name: self.keepers[name].place.clock() for name in running}
        begin = here_ns() + _AHEAD_NS
        for name, process in running.items():
            _say(process, {"begin_ns": begin + clocks[name].offset_ns})
        worst = sorted(clock.error_ns for clock in clocks.values())[-2:]
        self.clock_error_ns = max(self.clock_error_ns, sum(worst) if len(clocks) > 1 else 0)

    def _ended(self, name: str, running: Running, timeout_s: float) -> dict[str, Any]:
        try:
            status = running.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise MethodError(f"{name}: the tester did not end") from None
        if status:
            said = running.stderr.read().decode(errors="replace").strip() if running.stderr is not None else ""
            raise MethodError(f"{name}: the tester failed: {said}")
        found: dict[str, Any] = json.loads(_out(running).read())
        return found

    def _merged(self, trial: Trial, found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """What the sender of each stream saw, and what its receiver did."""
        merged: dict[str, list[Any]] = {"sent": [], "due": [], "refused": [], "received": []}
        for number, stream in enumerate(trial.streams):
            sender, receiver = self.nodes[stream.input], self.nodes[self._port(stream.output)]
            for key in ("sent", "due", "refused"):
                merged[key].append(found[sender][key][number])
            wire_ns = (stream.ip_bytes + self.overhead_bytes) * 8e9 / self.rate_bps
            merged["received"].append(_causal(merged["sent"][-1], found[receiver]["received"][number], round(wire_ns)))
        return merged


def _causal(sent: Sequence[int], received: Sequence[Sequence[int]], wire_ns: int) -> list[tuple[int, int]]:
    """Instants of packets that came out, later by what clocks are apart if one came before it can have."""
    delays = [at - sent[number] for number, at in received]
    early = max(0, wire_ns - min(delays, default=wire_ns))
    return [(number, at + early) for number, at in received]


def _run(place: Place) -> Run:
    def run(command: Sequence[str]) -> tuple[int, str, str]:
        ran = place.run(command)
        return ran.code, ran.out.decode(errors="replace"), ran.err.decode(errors="replace")

    return run


def _say(running: Running, what: Mapping[str, Any]) -> None:
    assert running.stdin is not None
    running.stdin.write(json.dumps(what).encode() + b"\n")
    running.stdin.flush()


def _out(running: Running) -> Any:
    assert running.stdout is not None
    return running.stdout


@contextlib.contextmanager
def over(
    path: str | os.PathLike[str],
    interfaces: Sequence[str],
    rate_bps: float | None = None,
    overhead_bytes: int = 38,
    connect: Callable[[Node], Relay] = ssh.connect,
    retries: int = RETRIES,
) -> Iterator[OverRig]:
    """The rig of ``interfaces`` of nodes of the inventory at ``path``, which are this experiment's as long.

    Raises:
        weir.inventory.InventoryError: the inventory is wrong.
        UnavailableError: it has no such node, or as :class:`OverRig`.
        PlaceError: a node cannot be reached.
        DeployError: another experiment uses a node.
    """
    require_three(interfaces)
    nodes = {node.name: node for node in inventory.load(path).nodes}
    names = list(dict.fromkeys(word.partition("/")[0] for word in interfaces))
    for word in interfaces:
        name, _, device = word.partition("/")
        if not device:
            raise UnavailableError(f"--between: expected NODE/INTERFACE with --on, found {word!r}")
        if name not in nodes:
            raise UnavailableError(f"--between: there is no node {name!r} in {path}; it has {', '.join(nodes)}")
    with contextlib.ExitStack() as stack:
        keepers = {}
        for name in names:
            place = stack.enter_context(connect(nodes[name]))
            keepers[name] = Keeper(place, nodes[name].python)
            keepers[name].claim(_LIMIT_S)
            stack.callback(keepers[name].restore)
        yield OverRig(keepers, interfaces, rate_bps, overhead_bytes, retries)

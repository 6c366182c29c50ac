"""The process that owns a test bed, from ``weir testbed up`` until ``down``.

It reads two lines from standard input - the request and the emulator's plan - makes everything, and says on standard
output how far it is, as JSON lines. The line ``go`` confirms that the command has heard of it; if the command is gone
before, so is the test bed. With this process, whatever ends it, everything else ends: the nodes because the kernel
kills their first processes, the emulator because its standard input ends, and what is left of files by the guardian.
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from weir import _owner
from weir._errors import MethodError
from weir._owner import ENVIRONMENT
from weir._remove import remove_quietly
from weir.hosts.guardian import Guardian
from weir.testbed import _network
from weir.testbed._emulator import Emulator
from weir.testbed._errors import BedError, TestbedError
from weir.testbed._folder import LOG, VERSION, answer, claim, lock_file, place, wanted, write_facts
from weir.testbed._linux import new_network
from weir.testbed._node import PATH, Recipe
from weir.testbed._nodes import Nodes
from weir.testbed._shape import EXPERIMENT, INTERFACE, Node, Shape

__all__ = ["main"]

_TEARDOWN_S = 60.0
_TURN_S = 5.0
"""The supervisor looks after its processes at least this often."""


class _Over(Exception):  # noqa: N818 - no error
    """The test bed is to end."""


class Supervisor:
    """A test bed and everything that belongs to it."""

    def __init__(self, request: dict[str, Any], plan: str) -> None:
        """Makes nothing yet."""
        self._request = request
        self._plan = plan
        self._shape = Shape(request["sites"], request["nodes"], request["emulator"])
        self._tag = _owner.new()
        self._folder: Path | None = None
        self._guardian: Guardian | None = None
        self._emulator: Emulator | None = None
        self._nodes: Nodes | None = None
        self._interface: str | None = None
        self._networks: list[int] = []
        """Descriptors: a namespace exists as long as its descriptor."""
        self._switch: int | None = None
        self._control: ipaddress.IPv4Network | None = None
        self._layout: tuple[Node, ...] = ()
        self._parameters: _network.Parameters = {}
        """Of a node's network before anybody has changed them."""
        self._end = time.monotonic() + request["time_limit_s"]
        self._until = time.time() + request["time_limit_s"]

    # Making --------------------------------------------------------------------------------------------------------

    def make(self) -> Path:
        """Makes everything, and waits until every node answers; the folder of the test bed.

        Raises:
            TestbedError: it cannot be as asked for.
            MethodError: something failed.
            OSError: the kernel refused something.
        """
        self._folder = claim(self._request["name"], self._tag)
        self._guardian = self._start_guardian()
        self._make_key()
        _tell(step="networks")
        self._make_networks()
        self._make_nodes()
        assert self._nodes is not None
        if not self._shape.emulator:
            _tell(step="emulator")
            with (self._folder / LOG).open("ab") as log:
                self._emulator = Emulator(self._plan, self._hosts(), self._environment(), log)
        self._nodes.await_answers(lambda done: _tell(step="answers", done=done, of=len(self._layout)))
        write_facts(self._folder, self._facts())
        _tell(ready=self._facts(), keys=self._nodes.keys)
        return self._folder

    def _start_guardian(self) -> Guardian:
        undo = [["rm", "-rf", "--", str(self._folder)]]
        if self._interface is not None:
            undo.append(["ip", "link", "delete", self._interface])
        return Guardian(self._tag, {"undo": undo})

    def _environment(self) -> dict[str, str]:
        return {**os.environ, ENVIRONMENT: str(self._tag)}

    def _make_key(self) -> None:
        assert self._folder is not None
        key = self._folder / "id_ed25519"
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", f"weir-{self._request['name']}", "-f", str(key)]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BedError(f"ssh-keygen failed: {done.stderr.strip() or done.stdout.strip()}")

    def _make_networks(self) -> None:
        for _ in range(self._shape.count):
            self._networks.append(new_network())
            _network.prepare(self._networks[-1])
        with _locked():
            self._control = _network.choose_control(_network.taken_networks(), self._request["control"])
            taken = _network.taken_interfaces()
            free = (name for name in map(_network.interface_name, range(10_000)) if name not in taken)
            self._interface = next(free)
            one = self._request["one_network"]
            experiment = self._control if one else EXPERIMENT
            self._layout = self._shape.lay_out(self._control, experiment)
            assert self._guardian is not None
            self._guardian.tell({"undo": [["ip", "link", "delete", self._interface]]})
            alias = f"weir-{self._tag}-bed"
            if one:
                _network.make_controller(self._interface, self._control, alias, self._request["link"]["mtu_bytes"])
            else:
                self._make_switch(self._interface)
                _network.configure_host(self._interface, self._control, alias)
        for node, network in zip(self._layout, self._networks, strict=True):
            self._configure(network, node, experiment)
        self._parameters = _network.parameters(self._networks[0])

    def _configure(self, network: int, node: Node, experiment: ipaddress.IPv4Network, *, again: bool = False) -> None:
        """Configures the interfaces of ``node`` in ``network``."""
        link, alone, switched = self._request["link"], self._request["one_network"], self._shape.emulator
        _network.configure_node(network, node, link, experiment, is_alone=alone, is_switched=switched, again=again)

    def _make_switch(self, interface: str) -> None:
        """Makes the bridge of control, which leads to this machine by ``interface``, and that of the experiment."""
        self._switch = new_network()
        _network.prepare(self._switch)
        own = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            paths = [_path_of(network) for network in self._networks]
            _network.configure_switch(self._switch, interface, _path_of(own), self._layout, paths)
            if self._shape.emulator:
                mtu_bytes = self._request["link"]["mtu_bytes"]
                _network.configure_experiment(self._switch, self._layout, paths, mtu_bytes)
        finally:
            os.close(own)

    def _make_nodes(self) -> None:
        assert self._folder is not None
        names = {f"{node.name}.control": node.control for node in self._layout}
        names |= {node.name: node.experiment for node in self._layout}
        recipe = Recipe(
            tag=str(self._tag),
            stage=self._folder / "stage",
            logs=self._folder / "logs",
            sshd=self._request["sshd"],
            key=(self._folder / "id_ed25519.pub").read_text(encoding="ascii").strip(),
            names=names,
            disk_bytes=self._request["disk_bytes"],
            user=self._request["user"],
            order=[node.name for node in self._layout],
        )
        self._nodes = Nodes(self._layout, recipe)
        self._nodes.fork(self._networks, lambda done: _tell(step="nodes", done=done, of=len(self._layout)))

    def _hosts(self) -> list[dict[str, Any]]:
        hosts = [
            {"node": index, "netns": _path_of(network), "address": node.experiment, "device": INTERFACE}
            for index, (node, network) in enumerate(zip(self._layout, self._networks, strict=True))
        ]
        if self._request["one_network"]:
            assert self._control is not None
            address = str(self._control.network_address + 1)
            hosts.append({"node": len(hosts), "netns": None, "address": address, "device": self._interface})
        return hosts

    def _facts(self) -> dict[str, Any]:
        assert self._nodes is not None
        assert self._guardian is not None
        return {
            "version": VERSION,
            "name": self._request["name"],
            "until": self._until,
            "control": str(self._control),
            "interface": self._interface,
            "guardian": self._guardian.pid,
            "links": self._request["links"],
            "user": self._request["user"],
            "nodes": self._nodes.facts(),
        }

    # Keeping -------------------------------------------------------------------------------------------------------

    def keep(self) -> str:
        """Looks after the test bed until its end; returns the reason of the end."""
        assert self._nodes is not None
        assert self._folder is not None
        reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        while True:
            left = self._end - time.monotonic()
            if left <= 0:
                return "its time is over"
            if self._nodes.reap() | self._start_wanted():
                write_facts(self._folder, self._facts())
            if self._emulator is not None and (why := self._emulator.failure()) is not None:
                return why
            if self._guardian is None or self._guardian.killed():
                self._guardian = self._start_guardian()
                write_facts(self._folder, self._facts())
            select.select([reading], [], [], min(left, _TURN_S))
            with contextlib.suppress(BlockingIOError):
                os.read(reading, 4096)

    def _start_wanted(self) -> bool:
        """Starts the nodes that a command wants to have started; whether there were any."""
        assert self._nodes is not None
        assert self._folder is not None
        names = wanted(self._folder)
        for name in names:
            why = None
            try:
                self._start_node(name)
            except (MethodError, OSError) as error:
                why = str(error)
            write_facts(self._folder, self._facts())
            answer(self._folder, name, why)
        return bool(names)

    def _start_node(self, name: str) -> None:
        assert self._nodes is not None
        assert self._control is not None
        found = [at for at, node in enumerate(self._layout) if node.name == name]
        if not found or name not in self._nodes.ended:
            raise BedError(f"node {name} has not ended")
        node, network, one = self._layout[found[0]], self._networks[found[0]], self._request["one_network"]
        _network.reset_node(network, self._parameters)
        experiment = self._control if one else EXPERIMENT
        self._configure(network, node, experiment, again=True)
        self._nodes.start(name, network)

    # Removing ------------------------------------------------------------------------------------------------------

    def remove(self) -> None:
        """Removes everything that was made; once."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        if self._nodes is not None:
            self._nodes.kill()
        if self._emulator is not None:
            self._emulator.close()
        if self._interface is not None:
            _network.remove_interface(self._interface)
        for network in (*self._networks, *(() if self._switch is None else (self._switch,))):
            os.close(network)
        if self._guardian is not None and not self._guardian.finish(_TEARDOWN_S) and self._folder is not None:
            remove_quietly(self._folder)


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    """Within the context, no other test bed of this user chooses a network."""
    place().mkdir(parents=True, exist_ok=True, mode=0o700)
    file = os.open(lock_file(), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _path_of(descriptor: int) -> str:
    return f"/proc/{os.getpid()}/fd/{descriptor}"


def _tell(**what: Any) -> None:
    """Tells the command.

    Raises:
        _Over: it is gone.
    """
    try:
        os.write(1, json.dumps(what).encode() + b"\n")
    except BrokenPipeError as error:
        raise _Over("the command that started it was interrupted") from error


def _end(_number: int, _frame: FrameType | None) -> None:
    raise _Over("it was told to")


def _detach(folder: Path) -> None:
    """Leaves the terminal: what is said from now on goes to the log."""
    log = os.open(folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for stream, file in ((0, null), (1, log), (2, log)):
        os.dup2(file, stream)


def main() -> int:
    """Makes a test bed and keeps it; its exit code."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.environ["PATH"] = f"{os.environ.get('PATH', '')}:{PATH}"
    os.environ.pop(ENVIRONMENT, None)
    os.umask(0o077)
    supervisor = Supervisor(json.loads(sys.stdin.readline()), sys.stdin.readline())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    signal.signal(signal.SIGUSR1, lambda _number, _frame: None)  # there is something to look after
    try:
        said = {"ends": _live(supervisor)}
    except _Over as error:
        said = {"ends": str(error)}
    except TestbedError as error:
        said = {"error": str(error), "kind": "request"}
    except (MethodError, OSError) as error:
        said = {"error": str(error), "kind": "failure"}
    finally:
        supervisor.remove()
    with contextlib.suppress(_Over):
        _tell(**said)
    return 0 if "ends" in said else 1


def _live(supervisor: Supervisor) -> str:
    os.chdir("/")
    folder = supervisor.make()
    if sys.stdin.readline() != "go\n":
        raise _Over("the command that started it was interrupted")
    _detach(folder)
    return supervisor.keep()


if __name__ == "__main__":
    sys.exit(main())

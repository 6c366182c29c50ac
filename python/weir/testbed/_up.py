"""Starts a test bed: checks what it needs, starts its supervisor, and writes what a client of SSH and weir want."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from weir._errors import UnavailableError
from weir._files import write_atomic
from weir._owner import ENVIRONMENT
from weir.hosts.needs import lacking
from weir.testbed import _folder
from weir.testbed._bed import Bed, down, find
from weir.testbed._errors import BedError, TestbedError
from weir.testbed._shape import BETWEEN, INTERFACE, LinkOptions, Shape, check_name

__all__ = ["DEFAULT_NAME", "Request", "Step", "up"]

DEFAULT_NAME = "bed"
_SERVERS = ("/usr/sbin", "/sbin", "/usr/local/sbin")
_TOOLS = ("ip", "tc", "nsenter")
_GONE_S = 60.0
_ROLES = ("sources", "sinks")
"""The roles of two sites; whoever has another topology changes the inventory."""
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,30}")
_PREFIXES = {0: "", 3: "k", 6: "M", 9: "G"}


@dataclass(frozen=True)
class Request:
    """What a test bed should be."""

    sites: int = 2
    nodes: int = 2
    """At each site."""
    links: LinkOptions = field(default_factory=LinkOptions)
    link_file: Path | None = None
    """Says more of the links between single pairs of sites."""
    name: str = DEFAULT_NAME
    time_limit_s: float = 12 * 3600.0
    """After this time, it ends by itself."""
    one_network: bool = False
    """SSH takes the links of the experiment, too; this machine is at the first site."""
    emulator: bool = False
    """A node between the sites is for the emulator of an experiment; the links of the test bed then have no delay."""
    user: str = "root"
    """As whom the inventory logs in."""
    disk_bytes: int = 1 << 30
    """What can be written on each node; it is in memory, but only what was written."""
    control: str | None = None
    """The network of control, a /16; ``None``: one that is free."""


@dataclass(frozen=True)
class Step:
    """How far it is."""

    what: str
    """``networks``, ``nodes``, ``emulator``, ``answers`` or ``slurm``."""
    done: int
    of: int


def up(request: Request, progress: Callable[[Step], None] = lambda _: None) -> Bed:
    """Makes a test bed; when this returns, each of its nodes answers. It stays until :func:`weir.testbed.down`.

    Raises:
        TestbedError: it cannot be as asked for.
        UnavailableError: this machine lacks a requirement.
        BedError: something failed; nothing is left.
    """
    from weir.testbed._links import compile_links  # the supervisor, which imports this package, needs no language

    check_name(request.name)
    _check_limits(request)
    if request.emulator:
        _check_emulator(request)
    sites = Shape(request.sites, request.nodes)  # without the emulator's node, which no link of the test bed reaches
    links = compile_links(sites, request.links, request.link_file, controller=request.one_network)
    server = _require()
    _make_way(request.name)
    given = {part: text for part, text in asdict(request.links).items() if text is not None}
    trunks = () if request.emulator else links.trunks
    between = [{"between": t.between, "rtt_ns": t.rtt_ns, "rate_bps": t.rate_bps} for t in trunks]
    order = {
        "name": request.name,
        "sites": request.sites,
        "nodes": request.nodes,
        "emulator": request.emulator,
        "control": request.control,
        "one_network": request.one_network,
        "time_limit_s": request.time_limit_s,
        "disk_bytes": request.disk_bytes,
        "user": request.user,
        "sshd": server,
        "link": {name: getattr(links, name) for name in ("mtu_bytes", "access_bps", "overhead_bytes")},
        "links": {
            "given": given,
            "between": between,
            "access_bps": links.access_bps,
            "mtu_bytes": links.mtu_bytes,
        },
    }
    _start(order, json.dumps(links.plan, separators=(",", ":")), progress)
    bed = find(request.name)
    if bed is None:
        raise BedError(f"the test bed {request.name!r} ended at once")
    return bed


def _check_limits(request: Request) -> None:
    if request.disk_bytes < 1 << 20:
        raise TestbedError(f"--disk: {request.disk_bytes} B are too few; expected at least 1 MiB")
    if _USER.fullmatch(request.user) is None:
        raise TestbedError(f"--user: {request.user!r} cannot name a user; expected a name such as me")


def _check_emulator(request: Request) -> None:
    """Refuses what says how the links are: those of the scenario are.

    Raises:
        TestbedError: there is some of it.
    """
    given = {part: getattr(request.links, part) for part in ("rtt", "rate", "queue", "loss")}
    given |= {"links": request.link_file}
    for part, value in given.items():
        if value is not None:
            raise TestbedError(f"--{part}: with --emulator, the links between nodes are those of each scenario")
    if request.one_network:
        raise TestbedError("--one-network: with --emulator, SSH needs a network of its own")


def _require() -> str:
    """The path of ``sshd``, which it wants to be absolute.

    Raises:
        UnavailableError: it is missing, or something else is.
    """
    missing = list(lacking(_TOOLS, ("weir-emu",)))
    path = os.pathsep.join((os.environ.get("PATH", ""), *_SERVERS))
    server = shutil.which("sshd", path=path)
    if server is None:
        missing.append("sshd is missing: install openssh-server")
    if shutil.which("ssh-keygen", path=path) is None:
        missing.append("ssh-keygen is missing: install openssh-client")
    if missing:
        raise UnavailableError(f"weir testbed cannot run here: {'; '.join(missing)}")
    assert server is not None
    return str(Path(server).absolute())


def _make_way(name: str) -> None:
    """Removes what a killed test bed of this name left.

    Raises:
        TestbedError: there is one that is alive, or something else.
    """
    folder = _folder.folder_of(name)
    owner = _folder.owner_of(folder)
    if owner is not None and not owner.alive:
        down(name)
    if folder.exists():
        raise TestbedError(f"--name: there is a test bed {name!r}; `weir testbed down --name {name}` removes it")


def _start(order: Mapping[str, Any], plan: str, progress: Callable[[Step], None]) -> None:
    """Starts the supervisor, and writes the files of the test bed when it is ready.

    Raises:
        TestbedError: it cannot be as asked for.
        BedError: something failed.
    """
    variables = {name: value for name, value in os.environ.items() if name != ENVIRONMENT}
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [sys.executable, "-m", "weir.testbed._supervisor"],
        stdin=pipe,
        stdout=pipe,
        env=variables,
        text=True,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(order) + "\n" + plan + "\n")
        process.stdin.flush()
        ready = _await(process.stdout, order["sites"] * order["nodes"] + order["emulator"], progress)
        _write_files(_folder.folder_of(order["name"]), ready, order)
        process.stdin.write("go\n")
        process.stdin.flush()
    except BaseException as error:
        _abandon(process)
        if isinstance(error, BrokenPipeError):
            raise BedError("the supervisor of the test bed ended") from error
        raise
    process.stdin.close()
    process.stdout.close()


def _abandon(process: subprocess.Popen[str]) -> None:
    """Waits until the supervisor has removed what it made."""
    process.terminate()
    for stream in (process.stdout, process.stdin):
        assert stream is not None
        with contextlib.suppress(BrokenPipeError):
            stream.close()
    try:
        process.wait(_GONE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _await(stream: IO[str], count: int, progress: Callable[[Step], None]) -> Mapping[str, Any]:
    """Reads what the supervisor says until the test bed is ready."""
    for line in stream:
        said = json.loads(line)
        if "ready" in said:
            return {**said["ready"], "keys": said["keys"]}
        if "error" in said:
            raise TestbedError(said["error"]) if said["kind"] == "request" else BedError(said["error"])
        if "ends" in said:
            raise BedError(f"the test bed ends: {said['ends']}")
        progress(Step(said["step"], said.get("done", 0), said.get("of", count)))
    raise BedError("the supervisor of the test bed ended")


# Files ---------------------------------------------------------------------------------------------------------------


def _write_files(folder: Path, ready: Mapping[str, Any], order: Mapping[str, Any]) -> None:
    nodes = ready["nodes"]
    keys = ready["keys"]
    write_atomic(folder / "known_hosts", "".join(f"{n['name']},{n['control']} {keys[n['name']]}\n" for n in nodes))
    write_atomic(folder / "config", _config(folder, nodes, order["user"]))
    write_atomic(_folder.inventory_of(order["name"]), _inventory(ready, order))


def _config(folder: Path, nodes: list[Mapping[str, Any]], user: str) -> str:
    """What ``ssh -F`` wants; it must not depend on the user's own configuration."""
    hosts = "".join(f"Host {node['name']}\n  HostName {node['control']}\n" for node in nodes)
    return (
        f"{hosts}Host *\n"
        f"  User {user}\n"
        f'  IdentityFile "{folder}/id_ed25519"\n'
        "  IdentitiesOnly yes\n"
        f'  UserKnownHostsFile "{folder}/known_hosts"\n'
        "  GlobalKnownHostsFile /dev/null\n"
        "  StrictHostKeyChecking yes\n"
        "  PasswordAuthentication no\n"
        "  CheckHostIP no\n"
        "  UpdateHostKeys no\n"
        "  ServerAliveInterval 10\n"
        "  ServerAliveCountMax 3\n"
    )


def _inventory(ready: Mapping[str, Any], order: Mapping[str, Any]) -> str:
    """The inventory (:mod:`weir.inventory`)."""
    from io import StringIO

    from ruamel.yaml import YAML

    links = order["links"]
    sets: dict[str, Any] = {}
    for node in ready["nodes"]:
        common = {
            "user": order["user"],
            "key": "id_ed25519",
            "known_hosts": "known_hosts",
            **({} if order["one_network"] else {"interface": INTERFACE}),
            "rate": _rate(links["access_bps"]),
            "nodes": [],
        }
        found = sets.setdefault(node["set"], common)
        apart = {} if order["one_network"] else {"experiment_address": node["experiment"]}
        found["nodes"].append({"name": node["name"], "address": node["control"], **apart})
    names = [name for name in sets if name != BETWEEN]
    connections = [
        {"between": list(each["between"]), "rate": _rate(each["rate_bps"]), "rtt": f"{each['rtt_ns'] / 1e6:.12g}ms"}
        for each in links["between"]
    ]
    content: dict[str, Any] = {"sets": sets}
    if connections:
        content["connections"] = connections
    if len(names) == len(_ROLES):
        content["roles"] = dict(zip(_ROLES, names, strict=True))
    content["network"] = "emulated" if BETWEEN in sets else "existing"
    if BETWEEN in sets:
        content["emulator"] = BETWEEN
    text = StringIO()
    yaml = YAML()
    yaml.dump(content, text)
    return f"# The test bed {order['name']!r}, written by `weir testbed up`.\n{text.getvalue()}"


def _rate(bps: int) -> str:
    """A rate as the language has it."""
    power = max((power for power in _PREFIXES if bps >= 10**power), default=0)
    return f"{bps / 10**power:.12g}{_PREFIXES[power]}bps"

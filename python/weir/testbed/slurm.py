"""A real Slurm over a test bed (``weir testbed up --slurm``): a cluster to rehearse reservations on.

The first node has the controller and is the front end; every node, that one too, executes jobs. Each site is a
partition of its set's name. The daemons are processes of the nodes and end with them.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from io import StringIO

from weir._errors import UnavailableError
from weir._files import write_atomic
from weir.testbed._bed import Bed, BedNode
from weir.testbed._errors import BedError

__all__ = ["CONF", "NODES", "missing", "require", "start"]

CONF = "/etc/slurm/slurm.conf"
"""Where Slurm's commands look for it, in each node."""
NODES = "nodes.yaml"
"""The inventory without reservations, in the test bed's folder."""
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "sinfo", "scancel")

_CGROUP_CONF = "/etc/slurm/cgroup.conf"
_CGROUP = b"CgroupPlugin=cgroup/v1\n"
"""Without, slurmd looks for control groups, of which a node has none; nothing here uses the plugin (cgroup.conf(5))."""
_KEY = "/etc/weir-munge.key"
_LOGS = "/var/log/weir-slurm"
_FOLDERS = ("/run/munge", "/var/lib/weir-slurm/controller", "/var/lib/weir-slurm/node", _LOGS)
_MUNGE = (
    *("munged", f"--key-file={_KEY}", "--socket=/run/munge/munge.socket.2", "--pid-file=/run/munge/munged.pid"),
    *("--log-file=/var/log/weir-slurm/munged", "--seed-file=/run/munge/seed"),
)
_SERVERS = ("/usr/sbin", "/sbin")
_START_S = 60.0
_PAUSE_S = 0.2
_AT_ONCE = 8
_TIME = "1h"
"""Of the reservations in the inventory."""

_CONF = """\
ClusterName=weir
SlurmctldHost={head.name}({head.control})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation=/var/lib/weir-slurm/controller
SlurmdSpoolDir=/var/lib/weir-slurm/node
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/weir-slurm/slurmctld
SlurmdLogFile=/var/log/weir-slurm/slurmd
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/linear
SchedulerParameters=bf_interval=1,sched_interval=2
ReturnToService=2
MailProg=/bin/true
{nodes}
{partitions}
"""


def missing() -> list[str]:
    """The programs that Slurm needs and this machine lacks."""
    path = os.pathsep.join((os.environ.get("PATH", ""), *_SERVERS))
    return [program for program in PROGRAMS if shutil.which(program, path=path) is None]


def require() -> None:
    """Checks this machine before a test bed is made.

    Raises:
        UnavailableError: a program is missing.
    """
    if lacking := missing():
        text = f"weir testbed --slurm cannot run here: {', '.join(lacking)}: install slurmctld, slurmd and munge"
        raise UnavailableError(text)


def start(bed: Bed, progress: Callable[[int], None] = lambda _: None) -> None:
    """Starts Slurm on all nodes, waits until each is idle, and has the test bed's inventory reserve by it.

    Args:
        progress: Told how many nodes have their daemons.

    Raises:
        BedError: it does not start; the message has its log.
    """
    head = bed.nodes[0]
    key = secrets.token_bytes(128)
    conf = configuration(bed.nodes).encode()
    _prepare(bed, head, key, conf)
    _execute(bed, head, ["slurmctld"])
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for done, _ in enumerate(pool.map(lambda node: _join(bed, node, head, key, conf), bed.nodes), 1):
            progress(done)
    _await_idle(bed, head)
    write_inventories(bed)


def configuration(nodes: Sequence[BedNode]) -> str:
    """The file slurm.conf(5) of a cluster of ``nodes``, whose controller is the first."""
    sites: dict[str, list[str]] = {}
    for node in nodes:
        sites.setdefault(node.set, []).append(node.name)
    lines = [f"NodeName={node.name} NodeAddr={node.control} CPUs=1 State=UNKNOWN" for node in nodes]
    partitions = [
        f"PartitionName={name} Nodes={','.join(members)} Default={'YES' if number == 0 else 'NO'} State=UP"
        for number, (name, members) in enumerate(sites.items())
    ]
    return _CONF.format(head=nodes[0], nodes="\n".join(lines), partitions="\n".join(partitions))


def write_inventories(bed: Bed) -> None:
    """Has the inventory reserve its sets, and writes the one that it was, with the nodes, beside it."""
    from ruamel.yaml import YAML

    yaml = YAML()
    text = bed.inventory.read_text(encoding="utf-8")
    write_atomic(bed.folder / NODES, text)
    said = yaml.load(text)
    head = bed.nodes[0]
    for alias, each in said["sets"].items():
        nodes = each.pop("nodes")
        front_end = {"address": head.control, "user": "root", "key": each["key"], "known_hosts": each["known_hosts"]}
        each["reserve"] = {
            "by": "slurm",
            "nodes": len(nodes),
            "time": _TIME,
            "partition": alias,
            "front_end": front_end,
        }
    stream = StringIO()
    yaml.dump(said, stream)
    write_atomic(bed.inventory, stream.getvalue())


def _join(bed: Bed, node: BedNode, head: BedNode, key: bytes, conf: bytes) -> None:
    if node != head:
        _prepare(bed, node, key, conf)
    _execute(bed, node, ["slurmd", "-N", node.name])


def _prepare(bed: Bed, node: BedNode, key: bytes, conf: bytes) -> None:
    """Makes folders and files, and starts munge."""
    _execute(bed, node, ["install", "-d", "-m", "755", *_FOLDERS])
    bed.put(node.name, CONF, conf)
    bed.put(node.name, _CGROUP_CONF, _CGROUP)
    bed.put(node.name, _KEY, key, 0o400)
    _execute(bed, node, _MUNGE)


def _execute(bed: Bed, node: BedNode, command: Sequence[str]) -> bytes:
    done = bed.run(node.name, command)
    if done.code != 0:
        said = (done.err or done.out).decode(errors="replace").strip()[-2000:] or _log(bed, node, command[0])
        raise BedError(f"node {node.name}: {command[0]}: {said or f'exit code {done.code}'}")
    return done.out


def _await_idle(bed: Bed, head: BedNode) -> None:
    """Waits until the controller has heard of every node."""
    deadline = time.monotonic() + _START_S
    while True:
        done = bed.run(head.name, ["sinfo", "--noheader", "--Node", "--format=%N %T"])
        states = dict(line.split(None, 1) for line in done.out.decode(errors="replace").splitlines() if " " in line)
        late = [node.name for node in bed.nodes if states.get(node.name) != "idle"]
        if not late:
            return
        if time.monotonic() > deadline:
            said = _log(bed, head, "slurmctld")
            raise BedError(f"Slurm has not heard of {', '.join(late)} after {_START_S:.0f} s: {said}")
        time.sleep(_PAUSE_S)


def _log(bed: Bed, node: BedNode, daemon: str) -> str:
    done = bed.run(node.name, ["tail", "-n", "20", f"{_LOGS}/{daemon}"])
    return done.out.decode(errors="replace").strip()

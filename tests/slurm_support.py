"""A real Slurm on this machine for tests: a controller and several nodes on loopback, with a munge of their own.

All of it is in a process-id namespace whose first process ends with the test's, so nothing outlives it: neither daemons
nor jobs.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "unshare", "setpriv")
_START_S = 30.0

_CONF = """\
ClusterName=weir
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/linear
SchedulerParameters=bf_interval=1,sched_interval=1
ReturnToService=2
KillWait=2
MinJobAge=60
MailProg=/bin/true
NodeName=DEFAULT CPUs=1 State=UNKNOWN
NodeName=n[1-{nodes}] NodeHostname=localhost NodeAddr=127.0.1.[1-{nodes}] Port=[{ports[1]}-{ports[2]}]
PartitionName=main Nodes=ALL Default=YES MaxTime=60 State=UP
PartitionName=small Nodes=n1 MaxTime=5 MaxNodes=1 State=UP
"""


def lacking() -> str:
    """Why there can be no Slurm here; empty if there can."""
    missing = [program for program in PROGRAMS if shutil.which(program, path=_path()) is None]
    if missing:
        return f"there is no {', '.join(missing)} (Debian: slurmctld, slurmd, munge)"
    return "" if os.geteuid() == 0 else "slurmd needs root"


@dataclass(frozen=True)
class Slurm:
    """A running Slurm with nodes ``n1``, ``n2``, ... in the partitions ``main`` and ``small``."""

    folder: Path
    conf: Path

    @property
    def environment(self) -> dict[str, str]:
        """In which Slurm's commands find it."""
        return {**os.environ, "PATH": _path(), "SLURM_CONF": str(self.conf)}

    def said(self, *words: str) -> str:
        """The output of one of Slurm's commands."""
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.strip()

    def jobs(self) -> list[str]:
        """The names of jobs that wait or run."""
        return self.said("squeue", "--noheader", "--states=PD,CF,R,S", "--format=%j").split()

    def log(self) -> str:
        """What the daemons said."""
        return (self.folder / "log").read_text(errors="replace")


@contextlib.contextmanager
def slurm(nodes: int = 3) -> Iterator[Slurm]:
    """Runs a Slurm with ``nodes`` nodes as long as the context lasts.

    Raises:
        RuntimeError: it does not start; the message has its log.
    """
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    folder.chmod(0o755)
    try:
        conf = folder / "slurm.conf"
        conf.write_text(_CONF.format(folder=folder, nodes=nodes, ports=_ports(nodes)))
        (folder / "key").write_bytes(secrets.token_bytes(128))
        (folder / "key").chmod(0o400)
        (folder / "state").mkdir()
        bed = Slurm(folder, conf)
        process = _started(bed, nodes)
        try:
            _await(bed, nodes, process)
            yield bed
        finally:
            process.kill()
            process.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def until(holds: Callable[[], bool], what: str, patience_s: float = 30) -> None:
    """Waits until ``holds``; ``what`` says so if it does not."""
    deadline = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def _started(bed: Slurm, nodes: int) -> subprocess.Popen[bytes]:
    munge = ["munged", "--foreground", f"--socket={bed.folder}/munge", f"--key-file={bed.folder}/key"]
    munge += [f"--{file}-file={bed.folder}/munge.{file}" for file in ("pid", "log", "seed")]
    daemons = [munge, ["slurmctld", "-D", "-c"], *(["slurmd", "-D", "-N", f"n{n}"] for n in range(1, nodes + 1))]
    script = " ".join(f"{shlex.join(daemon)} &" for daemon in daemons)
    own = ["setpriv", "--pdeathsig", "KILL", "unshare", "--fork", "--pid", "--mount-proc", "--kill-child=KILL"]
    with (bed.folder / "log").open("wb") as log:
        return subprocess.Popen(
            [*own, "sh", "-c", f"{script} while :; do wait; sleep 1; done"],
            env=bed.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def _await(bed: Slurm, nodes: int, process: subprocess.Popen[bytes]) -> None:
    """Waits until all nodes are idle."""
    deadline = time.monotonic() + _START_S
    while True:
        with contextlib.suppress(subprocess.SubprocessError):
            states = bed.said("sinfo", "--noheader", "--Node", "--partition=main", "--format=%T").split()
            if states == ["idle"] * nodes:
                return
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"Slurm does not start: {bed.log()[-4000:]}")
        time.sleep(0.1)


def _ports(nodes: int) -> tuple[int, int, int]:
    """A free port of the controller, and the first and last of as many free ports as there are nodes."""
    for _ in range(100):
        base = 20_000 + secrets.randbelow(10_000)
        if all(_free(port) for port in range(base, base + nodes + 1)):
            return base, base + 1, base + nodes
    raise RuntimeError("there are no free ports")


def _free(port: int) -> bool:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"

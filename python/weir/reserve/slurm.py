"""Nodes of a Slurm cluster, as a batch job that sleeps on them: ``sbatch``, ``squeue``, ``sinfo``, ``scancel``.

A batch job is in the queue with an id at once, and needs no process that stays connected, as ``salloc`` would. Columns
are asked for by ``--format``, which has meant the same in all versions since 20.02; the JSON of ``squeue`` changed from
version to version, and ignored the choice of jobs at first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from weir.reserve._command import Answer, ask
from weir.reserve._provider import Held, Phase, Provider, State
from weir.reserve._request import Request
from weir.reserve.errors import ReserveError

__all__ = ["Slurm"]

_SCRIPT = b"#!/bin/sh\nexec sleep infinity\n"
"""What the job executes: it ends by its time limit or by ``scancel``."""

_WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "RESIZING"})
_ACTIVE = frozenset({"RUNNING", "SUSPENDED"})

_NEVER = frozenset(
    {
        *("AccountNotAllowed", "BadConstraints", "InvalidAccount", "InvalidQOS", "PartitionConfig"),
        *("PartitionNodeLimit", "PartitionTimeLimit", "QOSNotAllowed"),
    }
)
"""Reasons to wait that no waiting ends (squeue(1), "JOB REASON CODES"); Slurm takes such jobs unless told otherwise."""

_ID = re.compile(r"(?P<id>[0-9]+)(?:;(?P<cluster>[A-Za-z0-9_.-]+))?")
_FORMAT = "%i|%T|%N|%S|%L|%r"
_UNKNOWN = "Invalid job id"


class Slurm(Provider):
    """The provider ``slurm``."""

    name = "slurm"
    keys: ClassVar[Mapping[str, str]] = {
        "account": "The account that pays.",
        "qos": "The quality of service.",
        "reservation": "An advance reservation of the administrators' (`scontrol show reservation`).",
        "nodelist": "Nodes that must be among them, such as `a[1-3]`.",
        "exclude": "Nodes that must not be among them.",
        "options": "More arguments of sbatch, as a list.",
        "conf": "The file slurm.conf at the front end; by default Slurm's own.",
    }

    def submit(self, request: Request, name: str) -> str:
        said = {
            "job-name": name,
            "nodes": str(request.nodes),
            "time": _limit(request.time_s),
            "partition": request.partition,
            "constraint": request.properties,
            **{key: request.text(key) for key in ("account", "qos", "reservation", "nodelist", "exclude")},
        }
        fixed = {"chdir": "/", "input": "/dev/null", "output": "/dev/null", "error": "/dev/null", "export": "NONE"}
        words = [f"--{key}={value}" for key, value in {**fixed, **said}.items() if value]
        own = ["--parsable", "--exclusive", "--no-requeue", *request.words("options"), *words]
        answer = _ask(request, ["sbatch", *own], _SCRIPT)
        if answer.code:
            raise ReserveError(f"Slurm refuses: {answer.words}")
        # A shell's greeting may come before the answer.
        found = [line for line in answer.out.split() if _ID.fullmatch(line)]
        if not found:
            raise ReserveError(f"{answer.command}: expected the number of a job, got {answer.words!r}")
        return found[-1]

    def find(self, request: Request, name: str) -> str | None:
        answer = _ask(request, ["squeue", "--me", "--noheader", f"--name={name}", "--format=%i"])
        if answer.code:
            raise ReserveError(f"{answer.command}: {answer.words}")
        found = [line for line in answer.out.split() if _ID.fullmatch(line)]
        return found[-1] if found else None

    def state(self, request: Request, identity: str) -> State:
        job, cluster = _job(identity)
        # Without `--states` ended jobs, which Slurm remembers for minutes, would be missing.
        words = ["--noheader", "--states=all", f"--jobs={job}", f"--format={_FORMAT}"]
        answer = _ask(request, ["squeue", *cluster, *words])
        if answer.code:
            if _UNKNOWN in answer.err:
                return State(Phase.ENDED, why="Slurm does not know it any more")
            raise ReserveError(f"{answer.command}: {answer.words}")
        rows = [line.split("|", 5) for line in answer.out.splitlines() if line.startswith(f"{job}|")]
        if not rows or len(rows[0]) != 6:
            return State(Phase.ENDED, why="Slurm does not know it any more")
        _, word, nodes, start, left, reason = rows[0]
        if word in _ACTIVE:
            return State(Phase.ACTIVE, _nodes(request, nodes, cluster), left_s=_seconds(left))
        if word not in _WAITING:
            return State(Phase.ENDED, why=word if reason in {"", "None"} else f"{word} ({reason})")
        if reason in _NEVER:
            return State(Phase.ENDED, why=f"it would wait for ever: {reason}")
        return State(Phase.WAITING, why=reason, start="" if start == "N/A" else start)

    def release(self, request: Request, identity: str, name: str) -> None:
        job, cluster = _job(identity)
        answer = _ask(request, ["scancel", *cluster, job])
        if answer.code and _UNKNOWN not in answer.err:
            raise ReserveError(f"{answer.command}: {answer.words}")


def _ask(request: Request, words: list[str], given: bytes = b"") -> Answer:
    conf = request.text("conf")
    return ask(request.front_end, [*([f"SLURM_CONF={conf}"] if conf else []), *words], given)


def _job(identity: str) -> tuple[str, list[str]]:
    """The number of the job, and the arguments that name its cluster."""
    found = _ID.fullmatch(identity)
    if found is None:
        raise ReserveError(f"{identity!r} is no job of Slurm's")
    return found["id"], [f"--clusters={found['cluster']}"] if found["cluster"] else []


def _nodes(request: Request, names: str, cluster: list[str]) -> tuple[Held, ...]:
    """Names and addresses of the nodes that Slurm lists as ``a[1-2],b3``, in the order of the list."""
    answer = _ask(request, ["sinfo", *cluster, "--noheader", "--all", "--Node", f"--nodes={names}", "--format=%N|%o"])
    if answer.code:
        raise ReserveError(f"{answer.command}: {answer.words}")
    rows = dict(line.strip().split("|", 1) for line in answer.out.splitlines() if line.count("|") == 1)
    if not rows:
        raise ReserveError(f"{answer.command}: expected the addresses of {names}, got {answer.words!r}")
    return tuple(Held(name, address) for name, address in rows.items())


def _limit(time_s: int) -> str:
    """A time limit as sbatch(1) has it; Slurm itself rounds up to minutes."""
    minutes, seconds = divmod(time_s, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{days}-{hours:02}:{minutes:02}:{seconds:02}"


def _seconds(left: str) -> int | None:
    """The time ``[DAYS-]HOURS:MINUTES:SECONDS`` in seconds; ``None`` for words such as UNLIMITED."""
    found = re.fullmatch(r"(?:(\d+)-)?(?:(?:(\d+):)?(\d+):)?(\d+)", left)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds

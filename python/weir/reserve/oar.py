"""Nodes of a cluster under OAR, as on Grid'5000: ``oarsub``, ``oarstat``, ``oardel``.

The job sleeps on its nodes. OAR submits a job anew, under another number, when it suspects one of its nodes; both have
the same name, so a release ends all jobs of the reservation's name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

from weir.reserve._command import Answer, ask
from weir.reserve._provider import Held, Phase, Provider, State
from weir.reserve._request import Request
from weir.reserve.errors import ReserveError

__all__ = ["Oar"]

_PROGRAM = "sleep infinity"
_WAITING = frozenset({"Waiting", "Hold", "toLaunch", "toAckReservation", "Launching", "Resuming"})
_ACTIVE = frozenset({"Running", "Suspended"})
"""The states of a job (OAR's documentation, "jobs" of the database scheme); all others are its end."""
_ID = re.compile(r"^OAR_JOB_ID=(?P<id>[0-9]+)\s*$", re.MULTILINE)
_KILLED = "already killed"


class Oar(Provider):
    """The provider ``oar``."""

    name = "oar"
    keys: ClassVar[Mapping[str, str]] = {
        "project": "The project that pays.",
        "types": "Types of the job, as a list, such as [deploy].",
        "options": "More arguments of oarsub, as a list.",
    }

    def submit(self, request: Request, name: str) -> str:
        hours, rest = divmod(request.time_s, 3600)
        walltime = f"{hours}:{rest // 60:02}:{rest % 60:02}"
        words = ["oarsub", f"--name={name}", "--stdout=/dev/null", "--stderr=/dev/null", *request.words("options")]
        words += [f"--type={kind}" for kind in request.words("types")]
        said = {"queue": request.partition, "property": request.properties, "project": request.text("project")}
        words += [f"--{key}={value}" for key, value in said.items() if value]
        answer = ask(request.front_end, [*words, f"--resource=nodes={request.nodes},walltime={walltime}", _PROGRAM])
        found = _ID.search(answer.out)
        if answer.code or found is None:
            raise ReserveError(f"OAR refuses: {answer.words}")
        return found["id"]

    def find(self, request: Request, name: str) -> str | None:
        return max(_of_name(request, name), key=int, default=None)

    def state(self, request: Request, identity: str) -> State:
        if not identity.isdecimal():
            raise ReserveError(f"{identity!r} is no job of OAR's")
        job = _jobs(ask(request.front_end, ["oarstat", "--json", "--full", f"--job={identity}"])).get(identity)
        if job is None:
            return State(Phase.ENDED, why="OAR does not know it")
        word, message = str(job.get("state")), str(job.get("message") or "")
        if word in _ACTIVE:
            names = job.get("assigned_network_address")
            nodes = tuple(Held(str(one), str(one)) for one in names) if isinstance(names, list) else ()
            return State(Phase.ACTIVE, nodes, message)
        if word in _WAITING:
            return State(Phase.WAITING, (), message, _instant(job.get("scheduledStart")))
        return State(Phase.ENDED, why=f"{word}: {message}" if message else word)

    def release(self, request: Request, identity: str, name: str) -> None:
        for job in sorted({identity, *_of_name(request, name)}, key=int):
            answer = ask(request.front_end, ["oardel", job])
            ended = _KILLED in answer.out + answer.err or not answer.code
            if not ended and self.state(request, job).phase is not Phase.ENDED:
                raise ReserveError(f"{answer.command}: {answer.words}")


def _of_name(request: Request, name: str) -> list[str]:
    """The numbers of this user's jobs with that name, which wait or run."""
    jobs = _jobs(ask(request.front_end, ["oarstat", "--json", "--user"]))
    return [number for number, job in jobs.items() if job.get("name") == name]


def _jobs(answer: Answer) -> dict[str, dict[str, Any]]:
    """Jobs by number. OAR says nothing at all, with success, if there are none."""
    if answer.code:
        raise ReserveError(f"{answer.command}: {answer.words}")
    if "{" not in answer.out:
        return {}
    try:
        said = json.loads(answer.out[answer.out.index("{") :])
    except ValueError as error:
        raise ReserveError(f"{answer.command}: expected JSON, got {answer.words[:200]!r}") from error
    return {str(number): job for number, job in said.items() if str(number).isdecimal() and isinstance(job, dict)}


def _instant(seconds: object) -> str:
    if not isinstance(seconds, int | float) or not 0 < seconds < 1 << 40:
        return ""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

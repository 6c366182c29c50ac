"""Makes workers ready: a look whether they fit, weir where it is missing, and an agent on each."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from distributed import Client

import weir
from weir import _weir, confine
from weir.cluster import _far
from weir.cluster._cargo import METHOD, WEIR, Cargo, Carried

__all__ = ["Ready", "prepare"]

_RECEIVE, _UNPACK, _SURVEY, _INSTALL = (Carried(f) for f in (_far.receive, _far.unpack, _far.survey, _far.install))
_ENVIRONMENT = (confine.UNCONFINED,)
"""Variables of this process that workers get, too."""
_PYTHON = tuple(str(part) for part in sys.version_info[:2])
_IDLE_S = 120.0
"""How long an agent outlives a controller that was killed."""


@dataclass
class Ready:
    """Workers that have an agent, and those that cannot have one."""

    memory: dict[str, int] = field(default_factory=dict)
    """Bytes that the cells of each may take together, by its address; 0: unknown."""
    unfit: dict[str, str] = field(default_factory=dict)
    """Why each of the others is of no use."""
    sent_bytes: int = 0


def prepare(client: Client, addresses: Sequence[str], cargoes: Sequence[Cargo], method: str, name: str) -> Ready:
    """Makes the workers at ``addresses`` execute cells by ``method``, with an agent called ``name`` on each."""
    ready = Ready()
    held = _provide(client, _of_this_kind(client, addresses, ready), cargoes, ready)
    alike: dict[tuple[str, str | None], list[str]] = {}
    for address, about in held.items():
        alike.setdefault((about["places"][WEIR], about["places"].get(METHOD)), []).append(address)
    on_host = Counter(about["host"] for about in held.values())
    for (path, cache), workers in alike.items():
        environment = {key: os.environ[key] for key in _ENVIRONMENT if key in os.environ}
        settings = {
            "method": method,
            "topic": name,
            "path": path,
            "cache": cache,
            "environment": environment,
            "idle_s": _IDLE_S,
        }
        agent = Carried(_far.Agent(name, settings))
        for address, facts in _called(client, _INSTALL, agent, workers=workers).items():
            about = held[address]
            if (why := _unusable(facts)) is not None:
                ready.unfit[address] = f"on {about['host']}: {why}"
            else:
                share = about["available"] // on_host[about["host"]]
                ready.memory[address] = min(about["memory_limit"] or share, share)
    return ready


def _of_this_kind(client: Client, addresses: Sequence[str], ready: Ready) -> list[str]:
    """Those of ``addresses`` with this machine's kind of processor and version of Python.

    Asks Dask, not a program of weir's, which another Python could not load.
    """
    scheduler: Any = client.scheduler
    told = client.sync(
        scheduler.broadcast,
        msg={"op": "versions", "packages": []},
        workers=list(addresses),
        on_error="return",
    )
    here = os.uname()
    fit = []
    for address in addresses:
        about = told.get(address)
        if not isinstance(about, Mapping):
            continue  # it is gone already
        host = about["host"]
        python = tuple(host["python"].split(".")[:2])
        if (host["OS"], host["machine"]) != (here.sysname, here.machine):
            ready.unfit[address] = f"it is {host['OS']} on {host['machine']}, this is {here.sysname} on {here.machine}"
        elif python != _PYTHON:
            ready.unfit[address] = f"its Python is {'.'.join(python)}, this is {'.'.join(_PYTHON)}"
        else:
            fit.append(address)
    return fit


def _provide(client: Client, addresses: list[str], cargoes: Sequence[Cargo], ready: Ready) -> dict[str, dict[str, Any]]:
    """What each worker has, after everything that was missing was sent once to each cache."""
    wanted = {cargo.name: cargo.digest for cargo in cargoes}
    own = {cargo.name: cargo.known_files for cargo in cargoes}
    held: dict[str, dict[str, Any]] = {}
    asked = list(addresses)
    while asked:
        told = _called(client, _SURVEY, wanted, own, workers=asked)
        lacking = []
        for address, about in told.items():
            if isinstance(about, BaseException):
                ready.unfit[address] = str(about) or type(about).__name__
            elif None in about["places"].values():
                lacking.append(address)
            else:
                held[address] = about
        if lacking:  # one of them; others may share its cache
            first = lacking[0]
            try:
                _send(client, first, [c for c in cargoes if told[first]["places"][c.name] is None], ready)
            except (OSError, ValueError) as error:
                ready.unfit[first] = f"weir could not be sent there: {error}"
                lacking.remove(first)
        asked = lacking
    return held


def _send(client: Client, address: str, missing: Iterable[Cargo], ready: Ready) -> None:
    """Sends cargoes to a worker, piece by piece."""
    for cargo in missing:
        file = f"{cargo.digest}-{os.getpid()}-{os.urandom(4).hex()}"
        for offset, content in cargo.pieces():
            client.run(_RECEIVE, file, offset, content, workers=[address])
            ready.sent_bytes += len(content)
        client.run(_UNPACK, file, cargo.digest, workers=[address])


def _called(client: Client, function: Carried, *arguments: object, workers: list[str]) -> dict[str, Any]:
    """The answer of each worker, or its error."""
    return dict(client.run(function, *arguments, workers=workers, on_error="return"))


def _unusable(facts: Any) -> str | None:
    """Why a worker with these facts would not give the same bytes, or none at all."""
    if isinstance(facts, BaseException):
        return str(facts) or type(facts).__name__
    if "error" in facts:
        return f"weir does not run there: {facts['error']}"
    if facts["pyarrow"] != pa.__version__:
        return f"it has pyarrow {facts['pyarrow']}, this is {pa.__version__}, which would write other bytes"
    if (facts["weir"], facts["build"]) != (weir.__version__, dict(_weir.build_info())):
        return f"it runs another weir, {facts['weir']}, in spite of what was sent"
    if facts["lacks"] is not None:
        return str(facts["lacks"])
    return None

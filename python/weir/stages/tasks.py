"""The state of tasks of an experiment, in the file ``tasks.json`` of its run.

A stage is in it when it has begun, and no sooner. Stages of cells (``configure``, ``execute``, ``collect``) have one
entry each, which is about the last cell. The file is written anew, atomically, at each change. It says what was done; a
run is continued from its cells, not from this file. So a change that cannot be written stops nothing.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from weir._inside import Folder, InsideError

__all__ = ["CHANGES", "FILE", "ORDER", "Task", "Tasks", "exists", "interrupt", "leave", "read"]

FILE = "tasks.json"
ORDER = ("reserve", "deploy", "configure", "execute", "collect", "clean", "archive")
_FORMAT = 1
_MAX_BYTES = 1 << 24
_MAX_ERROR = 4000


CHANGES = frozenset({"deploy", "configure", "execute"})
"""Stages that change nodes."""
_LEFT = "nobody carried it out; the nodes restore themselves, at the latest 20 s later"
_STATES = ("active", "done", "failed", "interrupted")


@dataclass(frozen=True, kw_only=True)
class Task:
    """One stage."""

    stage: str
    state: str
    """``active``, ``done``, ``failed``, or ``interrupted``: its process was ended."""
    since: str
    """When it came into this state, UTC."""
    nodes: tuple[str, ...] = ()
    """The nodes that it is about, by name; none: all of the stage before."""
    cell: str | None = None
    """The id of the last cell."""
    cells: int = 0
    """Number of cells for which this call has done it."""
    error: str | None = None


class Tasks:
    """The tasks of a run, as they are carried out. Without a folder, nothing is written."""

    def __init__(self, run: Path | None, *, fresh: bool = True) -> None:
        """Writes nothing yet.

        Args:
            run: The folder of the run.
            fresh: Forgets what an earlier call did, as soon as the first task begins.
        """
        self._run = run
        self._lock = threading.Lock()
        self._tasks: dict[str, Task] = {}
        if run is not None and not fresh:
            with contextlib.suppress(OSError, ValueError):
                self._tasks = {task.stage: task for task in read(run)}

    @contextlib.contextmanager
    def task(self, stage: str, *, nodes: Sequence[str] = (), cell: str | None = None) -> Iterator[None]:
        """The task of ``stage`` is carried out in this context; with an error it has failed."""
        cells = self._tasks[stage].cells if stage in self._tasks else 0
        begun = Task(stage=stage, state="active", since=_now(), nodes=tuple(nodes), cell=cell, cells=cells)
        self._set(begun)
        try:
            yield
        except BaseException as error:
            text = str(error)[:_MAX_ERROR] or type(error).__name__
            self._set(replace(begun, state="failed", since=_now(), error=text))
            raise
        self._set(replace(begun, state="done", since=_now(), cells=cells + (cell is not None)))

    def fail(self, stage: str, error: str) -> None:
        """A task that has ended without an error has failed all the same."""
        if stage in self._tasks:
            self._set(replace(self._tasks[stage], state="failed", since=_now(), error=error[:_MAX_ERROR]))

    def interrupt(self) -> None:
        """What is active is carried out by nobody any more."""
        for task in list(self._tasks.values()):
            if task.state == "active":
                self._set(replace(task, state="interrupted", since=_now()))

    def leave(self) -> None:
        """If nodes were changed, and nobody carries out the stage ``clean``, notes that."""
        if CHANGES & set(self._tasks) and "clean" not in self._tasks:
            self._set(Task(stage="clean", state="interrupted", since=_now(), error=_LEFT))

    def _set(self, task: Task) -> None:
        with self._lock:
            self._tasks[task.stage] = task
            if self._run is None:
                return
            several = sorted(self._tasks.values(), key=lambda one: ORDER.index(one.stage))
            said = {"format": _FORMAT, "tasks": [asdict(one) for one in several]}
            with contextlib.suppress(OSError), Folder(self._run) as folder:
                folder.write(FILE, (json.dumps(said, indent=1) + "\n").encode(), durable=False)


def read(run: Path) -> list[Task]:
    """The tasks of the run in the folder ``run``, in their order; none if it has no such file.

    Raises:
        ValueError: the file is not one of weir's.
        OSError: it cannot be read.
    """
    try:
        with Folder(run) as folder:
            content = folder.read(FILE, _MAX_BYTES)
    except FileNotFoundError:
        return []
    except InsideError as error:
        raise ValueError(str(error)) from error
    try:
        found = [_task(one) for one in json.loads(content)["tasks"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{run / FILE} is damaged: expected tasks with stage, state and since") from error
    return sorted(found, key=lambda task: ORDER.index(task.stage))


def exists(run: Path) -> bool:
    """Whether the run in the folder ``run`` has tasks."""
    return (run / FILE).is_file()


def interrupt(run: Path) -> None:
    """What is active in the folder ``run`` is carried out by nobody any more."""
    Tasks(run, fresh=False).interrupt()


def leave(run: Path) -> None:
    """Nobody carries out the stage ``clean`` of the run in the folder ``run`` any more, if it has not begun."""
    Tasks(run, fresh=False).leave()


def _task(said: dict[str, Any]) -> Task:
    task = Task(**{**said, "nodes": tuple(map(str, said["nodes"]))})
    texts = (task.stage, task.state, task.since, task.cell or "", task.error or "")
    known = task.stage in ORDER and task.state in _STATES
    if not known or not all(isinstance(text, str) for text in texts) or not isinstance(task.cells, int):
        raise ValueError
    return task


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")

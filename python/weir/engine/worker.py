"""The process that executes cells, one at a time: ``python -m weir.engine.worker [RECORD]``.

With RECORD, a file descriptor, it may load users' congestion controls and records their calls there. It is then
confined, and leaves complete cells in the folder ``inside`` of a job, because it may not move them.

It reads jobs from standard input and writes messages to standard output, one JSON object per line. When its standard
input ends, its parent is gone and it exits at once; the next run removes the folder that it leaves behind.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any, TextIO

from weir import _memory, cc, methods
from weir.engine._files import is_disk_full

__all__ = ["main"]

_TELL_EVERY_S = 0.2
_BUSY = threading.Lock()
"""Is held while a cell is executed."""
_TOLD_S = 0.2
"""Time between telling the end of a cell and being idle: the parent may end the input as soon as it was told."""
_ALONE_S = 10.0
"""Time that closing may take when the parent is gone: what is not undone then, the watchers of the machines undo."""


def main() -> None:
    """Executes jobs until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()
    bound: dict[tuple[str, str | None], methods.Method] = {}
    messages = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # output of a library must not become a message
    jobs: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(jobs,), daemon=True).start()
    if len(sys.argv) > 1:
        from weir import _weir

        _weir.cc_watch_share(int(sys.argv[1]))
    from weir.engine._cell import CellWriter  # noqa: F401  (imports Arrow while the first job is on its way)

    _memory.keep_freed()

    while line := jobs.get():
        job = json.loads(line)
        if not _BUSY.acquire(blocking=False):  # the input has ended: nobody wants the cell any more
            break
        _tell(messages, _attempt(job, messages, bound))
        _BUSY.release()
    threading.Thread(target=_leave_without, args=(parent,), daemon=True).start()
    for method in bound.values():
        try:
            method.close()
        except methods.MethodError as error:  # the cells are complete all the same
            from weir._terminal import say

            say(f"not everything was undone: {error}", err=True)
    os._exit(0)


def _leave_without(parent: int) -> None:
    """Ends this process some time after its parent is gone."""
    while os.getppid() == parent:
        time.sleep(0.5)
    time.sleep(_ALONE_S)
    os._exit(1)


def _read(jobs: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        jobs.put(line)
    if not _BUSY.acquire(timeout=_TOLD_S):  # nobody wants the cell any more
        os._exit(0)
    jobs.put("")


def _tell(messages: TextIO, message: dict[str, Any]) -> None:
    try:
        messages.write(json.dumps(message) + "\n")
    except BrokenPipeError:
        os._exit(0)


def _attempt(
    job: dict[str, Any], messages: TextIO, bound: dict[tuple[str, str | None], methods.Method]
) -> dict[str, Any]:
    """Executes ``job``; returns the last message about it. ``bound`` are the methods of jobs before."""
    try:
        method = _method(job, bound)
        outcome, found = _execute(job, method, messages)
        if outcome.partial is not None:
            return _failed(job, "lost" if outcome.lost else "partial", outcome.partial)
        return {"type": "done", "id": job["id"], **found}
    except methods.LostError as error:
        return _failed(job, "lost", str(error))
    except methods.MethodError as error:
        return _failed(job, "method", str(error))
    except OSError as error:
        return _failed(job, "disk_full" if is_disk_full(error) else "io", str(error))
    except BaseException as error:  # a panic of the simulator is not an Exception
        return _failed(job, "bug", f"{type(error).__name__}: {error}", traceback.format_exc())


def _failed(job: dict[str, Any], kind: str, error: str, trace: str = "") -> dict[str, Any]:
    return {"type": "failed", "id": job["id"], "kind": kind, "error": error, "trace": trace}


def _method(job: dict[str, Any], bound: dict[tuple[str, str | None], methods.Method]) -> methods.Method:
    """The method of ``job``: the same for all jobs of a run, because it may keep connections."""
    which = job["method"], job.get("on")
    if which not in bound:
        bound[which] = methods.get(*which)
    return bound[which]


def _execute(job: dict[str, Any], method: methods.Method, messages: TextIO) -> tuple[methods.Outcome, dict[str, Any]]:
    from weir.engine._cell import CellWriter

    if "objects" in job:
        cc.serve(job["objects"])
    begin = last = time.monotonic()

    def progress(now_ns: int, live: methods.Live | None = None, /) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _TELL_EVERY_S:
            last = now
            seen = {} if live is None else {"live": live.to_json()}
            _tell(messages, {"type": "progress", "id": job["id"], "now_ns": now_ns, **seen})

    inside = Path(job["inside"]) if "inside" in job else None
    facts = job["manifest"]
    about = methods.About(run=Path(job["run"]), cell=job["id"], factors=facts["factors"], repeat=facts["repeat"])
    method.prepare(about)
    with CellWriter(Path(job["run"]), job["id"], inside) as cell:
        outcome = method.execute(job["plan"], cell, progress)
        if undeclared := sorted(cell.written - method.tables):
            raise methods.MethodError(
                f"method {job['method']!r} wrote the table {undeclared[0]}, which it does not declare"
            )
        wall_s = round(time.monotonic() - begin, 6)
        lacks_acks = method.lacks_acks(json.loads(job["plan"]))
        caveat = job.get("caveat")
        found = {
            "warnings": [
                *outcome.warnings,
                *([caveat] if caveat else []),
                *([f"the method {methods.NO_ACKS}"] if lacks_acks else []),
                *_partial(outcome),
            ],
            "stats": dict(outcome.stats),
            "wall_s": wall_s,
        }
        if outcome.notes:
            found["notes"] = list(outcome.notes)
        if unobserved := sorted({*methods.TABLES - method.tables, *(["acks"] if lacks_acks else [])}):
            found["unobserved"] = unobserved  # an empty table would read as nothing having happened
        finish = cell.commit if inside is None else cell.complete
        facts = {**job["manifest"], **found}
        if outcome.partial is not None:  # without its key, it is no result that a continued run takes over
            del facts["key"]
            facts["partial"] = outcome.partial
        finish(job["plan"], facts)
    return outcome, found


def _partial(outcome: methods.Outcome) -> list[str]:
    return [] if outcome.partial is None else [f"partial: {outcome.partial}"]


if __name__ == "__main__":
    main()

"""The process that executes cells beside a Dask worker: ``python -m weir.cluster.node``.

It reads jobs from standard input and writes messages to standard output, one JSON object per line, as a local worker
does; in between, it does what the parent of local workers does. It ends with its standard input, and takes a cell that
it executes with it. ``--facts METHOD`` prints what this installation is, and why METHOD cannot run here.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from typing import Any

import weir
from weir import _weir, engine, methods

__all__ = ["facts", "main"]


def main() -> None:
    """Executes jobs until standard input ends, or prints facts."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # output of a library must not become a message
    if sys.argv[1:2] == ["--facts"]:
        answers.write(json.dumps(facts(sys.argv[2])) + "\n")
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # its parent decides
    jobs: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    slot = engine.Slot()
    threading.Thread(target=_read, args=(jobs, slot), daemon=True).start()
    try:
        while (job := jobs.get()) is not None:
            for message in slot.execute(job):
                answers.write(json.dumps(message) + "\n")
    except BrokenPipeError:
        slot.kill()
    finally:
        slot.stop()


def _read(jobs: queue.SimpleQueue[dict[str, Any] | None], slot: engine.Slot) -> None:
    for line in sys.stdin:
        jobs.put(json.loads(line))
    slot.kill()
    jobs.put(None)


def facts(method: str) -> dict[str, Any]:
    """The versions that decide the bytes of a table, and why ``method`` cannot run here; ``None`` if it can."""
    import pyarrow as pa

    try:
        lacks = methods.get(method).available()
    except methods.MethodError as error:
        lacks = str(error)
    return {
        "weir": weir.__version__,
        "build": dict(_weir.build_info()),
        "pyarrow": pa.__version__,
        "lacks": lacks,
    }


if __name__ == "__main__":
    main()

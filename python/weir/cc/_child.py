"""The process that loads a congestion control to describe it: ``python -m weir.cc._child OBJECT RESULT RECORD SUITE``.

It is confined, and ends after one control. OBJECT is a shared object, or a file of Python. RESULT and RECORD are file
descriptors: of the pipe for the answer, and of the record of calls. SUITE is 1 if the control is also asked what every
control should do, and else 0. Standard output is not used for the answer, because the control may write to it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from weir import _weir, control


def main() -> None:
    """Loads, describes and tries the control, and answers."""
    shared, result, record = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    _weir.cc_watch_share(record)
    _weir.cc_permit_loading()
    try:
        answer = _python(shared) if control.is_python(shared) else _native(shared, suite=sys.argv[4] == "1")
    except (ValueError, control.UserError) as error:
        answer = {"error": str(error)}
    os.write(result, json.dumps(answer).encode())
    os._exit(0)


def _python(source: str) -> dict[str, Any]:
    return {"described": control.described(Path(source), source)}


def _native(shared: str, *, suite: bool) -> dict[str, Any]:
    described = json.loads(_weir.cc_describe(shared))
    answer: dict[str, Any] = {"described": {**described, "probes": _weir.cc_try(shared)}}
    if suite:
        answer["suite"] = _weir.cc_suite(shared)
    return answer


if __name__ == "__main__":
    main()

"""The process that loads a congestion control to describe it: ``python -m weir.cc._child OBJECT RESULT RECORD SUITE``.

It is confined, and ends after one control. RESULT and RECORD are file descriptors: of the pipe for the answer, and of
the record of calls. SUITE is 1 if the control is also asked what every control should do, and else 0. Standard output
is not used for the answer, because the control may write to it.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from weir import _weir


def main() -> None:
    """Loads, describes and tries the control, and answers."""
    shared, result, record = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    _weir.cc_watch_share(record)
    _weir.cc_permit_loading()
    try:
        described = json.loads(_weir.cc_describe(shared))
        answer: dict[str, Any] = {"described": {**described, "probes": _weir.cc_try(shared)}}
        if sys.argv[4] == "1":
            answer["suite"] = _weir.cc_suite(shared)
    except ValueError as error:
        answer = {"error": str(error)}
    os.write(result, json.dumps(answer).encode())
    os._exit(0)


if __name__ == "__main__":
    main()

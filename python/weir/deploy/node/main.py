"""Answers one question to a node: JSON on standard input, or as the first argument, and JSON on standard output."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable

from weir.deploy.node.base import Change, Refused
from weir.deploy.node.facts import do_address, do_controls, do_facts, do_sockets, do_ways
from weir.deploy.node.journal import do_apply, do_claim, do_lacking, do_restore, do_status, do_watch
from weir.deploy.node.programs import do_have, do_install, do_uninstall

__all__ = ["main"]

_ANSWERERS: tuple[Callable[[Change], Change], ...] = (
    *(do_claim, do_apply, do_lacking, do_restore, do_status, do_watch),
    *(do_have, do_install, do_uninstall),
    *(do_address, do_controls, do_facts, do_sockets, do_ways),
)
_QUESTIONS = {answerer.__name__[len("do_") :]: answerer for answerer in _ANSWERERS}


def main() -> None:
    """Answers one question, given as the first argument or on standard input."""
    asked = json.loads(sys.argv[1] if len(sys.argv) > 1 else sys.stdin.read())
    try:
        answer = _QUESTIONS[asked["do"]](asked)
    except Refused as error:
        answer = {"error": str(error), "needs": error.needs}
    except OSError as error:
        answer = {"error": f"{error.filename or asked['do']}: {error.strerror}", "needs": None}
    data = json.dumps(answer).encode() + b"\n"
    while data:
        data = data[os.write(1, data) :]


if __name__ == "__main__":
    main()

"""How long packets go to another machine and back: ``python _connect.py``, told in JSON by standard input.

For each address of ``to``, it opens TCP connections to a port, ``times`` one after another. It prints the shortest time
until the other side had accepted or refused one, ns; ``null``: it does neither. A connection is closed at once, and
nothing is sent in it. It needs Python 3.8 only, and no privilege.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time

__all__ = ["main"]

_PATIENCE_S = 2.0


def _ask(address: str, port: int, times: int) -> int | None:
    found = None
    for _ in range(times):
        begin = time.monotonic_ns()
        try:
            socket.create_connection((address, port), _PATIENCE_S).close()
        except ConnectionRefusedError:
            pass  # an answer, too
        except OSError:
            return None
        took = time.monotonic_ns() - begin
        found = took if found is None else min(found, took)
    return found


def main() -> None:
    """Answers one question."""
    asked = json.loads(sys.stdin.read())
    found = [_ask(address, asked["port"], asked["times"]) for address in asked["to"]]
    os.write(1, json.dumps(found).encode() + b"\n")


if __name__ == "__main__":
    main()

"""Runs cells in a process of its own, so that a test can kill it: ``drive.py OUT WORKERS METHOD TITLE...``."""

from __future__ import annotations

import sys
from pathlib import Path

import fake

from weir import engine


def main() -> int:
    out, workers, method, titles = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]
    try:
        result = engine.run(
            fake.scenario(*titles), Path(out), method=method, workers=workers, display=engine.display(verbose=True)
        )
    except engine.EngineError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(f"executed {result.executed}")
    return 1 if result.failures else 0


if __name__ == "__main__":
    sys.exit(main())

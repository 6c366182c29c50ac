"""Runs cells on a cluster in a process that a test can kill: ``drive_cluster.py OUT ADDRESS TITLE...``."""

from __future__ import annotations

import sys
from pathlib import Path

import fake

from weir import cluster, engine


def main() -> int:
    out, address, titles = sys.argv[1], sys.argv[2], sys.argv[3:]
    try:
        with cluster.connect(cluster.parse(f"dask:{address}")) as place:
            result = engine.run(
                fake.scenario(*titles), Path(out), method=fake.METHOD, place=place, display=engine.display(verbose=True)
            )
    except (engine.EngineError, cluster.ClusterError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(f"executed {result.executed}")
    return 1 if result.failures else 0


if __name__ == "__main__":
    sys.exit(main())

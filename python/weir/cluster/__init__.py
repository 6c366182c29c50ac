"""Executes the cells of a sweep on a cluster: Dask carries jobs to its workers and complete cells back.

    with cluster.connect(cluster.parse("dask:tcp://10.0.0.1:8786")) as place:
        engine.run(scenario, folder, method="sim", place=place)

A worker executes a cell as a local worker process does, so that the tables are the same bytes. The run's folder is
written here alone. ``docs/cluster.md`` has what a cluster needs, and whom it must trust.
"""

from __future__ import annotations

from weir.cluster._where import Where, connect, parse, refuse
from weir.cluster.errors import ClusterError

__all__ = ["ClusterError", "Where", "connect", "parse", "refuse"]

"""The value of ``--cluster``, and the way to the cluster that it names."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weir import methods
from weir.cluster.errors import ClusterError

if TYPE_CHECKING:
    from weir.cluster._workers import ClusterWorkers

__all__ = ["KINDS", "Where", "connect", "parse", "refusal", "refuse"]

KINDS = {"dask": "dask:ADDRESS", "slurm": "slurm[:PARTITION]", "ssh": "ssh:INVENTORY"}
"""The kinds of clusters, and how each is written."""
_INSTALL = "pip install 'weir[cluster]'"


@dataclass(frozen=True)
class Where:
    """A cluster that is there already, or that weir starts."""

    kind: str
    at: str
    """Address of a scheduler, name of a partition, or file of an inventory."""

    def __str__(self) -> str:
        return f"{self.kind}:{self.at}" if self.at else self.kind


def parse(text: str) -> Where:
    """The cluster that ``text`` names.

    Raises:
        ClusterError: it names none.
    """
    kind, _, at = text.partition(":")
    forms = ", ".join(KINDS.values())
    if kind not in KINDS:
        raise ClusterError(f"--cluster {text}: {kind!r} is no kind of cluster; there are: {forms}")
    if not at and "[" not in KINDS[kind]:
        raise ClusterError(f"--cluster {text}: expected {KINDS[kind]}")
    return Where(kind, at)


def refusal(method: methods.Method) -> str | None:
    """Why no plan can be executed on a cluster by ``method``: its clock is real; ``None`` if some can."""
    if method.clock == "real":
        return (
            f"method {method.name!r} cannot run on a cluster: its clock is real, so that each cell needs a machine "
            "that was measured and has nothing else to do; run it without --cluster"
        )
    return None


def refuse(name: str) -> None:
    """Raises weir.methods.UnfitMethodError if the method called ``name`` cannot run on a cluster."""
    if (why := refusal(methods.get(name))) is not None:
        raise methods.UnfitMethodError(why)


@contextlib.contextmanager
def connect(
    where: Where, workers: int | None = None, note: Callable[[str], None] | None = None
) -> Iterator[ClusterWorkers]:
    """The workers of a cluster; what weir starts for it ends with the context.

    Args:
        where: the cluster.
        workers: the largest number of cells at once; of ``slurm``, the number of jobs.
        note: receives remarks for people.

    Raises:
        ClusterError: it cannot be reached, or has no workers.
    """
    _require("distributed")
    if where.kind == "slurm":
        _require("dask_jobqueue")
    started = importlib.import_module(f"weir.cluster._{where.kind}")
    from weir.cluster._workers import ClusterWorkers

    with started.client(where.at, workers, note or (lambda _: None)) as client:
        yield ClusterWorkers(client, str(where), None if where.kind == "slurm" else workers)


def _require(module: str) -> None:
    """Raises ClusterError if the extra is not installed."""
    if importlib.util.find_spec(module) is None:
        raise ClusterError(f"a cluster needs the package {module}, which is not installed: {_INSTALL}")

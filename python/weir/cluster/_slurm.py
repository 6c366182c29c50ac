"""Workers that Slurm starts, as jobs of Dask's own making; they end with the run."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask
from distributed import Client, Security, Status

from weir import _cache
from weir.cluster._dask import connected
from weir.cluster.errors import ClusterError

__all__ = ["client"]

_JOBS = 4
"""Number of jobs without ``-j``."""
_LOOK_S = 5.0
_COMMAND_S = 60.0


@contextlib.contextmanager
def client(at: str, workers: int | None, note: Callable[[str], None]) -> Iterator[Client]:
    """A connection to ``workers`` jobs in the partition ``at``, or in the default one; waits for the first.

    What a job asks for is in the user's configuration of dask-jobqueue (``jobqueue.slurm``); without, it is one
    processor and 2 GB. The scheduler runs here, and speaks TLS with certificates for this run.

    Raises:
        ClusterError: Slurm refuses the jobs, or they end without a word.
    """
    if shutil.which("sbatch") is None:
        raise ClusterError("--cluster slurm: there is no `sbatch` here; run this where Slurm's commands are")
    jobs = workers or _JOBS
    with _folder() as folder, _ended(_cluster(at, folder)) as cluster:
        try:
            for _ in range(jobs):  # as `scale` does, which would not say what Slurm answers
                cluster.worker_spec.update(cluster.new_worker_spec())
            cluster.sync(cluster._correct_state)
        except (OSError, RuntimeError, ValueError) as error:
            raise ClusterError(f"--cluster slurm: Slurm refuses the jobs: {_reason(str(error))}") from None
        note(f"{jobs} jobs submitted to Slurm{f', partition {at}' if at else ''}; waiting for the first")
        with connected("slurm", address=cluster) as found:
            _await(found, cluster, folder)
            yield found


@contextlib.contextmanager
def _ended(cluster: Any) -> Iterator[Any]:
    """The cluster; its jobs and its scheduler end with the context.

    Dask wants each job to have ended by itself, and does not notice that it cancelled one or that one was never there.
    """
    try:
        yield cluster
    finally:
        for job in cluster._created:
            job.status = Status.failed
        cluster.close()


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """A folder for certificates and logs, which nodes must see: below the home, which they usually do."""
    shared = dask.config.get("jobqueue.slurm.shared-temp-directory", None)
    base = Path(shared).expanduser() if shared else _cache.base() / "cluster"
    base.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(prefix="slurm-", dir=base, ignore_cleanup_errors=True) as name:
        yield Path(name)


def _cluster(partition: str, folder: Path) -> Any:
    from dask_jobqueue.slurm import SLURMCluster

    def default(key: str, value: object) -> object:
        return value if dask.config.get(f"jobqueue.slurm.{key}", None) is None else None

    options: dict[str, Any] = {
        "queue": partition or None,
        "cores": default("cores", 1),
        "memory": default("memory", "2GB"),
    }
    return SLURMCluster(
        **options,
        processes=default("processes", 1),
        local_directory=default("local-directory", "/tmp"),
        security=_security(folder),
        protocol="tls://",
        shared_temp_directory=str(folder),
        log_directory=str(folder),
        job_name="weir",
        scheduler_options={"dashboard": False, **dask.config.get("jobqueue.slurm.scheduler-options", {})},
    )


def _security(folder: Path) -> Security:
    """Certificates for this run, in files that jobs read."""
    made = Security.temporary()
    roles = ("scheduler", "worker", "client")
    held = {f"tls_{role}_{part}": getattr(made, f"tls_{role}_{part}") for role in roles for part in ("cert", "key")}
    places = {}
    for name, content in {"tls_ca_file": made.tls_ca_file, **held}.items():
        place = places[name] = folder / f"{name}.pem"
        place.touch(mode=0o600)
        place.write_text(str(content), encoding="ascii")
    return Security(require_encryption=True, **{name: str(place) for name, place in places.items()})


def _await(found: Client, cluster: Any, folder: Path) -> None:
    """Waits for a worker as long as a job waits or runs."""
    while True:
        with contextlib.suppress(TimeoutError):
            found.wait_for_workers(1, timeout=_LOOK_S)
            return
        ids = [worker.job_id for worker in cluster.workers.values() if getattr(worker, "job_id", None)]
        if not _known(ids):
            raise ClusterError(f"--cluster slurm: the jobs ended before a worker was there{_last_words(folder)}")


def _known(ids: list[str]) -> bool:
    """Whether one of the jobs waits or runs."""
    command = ["squeue", "--noheader", "--states=PD,CF,R,S", f"--jobs={','.join(ids)}", "--format=%i"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_COMMAND_S, check=False)
    return done.returncode != 0 or bool(done.stdout.strip())  # one that does not answer says nothing


def _last_words(folder: Path) -> str:
    for log in sorted(folder.glob("*.err")):
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        if lines:
            return f": {lines[-1].strip()}"
    return "; does a job see this machine's files, and is Python there?"


def _reason(text: str) -> str:
    """What sbatch said, of dask-jobqueue's long error."""
    found = re.search(r"stderr:\s*\n(.+)", text)
    return (found[1] if found else text.splitlines()[0] if text else "it said nothing").strip()

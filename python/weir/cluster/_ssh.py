"""Workers on the nodes of an inventory, started over SSH; they end with the run, and when its connection does."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from distributed import Client, LocalCluster, Security

from weir.cluster._dask import connected
from weir.cluster.errors import ClusterError
from weir.hosts.place import PlaceError, Running
from weir.hosts.relay import Relay
from weir.hosts.ssh import connect_all
from weir.inventory import InventoryError, Node, load

__all__ = ["client"]

_WORKERS_S = 60.0
_LOOK_S = 1.0
_PROBE = """
import json, os, sys
try:
    import distributed
except ImportError:
    print(json.dumps({"lacks": "distributed"}))
else:
    print(json.dumps({"ssh": os.environ.get("SSH_CONNECTION", ""), "cpus": len(os.sched_getaffinity(0))}))
"""


@contextlib.contextmanager
def client(at: str, workers: int | None, note: Callable[[str], None]) -> Iterator[Client]:
    """A connection to one worker on each node of the inventory ``at``, with a thread for each processor.

    The scheduler runs here; nodes reach it at the address from which ``ssh`` came. All speak TLS with certificates for
    this run.

    Raises:
        ClusterError: the inventory is unfit, a node cannot be reached, or its worker does not come.
    """
    nodes = _nodes(at)
    security = Security.temporary()
    with contextlib.ExitStack() as stack:
        connections = stack.enter_context(connect_all(nodes))
        if connections.failed:
            said = "; ".join(f"{name}: {error}" for name, error in connections.failed.items())
            raise ClusterError(f"--cluster ssh:{at}: {said}")
        cluster = stack.enter_context(
            LocalCluster(
                n_workers=0,
                host="0.0.0.0",
                protocol="tls://",
                security=security,
                dashboard_address=None,
                silence_logs=False,
            )
        )
        port = cluster.scheduler.port
        with ThreadPoolExecutor(len(nodes)) as threads:
            starts = [threads.submit(_start, connections.places[node.name], node, port, security) for node in nodes]
        processes = {node.name: start.result() for node, start in zip(nodes, starts, strict=True)}
        for process in processes.values():
            stack.callback(process.kill)
        found = stack.enter_context(connected(f"ssh:{at}", address=cluster))
        _await(found, processes)
        yield found


def _nodes(at: str) -> tuple[Node, ...]:
    try:
        inventory = load(Path(at))
    except InventoryError as error:
        raise ClusterError(str(error)) from None
    if inventory.unreserved:
        names = ", ".join(one.alias for one in inventory.unreserved)
        raise ClusterError(
            f"--cluster ssh:{at}: the nodes of {names} are to be reserved; name them with `nodes` instead"
        )
    return inventory.nodes


def _start(place: Relay, node: Node, port: int, security: Security) -> Running:
    """Starts a worker on ``node``.

    Raises:
        ClusterError: it has no Python with Dask.
    """
    try:
        python, about = _python(place, node)
        here, _, there = about["ssh"].split()[:3]
        files = _certificates(place, security)
        return place.start(
            [
                *(python, "-m", "distributed.cli.dask_worker", f"tls://{_bracketed(here)}:{port}"),
                *("--name", node.name, "--host", there, "--nthreads", str(about["cpus"])),
                *(
                    "--no-nanny",
                    "--no-dashboard",
                    "--local-directory",
                    place.folder,
                    "--death-timeout",
                    f"{_WORKERS_S:.0f}",
                ),
                *(word for option, path in files.items() for word in (option, path)),
            ]
        )
    except (PlaceError, ValueError, KeyError) as error:
        raise ClusterError(f"no worker can be started on {node.name}: {error}") from None


def _python(place: Relay, node: Node) -> tuple[str, Mapping[str, Any]]:
    """A Python of the node that has Dask: this one's path, if the node has it, or the inventory's."""
    for python in (sys.executable, node.python):
        ran = place.run([python, "-c", _PROBE])
        if ran.code == 0 and "lacks" not in (about := json.loads(ran.out)):
            return python, about
    raise ClusterError(
        f"{node.name} has no Python with Dask: neither {sys.executable} nor {node.python} there can import "
        "distributed; `pip install 'weir[cluster]'` there, and name that Python with `python` in the inventory"
    )


def _certificates(place: Relay, security: Security) -> dict[str, str]:
    """Writes the certificates of workers into the connection's folder, which ends with it."""
    held = security.get_tls_config_for_role("worker")
    options = {"ca_file": "--tls-ca-file", "cert": "--tls-cert", "key": "--tls-key"}
    return {option: place.put(f"tls-{key}.pem", str(held[key]).encode()) for key, option in options.items()}


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def _await(found: Client, processes: Mapping[str, Running]) -> None:
    """Waits for all workers.

    Raises:
        ClusterError: one ended, or does not come.
    """
    deadline = time.monotonic() + _WORKERS_S
    while True:
        with contextlib.suppress(TimeoutError):
            found.wait_for_workers(len(processes), timeout=_LOOK_S)
            return
        for name, process in processes.items():
            if process.poll() is not None:
                raise ClusterError(f"the worker on {name} ended: {_last_words(process)}")
        if time.monotonic() > deadline:
            there = {info["name"] for info in found.scheduler_info(n_workers=-1)["workers"].values()}
            missing = ", ".join(sorted(set(processes) - there))
            raise ClusterError(
                f"no worker came from {missing} in {_WORKERS_S:.0f} s: can it reach this machine at the address from "
                "which `ssh` comes, on any port?"
            )


def _last_words(process: Running) -> str:
    said = process.stderr.read() if process.stderr is not None else b""
    lines = [line for line in said.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else f"with status {process.poll()}, without a word"

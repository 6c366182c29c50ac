"""A Dask cluster that is there already: the scheduler at an address, or in a file that names it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

from distributed import Client

from weir.cluster.errors import ClusterError

__all__ = ["client", "connected"]

_CONNECT_S = 5.0
_WORKERS_S = 10.0


@contextlib.contextmanager
def client(at: str, workers: int | None, note: Callable[[str], None]) -> Iterator[Client]:
    """A connection to the scheduler at ``at``; nothing of the cluster ends with it.

    ``tls://`` takes certificates from the user's configuration of Dask.

    Raises:
        ClusterError: nobody answers there, or there are no workers.
    """
    with connected(f"dask:{at}", **_address(at)) as found:
        try:
            found.wait_for_workers(1, timeout=_WORKERS_S)
        except TimeoutError:
            raise ClusterError(f"the Dask cluster at {at} has no workers; start some") from None
        yield found


def _address(at: str) -> dict[str, str]:
    return {"scheduler_file": at} if at.endswith(".json") else {"address": at}


@contextlib.contextmanager
def connected(called: str, **options: object) -> Iterator[Client]:
    """A connection to a scheduler, by ``options`` of :class:`distributed.Client`.

    Raises:
        ClusterError: nobody answers there.
    """
    _quieten()
    if (file := options.get("scheduler_file")) is not None and not Path(str(file)).is_file():
        raise ClusterError(f"--cluster {called}: there is no file {file}; expected what `dask scheduler` writes")
    try:
        found = Client(**options, timeout=_CONNECT_S, set_as_default=False, name="weir")
    except (ValueError, TypeError) as error:  # an address or certificates that Dask does not take
        raise ClusterError(f"--cluster {called}: {_short(error)}") from None
    except Exception as error:  # a connection fails in many ways
        raise ClusterError(f"--cluster {called}: no Dask scheduler answers there: {_short(error)}") from None
    try:
        yield found
    finally:
        with contextlib.suppress(OSError, TimeoutError):
            found.close(timeout=_CONNECT_S)


def _short(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _quieten() -> None:
    """Dask's own reports of lost connections are for its operators; weir says what they mean for the run."""
    for name in (
        "distributed",
        "distributed.client",
        "distributed.core",
        "distributed.comm",
        "tornado.application",
        "asyncio",
    ):
        logging.getLogger(name).setLevel(logging.CRITICAL)

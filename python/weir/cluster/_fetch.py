"""Brings complete cells from workers into the folder of their run, in pieces of a bounded size."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from distributed import Client, Future

from weir import engine
from weir._files import sync_folder
from weir._remove import remove_quietly
from weir.cluster import _far
from weir.cluster._cargo import PIECE_BYTES, Carried

__all__ = ["Fetcher", "LostError"]

_PIECE, _CLEAR = Carried(_far.piece), Carried(_far.clear)
_ANSWER_S = 120.0


class LostError(Exception):
    """A cell did not arrive; another worker may execute it. The message says whose fault it is."""

    def __init__(self, text: str, *, agentless: bool = False) -> None:
        super().__init__(text)
        self.agentless = agentless
        """Whether the worker lives and has no agent any more."""


class Fetcher:
    """Fetches cells; several threads may."""

    def __init__(self, client: Client, agent: str) -> None:
        self._client = client
        self._agent = agent
        self._numbers = itertools.count()

    def fetch(self, future: Future[Any], worker: str, job: Mapping[str, Any]) -> engine.Message:
        """Puts the cell of an ended task in its place; returns the last message about it.

        Raises:
            LostError: the worker was lost, or what came from it is not the cell.
            OSError: the cell cannot be written.
        """
        answer = self._answer(future, worker)
        if answer.get("lacking"):
            raise LostError(f"worker {worker} forgot this run", agentless=True)
        message: engine.Message = answer["message"]
        if message["type"] != "done":
            if message["kind"] == "disk_full":
                message = {**message, "kind": "io", "error": f"worker {worker}: {message['error']}"}
            return message
        folder = Path(job["run"]) / engine.PARTIAL / f"fetched-{os.getpid()}-{next(self._numbers)}"
        try:
            self._write(folder / job["id"], answer, worker)
            engine.deliver(folder / job["id"], job, verify=True)
        except engine.DeliveryError as error:
            raise LostError(f"worker {worker} left {error}") from error
        except OSError as error:
            if engine.is_disk_full(error):
                return {"type": "failed", "id": job["id"], "kind": "disk_full", "error": str(error), "trace": ""}
            raise
        finally:
            remove_quietly(folder)
        if "content" not in answer:
            with contextlib.suppress(Exception):  # the agent's end removes it, too
                self._client.run(_CLEAR, self._agent, answer["folder"], workers=[worker], on_error="ignore")
        return message

    def _answer(self, future: Future[Any], worker: str) -> Mapping[str, Any]:
        try:
            answer: Mapping[str, Any] = future.result(timeout=_ANSWER_S)
        except Exception as error:  # whatever Dask makes of the end of a worker
            raise LostError(f"worker {worker} gave no answer ({type(error).__name__}: {error})") from error
        finally:
            future.release()
        return answer

    def _write(self, folder: Path, answer: Mapping[str, Any], worker: str) -> None:
        """Writes the files of a cell into ``folder``.

        Raises:
            LostError: they did not arrive.
            OSError: one cannot be written.
        """
        folder.mkdir(parents=True)
        for name, size in answer["files"].items():
            if not _is_inside(name):
                raise LostError(f"worker {worker} left a file called {name!r}, which is no name of a cell's file")
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                if "content" in answer:
                    file.write(answer["content"][name])
                else:
                    for offset in range(0, size, PIECE_BYTES):
                        file.write(self._piece(worker, answer["folder"], name, offset))
                file.flush()
                os.fsync(file.fileno())
        sync_folder(folder)

    def _piece(self, worker: str, folder: str, name: str, offset: int) -> bytes:
        try:
            got = self._client.run(_PIECE, self._agent, folder, name, offset, PIECE_BYTES, workers=[worker])
        except Exception as error:
            raise LostError(f"worker {worker} was lost ({type(error).__name__})") from error
        content: bytes = got[worker]
        return content


def _is_inside(name: str) -> bool:
    """Whether ``name`` is a relative path without ``..``, as a cell's files have."""
    parts = Path(name).parts
    return bool(parts) and Path(*parts).as_posix() == name and not {"/", ".."} & {*parts}

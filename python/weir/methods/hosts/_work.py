"""The stages of one run on machines: what is carried out is written down, and the inventory's hooks are called."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from weir._inside import FILE, Folder
from weir.deploy import KernelLog
from weir.inventory import Inventory
from weir.methods import About, Sink
from weir.stages import Hooks, keep, remains
from weir.stages.tasks import Tasks

__all__ = ["Work"]

_MOST_LOG_BYTES = 1 << 20


class Work:
    """The stages of one run."""

    def __init__(self, run: Path | None) -> None:
        """Does nothing yet; ``run`` is the folder of the run, if there is one."""
        self.run = run
        self.tasks = Tasks(run)
        self.about: About | None = None
        """The cell."""
        self._hooks: Hooks | None = None

    @property
    def deployed(self) -> bool:
        """Whether the hooks of stage ``deploy`` have been called."""
        return self._hooks is not None

    @contextlib.contextmanager
    def stage(self, name: str, nodes: Sequence[str]) -> Iterator[None]:
        """A stage of the cell."""
        with self.tasks.task(name, nodes=nodes, cell=None if self.about is None else self.about.cell):
            yield

    def deploy(self, inventory: Inventory, scenario: str) -> None:
        """Calls the hooks of stage ``deploy``. Before, undoes what a lost run has left of the same inventory.

        Raises:
            HookError: one has failed.
        """
        for remain in remains.find(inventory.file):
            if not remain.alive and not remain.kept:
                remain.clean()
        self._hooks = Hooks(inventory, scenario=scenario, run=self.run)
        done = self._hooks.call("deploy")
        if self.run is not None and done:
            with Folder(self.run) as folder:
                keep(done, "hooks/deploy.json", folder)

    def keep_logs(self, logs: Mapping[str, KernelLog]) -> None:
        """Keeps the messages of the nodes' kernels in the folder of the run: a file a node, and ``logs/kernel.json``.

        A run that is continued adds to them. A disk that is full costs them, and nothing else.
        """
        if self.run is None or not logs:
            return
        about = {
            name: {"bytes": len(log.text.encode()), "left_out": log.left_out, "why": log.why}
            for name, log in sorted(logs.items())
        }
        with contextlib.suppress(OSError), Folder(self.run) as folder, folder.inner("logs", make=True) as inner:
            for name, log in logs.items():
                if log.text:
                    file = f"{name}.kernel.txt"
                    before = inner.read(file, _MOST_LOG_BYTES) if inner.expect(file, FILE) else b""
                    inner.write(file, (before + log.text.encode())[-_MOST_LOG_BYTES:], durable=False)
            inner.write("kernel.json", (json.dumps(about, indent=1) + "\n").encode(), durable=False)

    def call(self, stage: str, sink: Sink) -> None:
        """Calls the hooks of ``stage`` for the cell; keeps in it what they answer.

        Raises:
            HookError: one has failed.
            OSError: an answer cannot be written.
        """
        assert self._hooks is not None
        keep(self._hooks.call(stage, self._cell()), f"hooks/{stage}.json", sink)

    def clean(self) -> None:
        """Undoes what hooks have done, and calls those of stage ``clean``.

        Raises:
            HookError: some could not be undone.
        """
        if self._hooks is not None:
            self._hooks.clean()

    def _cell(self) -> Mapping[str, Any] | None:
        about = self.about
        return None if about is None else {"id": about.cell, "repeat": about.repeat, "factors": dict(about.factors)}

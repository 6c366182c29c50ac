"""The hooks of one run: called in the order of the inventory, and undone in the opposite order."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.inventory import Inventory
from weir.stages._call import Program, call
from weir.stages._contract import Answer, question
from weir.stages._records import Entry, Record, records
from weir.stages.errors import HookError

__all__ = ["Done", "Hooks", "undo"]


@dataclass(frozen=True)
class Done:
    """A hook that has succeeded."""

    stage: str
    number: int
    """Its place among the hooks of its stage, from 1."""
    command: tuple[str, ...]
    seconds: float
    answer: Answer

    @property
    def folder(self) -> str:
        """Where its files are kept, within the folder of the cell or run."""
        return f"hooks/{self.stage}-{self.number}"

    def to_json(self) -> dict[str, Any]:
        """What is kept of it besides its files."""
        return {
            "stage": self.stage,
            "command": list(self.command),
            "seconds": round(self.seconds, 3),
            "facts": dict(self.answer.facts),
            "files": [f"{self.folder}/{name}" for name in self.answer.files],
        }


class Hooks:
    """The hooks of an inventory, for one run."""

    def __init__(
        self, inventory: Inventory, *, scenario: str = "", run: Path | None = None, kept: bool = False
    ) -> None:
        """Calls nothing yet.

        Args:
            inventory: With the nodes that were reserved.
            scenario: The title of the scenario.
            run: The folder of the run.
            kept: Whether what is to be undone outlives this process, until ``weir hosts clean``.
        """
        self._inventory = inventory
        self._folder = str(Path(inventory.file).absolute().parent)
        asked = question(inventory, scenario=scenario, run=run)
        before = next((one for one in records(inventory.file) if one.kept), None) if kept else None
        self._record = before or Record.new(asked, kept=kept)
        self._record.question = asked
        self._expected = before is not None

    def call(self, stage: str, cell: Mapping[str, Any] | None = None) -> list[Done]:
        """Calls the hooks of ``stage``, one after another.

        Args:
            stage: ``deploy``, ``configure`` or ``collect``.
            cell: The cell: ``id``, ``repeat`` and ``factors``.

        Raises:
            HookError: one has failed; those after it are not called. What was done stays to be undone (:meth:`clean`).
        """
        hooks = self._inventory.hooks.get(stage, ())
        if hooks:
            self._expect_clean()
        return [
            self._one(Program(hook.command, self._folder, hook.limit_s), stage, number, cell)
            for number, hook in enumerate(hooks, 1)
        ]

    def clean(self) -> None:
        """Undoes what was done, the last first, and then calls the hooks of stage ``clean``.

        Raises:
            HookError: some could not be undone; the record of those stays, for ``weir clean --on``.
        """
        self._expect_clean()
        undo(self._record)

    def _one(self, program: Program, stage: str, number: int, cell: Mapping[str, Any] | None) -> Done:
        entry = Entry(program, stage, cell=cell)
        self._record.add(entry)
        about = {} if cell is None else {"cell": dict(cell)}
        begun = time.monotonic()
        try:
            answer = call(program, stage, {**self._record.question, **about})
        except HookError as error:
            if error.answer is not None and error.answer.undo is not None:
                self._record.renew(entry, error.answer.undo)
            raise
        self._record.renew(entry, answer.undo)
        return Done(stage, number, program.command, time.monotonic() - begun, answer)

    def _expect_clean(self) -> None:
        """Writes down, before anything else, what is called at the end in any case."""
        if self._expected:
            return
        self._expected = True
        for hook in reversed(self._inventory.hooks.get("clean", ())):
            self._record.add(Entry(Program(hook.command, self._folder, hook.limit_s), "clean"))


def undo(record: Record) -> None:
    """Undoes what a record says, the last first; removes it when nothing is left.

    Raises:
        HookError: some could not be undone; the others are. The record has those that are left.
    """
    failed: list[str] = []
    for entry in reversed(record.entries):
        about = {} if entry.cell is None else {"cell": dict(entry.cell)}
        asked = {**record.question, **about, "undo": None if entry.undo is None else dict(entry.undo)}
        try:
            call(entry.program, "clean", asked)
        except HookError as error:
            failed.append(str(error))
        else:
            record.drop(entry)
    if failed:
        raise HookError(f"{'; '.join(failed)}. `weir clean --on {record.inventory}` tries again")
    record.remove()

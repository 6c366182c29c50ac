"""What hooks of runs that are no more have to undo: for ``weir clean --on``, and for the next run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from weir.stages import tasks
from weir.stages._hooks import undo
from weir.stages._records import Record, records

__all__ = ["Remain", "find"]


@dataclass(frozen=True)
class Remain:
    """What is to be undone for one run."""

    record: Record

    @property
    def alive(self) -> bool:
        """Whether a process that runs undoes it at its end."""
        return self.record.alive and not self.kept

    @property
    def kept(self) -> bool:
        """Whether a user called the stages alone, and wants it until they clean."""
        return self.record.kept

    @property
    def run(self) -> Path | None:
        """The folder of the run."""
        return self.record.run

    def lines(self) -> list[str]:
        """What is to be called, in this order, for people."""
        return [f"{entry.program} ({_why(entry.stage)})" for entry in reversed(self.record.entries)]

    def clean(self) -> None:
        """Undoes it, and says so in the folder of the run, if that is still there.

        Raises:
            HookError: some could not be undone.
        """
        run = None if self.run is None or not self.run.is_dir() else self.run
        if run is not None:
            tasks.interrupt(run)
        with tasks.Tasks(run, fresh=False).task("clean"):
            undo(self.record)


def find(inventory: Path | str) -> list[Remain]:
    """All that is to be undone for an inventory, the youngest first."""
    return [Remain(record) for record in records(inventory)]


def _why(stage: str) -> str:
    return "stage clean" if stage == "clean" else f"undoes stage {stage}"

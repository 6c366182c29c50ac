"""Progress display of a run: a bar on a terminal, lines in a log, nothing with ``-q``."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Protocol

from weir._duration import clock_text
from weir._terminal import error_console, say
from weir.engine import _live
from weir.engine._tally import Tally

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

__all__ = ["Bar", "Display", "Lines", "Quiet", "display"]

_LINE_EVERY_S = 10.0
_BAR_EVERY_S = 0.1
_OTHER_LINES = 12
"""Lines of a terminal reserved for links, the bar and earlier output."""


class Display(Protocol):
    """A progress display."""

    def begin(self, tally: Tally) -> None:
        """The run begins; ``tally`` is kept up to date."""

    def update(self, tally: Tally) -> None:
        """Called periodically."""

    def note(self, text: str) -> None:
        """Shows a remark."""

    def ended(self, cell: str, wall_s: float | None, tally: Tally) -> None:
        """A cell ended; ``wall_s`` is ``None`` if it failed."""

    def close(self) -> None:
        """The run has ended."""


def _state(tally: Tally) -> str:
    now = time.monotonic()
    if tally.live is not None:
        return f"{tally.done + tally.failed}/{tally.total} cells, {_live.line(tally.live)}"
    cells, left = f"{tally.done + tally.failed}/{tally.total} cells", f"{clock_text(tally.left_s(now))} left"
    if tally.real:
        return f"{cells}, {tally.reached_s:.4g} s measured, {left}"
    return f"{cells}, {tally.reached_s:.4g} s simulated, {tally.real_time_factor(now):.3g} x real time, {left}"


def _short(tally: Tally) -> str:
    """The state in short, beside a display of the flows."""
    if tally.live is None:
        return _state(tally)
    done = f"{tally.live.now_ns / 1e9:.1f} of {tally.live.end_ns / 1e9:g} s"
    return f"{tally.done + tally.failed}/{tally.total} cells, {done}, {clock_text(tally.left_s(time.monotonic()))} left"


class Quiet:
    """Shows notes only."""

    def begin(self, tally: Tally) -> None:
        """Does nothing."""

    def update(self, tally: Tally) -> None:
        """Does nothing."""

    def note(self, text: str) -> None:
        """Prints a line on standard error."""
        say(text, err=True)

    def ended(self, cell: str, wall_s: float | None, tally: Tally) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""


class Lines(Quiet):
    """A line now and then, for logs; with ``verbose``, also one per cell."""

    def __init__(self, *, verbose: bool = False) -> None:
        """Prints on standard error."""
        self._verbose = verbose
        self._last = time.monotonic()

    def update(self, tally: Tally) -> None:
        """Prints the state every ten seconds."""
        if time.monotonic() - self._last >= _LINE_EVERY_S:
            self._last = time.monotonic()
            self.note(_state(tally))

    def ended(self, cell: str, wall_s: float | None, tally: Tally) -> None:
        """Prints the cell, if verbose."""
        if self._verbose and wall_s is not None:
            self.note(f"{cell}: done in {clock_text(wall_s)}")


class Bar:
    """A bar at the bottom of a terminal; above it, for methods with a real clock, the current state of the flows."""

    def __init__(self, console: Console, *, verbose: bool = False) -> None:
        """Draws on ``console``."""
        from rich.live import Live
        from rich.progress import BarColumn, Progress, TextColumn

        self._console = console
        self._verbose = verbose
        self._last = 0.0
        self._progress = Progress(BarColumn(bar_width=30), TextColumn("{task.description}"), console=console)
        self._task = self._progress.add_task("", total=1.0)
        self._screen = Live(self._progress, console=console, transient=True, refresh_per_second=8)

    def begin(self, tally: Tally) -> None:
        """Draws the bar."""
        self._screen.start()
        self.update(tally)

    def update(self, tally: Tally) -> None:
        """Advances the bar."""
        now = time.monotonic()
        if now - self._last >= _BAR_EVERY_S:
            self._last = now
            self._progress.update(self._task, completed=tally.fraction, description=_short(tally))
            self._screen.update(self._drawing(tally))

    def note(self, text: str) -> None:
        """Prints a line above the bar."""
        self._console.print(text, markup=False, highlight=False)

    def ended(self, cell: str, wall_s: float | None, tally: Tally) -> None:
        """Prints the cell, if verbose, and advances the bar."""
        if self._verbose and wall_s is not None:
            self.note(f"{cell}: done in {clock_text(wall_s)}")
        self._last = 0.0
        self.update(tally)

    def close(self) -> None:
        """Removes the bar."""
        self._screen.stop()

    def _drawing(self, tally: Tally) -> RenderableType:
        from rich.console import Group

        if tally.live is None:
            return self._progress
        return Group(_live.screen(tally.live, self._console.height - _OTHER_LINES), self._progress)


def display(*, quiet: bool = False, verbose: bool = False) -> Display:
    """The display that fits standard error."""
    if quiet:
        return Quiet()
    if not sys.stderr.isatty():
        return Lines(verbose=verbose)
    return Bar(error_console(), verbose=verbose)

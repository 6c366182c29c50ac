"""Output for people: the only way to a terminal, on which no text from a file can control the terminal.

Titles, names, messages of kernels and of programs come from files of others. A terminal obeys control characters in
them: it changes its title, hides a line, writes another. So all output passes :func:`shown`, through :func:`say` or a
console of :func:`console`; a test of the repository enforces this.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterable, Sequence
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["console", "error_console", "json_shown", "prepare", "say", "shown", "stray"]

# Control characters (C0 without tab and line feed, DEL, C1), line separators, bidirectional controls, and surrogates,
# with which Python represents undecodable bytes of a file name.
_ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def shown(text: str) -> str:
    r"""``text`` with terminal controls escaped: ``\x1b``, ``\u202e``; undecodable bytes as ``\xff``."""
    return _ACTING.sub(lambda found: _written(found.group()), text)


def _written(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def json_shown(text: str) -> str:
    """JSON with the same characters as JSON escapes, so that its meaning is unchanged."""
    return _ACTING.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def say(text: str = "", *, err: bool = False, end: str = "\n") -> None:
    """Prints lines on standard output, or standard error."""
    print(shown(text), file=sys.stderr if err else sys.stdout, end=end, flush=err)


@functools.cache
def console() -> Console:
    """Standard output: coloured and as wide as the terminal; plain and never cut if it is no terminal."""
    return _console(sys.stdout)


@functools.cache
def error_console() -> Console:
    """Standard error, as :func:`console`."""
    return _console(sys.stderr)


def _console(stream: IO[str]) -> Console:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class Careful(Console):
        """A console that escapes its output, and tolerates a reader that goes away."""

        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            """The segments of ``renderable``; those that are rich's own controls stay."""
            for segment in super().render(renderable, options):
                yield segment if segment.control or segment.text == "\r" else segment._replace(text=shown(segment.text))

        def on_broken_pipe(self) -> None:
            """rich would end the process with 1, which means that a claim failed."""
            raise BrokenPipeError

    width = None if stream.isatty() else 10_000
    return Careful(file=stream, width=width, highlight=False, markup=False, emoji=False, soft_wrap=not stream.isatty())


def prepare() -> None:
    """Lets standard output and error replace characters that their encoding lacks, such as `µ` in ASCII."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def stray(words: Sequence[str]) -> str | None:
    """The first word of a command line that is not UTF-8; words after ``--`` belong to another program."""
    ours = words[: words.index("--")] if "--" in words else words
    return next((word for word in ours if any(0xD800 <= ord(c) <= 0xDFFF for c in word)), None)

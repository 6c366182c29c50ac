"""Problems of a file: their places, messages, and collection.

A parser that stops at the first mistake wastes its user's time; this module lets one pass report all.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Literal, TypeVar

__all__ = [
    "NOWHERE",
    "SCENARIO",
    "About",
    "Enough",
    "Invalid",
    "Log",
    "Mark",
    "Problem",
    "ProblemsError",
    "Severity",
    "choose",
    "folded",
    "gather",
    "listing",
]

T = TypeVar("T")
Severity = Literal["error", "warning", "info"]
_ORDER: dict[Severity, int] = {"error": 0, "warning": 1, "info": 2}
_MAX_NAMES = 16
_MAX_COMPARED = 500
_MAX_PROBLEMS = 200
_NUMBERS = re.compile(r"[0-9][0-9.e+]*[a-zA-Z]*")


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A place in a text: line and column, both from 1; the column counts characters.

    ``file`` is set only for text outside the file itself, such as a value on the command line.
    """

    line: int
    column: int
    file: str = ""

    def base(self, folder: str) -> str:
        """The folder that relative paths at this mark refer to: ``folder`` in the file itself; the working
        directory for the command line.
        """
        return "" if self.file else folder

    def shifted(self, columns: int) -> Mark:
        """The mark ``columns`` to the right on the same line."""
        return Mark(self.line, self.column + columns, self.file)


NOWHERE = Mark(1, 1)


@dataclass(frozen=True, slots=True)
class Problem:
    """An error, warning or note about a file."""

    file: str
    line: int
    column: int
    message: str
    severity: Severity = "error"

    def __str__(self) -> str:
        kind = "" if self.severity == "error" else f"{self.severity}: "
        return f"{self.file}:{self.line}:{self.column}: {kind}{self.message}"


class ProblemsError(ValueError):
    """A file cannot be used; ``problems`` has every reason, in the order of the file (warnings included)."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(str(p) for p in self.problems))


class Invalid(Exception):  # noqa: N818 - control flow inside the parser, never seen outside
    """A value could not be parsed; the log already has the reason."""


class Enough(Exception):  # noqa: N818 - like Invalid
    """Too many problems: checking ends here."""


@dataclass(frozen=True, slots=True)
class About:
    """What a kind of file is called in messages."""

    a: str
    all: str
    keys: str
    """The keys that one must have."""


SCENARIO = About("a scenario", "scenarios", "`title`, `topology`, `workload`")


class Log:
    """Collects problems of one file, each once; ends the check with ``Enough`` when there are too many."""

    def __init__(self, file: str, about: About = SCENARIO) -> None:
        self.file = file
        self.about = about
        self.work = 0
        """Cost of checking so far, in units of about 25 us: a value read, a link, a flow, ten draws, 50 steps of the
        search for paths, or 100 links of paths."""
        self._errors: dict[Problem, None] = {}
        self._notes: dict[Problem, None] = {}
        self._outlines: set[tuple[int, int, str]] = set()

    def error(self, mark: Mark, message: str) -> Invalid:
        """Records an error and returns the exception to ``raise`` if parsing cannot go on."""
        self._add(mark, message, "error")
        return Invalid(message)

    def warn(self, mark: Mark, message: str) -> None:
        """Records a warning: the file is usable, but may not do what its author expects."""
        self._add(mark, message, "warning")

    def info(self, mark: Mark, message: str) -> None:
        """Records a note: nothing is wrong, but a reader of the results should know."""
        self._add(mark, message, "info")

    def extend(self, other: Log) -> None:
        """Adds the problems of a cell, except notes that differ from an existing one only in numbers."""
        for problem in other._errors:
            self._put(problem)
        for problem in other._notes:
            outline = (problem.line, problem.column, _NUMBERS.sub("", problem.message))
            if outline not in self._outlines:
                self._outlines.add(outline)
                self._put(problem)

    def _add(self, mark: Mark, message: str, severity: Severity) -> None:
        line = message.replace("\n", "\\n")  # quoted text may have line breaks, a problem is one line
        self._put(Problem(mark.file or self.file, mark.line, mark.column, line, severity))

    def _put(self, problem: Problem) -> None:
        kind = self._errors if problem.severity == "error" else self._notes
        if len(kind) < _MAX_PROBLEMS:
            kind[problem] = None
        elif problem.severity == "error":
            text = f"there are more than {_MAX_PROBLEMS} errors; what follows was not checked"
            kind[Problem(problem.file, problem.line, problem.column, text)] = None
            raise Enough

    @property
    def failed(self) -> bool:
        """Whether an error was recorded."""
        return bool(self._errors)

    @property
    def problems(self) -> list[Problem]:
        """All problems in the order of the file."""
        found = (*self._errors, *self._notes)
        return sorted(found, key=lambda p: (p.file != self.file, p.file, p.line, p.column, _ORDER[p.severity]))


def folded(name: str) -> str:
    """Normalises a name: lower case, underscores for hyphens."""
    return name.casefold().replace("-", "_")


_MEANT = {
    "bandwidth": ("rate",),
    "buffer": ("queue", "buffers"),
    "capacity": ("rate",),
    "congestion": ("cc",),
    "congestion_control": ("cc",),
    "flows": ("workload",),
    "latency": ("delay", "rtt"),
    "network": ("topology",),
    "repeats": ("repeat",),
    "repetitions": ("repeat",),
    "tcp": ("transport",),
    "traffic": ("workload",),
    "variant": ("cc",),
}
"""Names of the language by words that people write instead, and that are not spelled alike."""


def choose(name: str, names: Iterable[str], free: Iterable[str] | None = None) -> str:
    """The end of a message about an unknown ``name``: the nearest valid name, or the valid ones.

    ``free`` are the unused names; only they are listed.

    >>> choose("droptial", ["droptail", "red"])
    '; did you mean `droptail`?'
    >>> choose("zzz", ["droptail", "red"])
    '; expected `droptail` or `red`'
    """
    known = list(islice(names, _MAX_COMPARED))
    meant = next((word for word in _MEANT.get(folded(name[:64]), ()) if word in known), None)
    if meant is not None:
        return f"; did you mean `{meant}`?"
    by_fold = {folded(k): k for k in reversed(known)}
    near = difflib.get_close_matches(folded(name[:64]), by_fold, n=1, cutoff=0.6)
    if near:
        return f"; did you mean `{by_fold[near[0]]}`?"
    left = known if free is None else list(free)
    return f"; expected {listing(left)}" if left else ""


def gather(parts: Iterable[Callable[[], T]]) -> tuple[T, ...]:
    """The values of all parts; every part is tried even if one fails.

    Raises:
        Invalid: a part raised it.
    """
    values = []
    failure: Invalid | None = None
    for part in parts:
        try:
            values.append(part())
        except Invalid as e:
            failure = e
    if failure is not None:
        raise failure
    return tuple(values)


def listing(names: Iterable[str], last: str = "or") -> str:
    """Names for a sentence: ``a``, ``b`` or ``c``; long lists are cut."""
    quoted = [f"`{n}`" for n in names]
    if len(quoted) > _MAX_NAMES:
        return ", ".join(quoted[:_MAX_NAMES]) + f" ... ({len(quoted)} in all)"
    return f" {last} ".join(filter(None, [", ".join(quoted[:-1]), quoted[-1] if quoted else ""]))

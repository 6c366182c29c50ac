"""Loads a user's control in Python, checks it, and tries it. It executes the file: only confined processes do that."""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import inspect
import signal
import sys
import traceback
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.control._types import Answer, AnswerError, Decision, Flow, Report

__all__ = ["User", "UserError", "described", "load"]

CLASS = "Control"
_RTT = "rtt"
_LEAST_INTERVAL_S = 1e-6
_MOST_INTERVAL_S = 3600.0
_MOST_OPTION = (1 << 63) - 1
CALL_CPU_S = 2.0
"""Limit on the processor time of a call in the trial."""
_LOAD_CPU_S = 8.0
"""The same of loading the file, which may import much; the whole process has 10 s."""
_FRAMES = 12
"""Lines of a stack that an error shows."""


class UserError(Exception):
    """A control in Python cannot be used, or failed; the message says where."""


@dataclass(frozen=True)
class User:
    """The control in a file."""

    path: Path
    name: str
    """The path as users know it."""
    made: type
    options: Mapping[str, tuple[int, int, int, str]]
    """Default, least and largest value of each option, and what it does."""

    def create(self, flow: Flow) -> Any:
        """The object for ``flow``.

        Raises:
            UserError: its constructor raises an exception.
        """
        try:
            return self.made(flow)
        except Exception as error:
            raise UserError(self.explained(f"{CLASS}.__init__", error)) from None

    def ask(self, made: Any, report: Report) -> Decision:
        """What ``made`` decides after ``report``.

        Raises:
            UserError: it raises an exception, or its answer is none.
        """
        try:
            answer = made.report(report)
            if answer is None:
                answer = Answer()
            if not isinstance(answer, Answer):
                raise AnswerError(f"it returned {_short(answer)}; expected weir.control.Answer, or None for no change")
            return answer.decision(self._after_us(made))
        except AnswerError as error:
            line = made.report.__code__.co_firstlineno if inspect.ismethod(made.report) else None
            raise UserError(f"{self._at(line)}: the answer of {CLASS}.report: {error}") from None
        except Exception as error:
            raise UserError(self.explained(f"{CLASS}.report", error)) from None

    def explained(self, where: str, error: BaseException) -> str:
        """What to say of an exception in the user's code: the line, the exception, and the stack from their file."""
        stack = traceback.extract_tb(error.__traceback__)
        own = next((n for n, frame in enumerate(stack) if frame.filename == str(self.path)), None)
        if own is None:
            return f"{self._at(None)}: {where} raised {type(error).__name__}: {error}"
        lines = [frame for frame in stack if frame.filename == str(self.path)]
        shown = "".join(traceback.format_list(stack[own:][-_FRAMES:])).rstrip()
        head = f"{self._at(lines[-1].lineno)}: {where} raised {type(error).__name__}: {error}"
        return f"{head}\n{shown}".replace(str(self.path), self.name)

    def _at(self, line: int | None) -> str:
        return self.name if line is None else f"{self.name}:{line}"

    def _after_us(self, made: Any) -> int | None:
        interval = getattr(made, "interval", _RTT)
        if isinstance(interval, str) and interval == _RTT:
            return None
        number = not isinstance(interval, bool | str) and hasattr(interval, "__float__")
        if not number or not _LEAST_INTERVAL_S <= float(interval) <= _MOST_INTERVAL_S:
            raise AnswerError(
                f"interval is {interval!r}; expected {_RTT!r} for once a round trip, or seconds from "
                f"{_LEAST_INTERVAL_S:g} to {_MOST_INTERVAL_S:g}"
            )
        return max(1, round(float(interval) * 1e6))


def load(path: Path, name: str) -> User:
    """Executes the file at ``path``, which users know as ``name``, and checks its class.

    Raises:
        UserError: it cannot be read or executed, or its class is missing or has other methods.
    """
    loader = _Loader(f"weir_control_{path.stem}", str(path))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    found = User(path, name, object, {})
    try:
        path.read_bytes()
    except OSError as error:
        raise UserError(f"{name}: {error.strerror or error}") from None
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # last, so that a file beside it replaces no module
    sys.modules[module.__name__] = module  # dataclasses look there
    dont, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    except SyntaxError as error:
        line = f":{error.lineno}" if error.lineno is not None else ""
        raise UserError(f"{name}{line}: it is no Python: {error.msg}") from None
    except Exception as error:
        raise UserError(found.explained("it", error)) from None
    finally:
        sys.dont_write_bytecode = dont
    made = _class(module, name)
    return User(path, name, made, _options(made, name, _line(made)))


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles the file each time: what a folder has from an earlier version does not count."""

    def get_code(self, fullname: str) -> types.CodeType:
        code: types.CodeType = self.source_to_code(self.get_data(self.path), self.path)
        return code


def _class(module: types.ModuleType, name: str) -> type:
    made = getattr(module, CLASS, None)
    if not isinstance(made, type):
        others = [f"`{key}` (line {_line(value)})" for key, value in vars(module).items() if _is_own(value, module)]
        there = f"; it has {', '.join(others)}" if others else ""
        raise UserError(f"{name}: there is no class `{CLASS}`{there}; expected {_SKELETON}")
    for method, wanted in (("__init__", "flow"), ("report", "report")):
        function = getattr(made, method, None)
        if function is None or (method == "__init__" and function is object.__init__):
            line = _line(made)
            raise UserError(f"{name}:{line}: class `{CLASS}` has no `{method}(self, {wanted})`; expected {_SKELETON}")
        try:
            inspect.signature(function).bind(None, None)
        except (TypeError, ValueError):
            line = getattr(getattr(function, "__code__", None), "co_firstlineno", _line(made))
            has = f"{method}{inspect.signature(function)}"
            raise UserError(f"{name}:{line}: `{CLASS}.{has}`; expected `{method}(self, {wanted})`") from None
    return made


_SKELETON = "`class Control:` with `__init__(self, flow)` and `report(self, report)`"


def _is_own(value: object, module: types.ModuleType) -> bool:
    return isinstance(value, type) and value.__module__ == module.__name__


def _line(made: object) -> int:
    """The line of a class, as far as its methods tell."""
    first = getattr(made, "__firstlineno__", None)  # from Python 3.13 on
    if isinstance(first, int):
        return first
    try:
        return inspect.getsourcelines(made)[1]  # type: ignore[arg-type]
    except (OSError, TypeError):
        codes = [getattr(value, "__code__", None) for value in vars(made).values()]
        return min((code.co_firstlineno for code in codes if code is not None), default=1)


def _options(made: type, name: str, line: int) -> dict[str, tuple[int, int, int, str]]:
    given = getattr(made, "OPTIONS", {})
    form = 'a mapping such as {"gain": (2, 1, 10, "packets a round trip")}: default, least, largest, what it does'
    if not isinstance(given, Mapping):
        raise UserError(f"{name}:{line}: {CLASS}.OPTIONS is {_short(given)}; expected {form}")
    for option, row in given.items():
        whole = isinstance(row, tuple) and len(row) == 4 and all(type(value) is int for value in row[:3])
        if not isinstance(option, str) or not option.isidentifier() or option == "name" or not whole:
            raise UserError(f"{name}:{line}: {CLASS}.OPTIONS[{option!r}] is {_short(row)}; expected {form}")
        default, least, most, doc = row
        if not (-_MOST_OPTION <= least <= default <= most <= _MOST_OPTION) or not isinstance(doc, str):
            raise UserError(f"{name}:{line}: option {option} is {default} by default, and from {least} to {most}")
    return dict(given)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# The trial -----------------------------------------------------------------------------------------------------------


def described(path: Path, name: str) -> dict[str, Any]:
    """The control's description of itself, after a trial with the options at their defaults and at both ends.

    Raises:
        UserError: it cannot be used; the message says where.
    """
    with _limited(path, name, "loading", _LOAD_CPU_S):
        user = load(path, name)
    for row in ({name: row[:3][place] for name, row in user.options.items()} for place in range(3)):
        _try(user, row)
    title = (user.made.__doc__ or "").strip().partition("\n")[0].removesuffix(".")
    return {
        "name": path.stem,
        "title": _printable(title) or path.stem,
        "year": 0,
        "source": "",
        "state_bytes": 0,
        "needs_ecn": False,
        "needs_accecn": False,
        "has_cong_control": True,
        "options": [
            {"name": option, "doc": _printable(doc), "default": default, "min": least, "max": most}
            for option, (default, least, most, doc) in user.options.items()
        ],
        "probes": [],
    }


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)[:400]


def _try(user: User, options: Mapping[str, int]) -> None:
    """Asks the control as the simulator does: at first, in calm, after losses, marks, a timeout and a pause."""
    with _limited(user.path, user.name, f"{CLASS}.__init__ of"):
        made = user.create(Flow("trial", 1448, 10, 1, options))
    window, time_us = 10, 1_000_000
    for told in _TRIAL:
        time_us += told["interval_us"]
        acked = told.get("acked_packets", window)
        rate = 8_000_000 * 1448 * acked // told["interval_us"] if told["interval_us"] else 0
        report = Report.of(
            {**_NOTHING, **told, "now_us": time_us, "window_packets": window, "in_flight_packets": window}
            | {"acked_packets": acked, "sent_packets": acked, "send_bps": rate, "delivery_bps": rate}
        )
        with _limited(user.path, user.name, "report of"):
            window = user.ask(made, report)[0] or window


class _EndlessError(BaseException):
    """A call has used up its processor time; no ``except Exception`` of the control catches it."""


@contextlib.contextmanager
def _limited(path: Path, name: str, what: str, cpu_s: float = CALL_CPU_S) -> Iterator[None]:
    """Ends a call that does not return; one in C code, without a line of Python, goes on.

    Raises:
        UserError: the call does not return; it names the line that is executed then.
    """

    def stop(_: int, frame: types.FrameType | None) -> None:
        own = next((at for at, _ in traceback.walk_stack(frame) if at.f_code.co_filename == str(path)), None)
        raise _EndlessError("" if own is None else f", at line {own.f_lineno}")

    before = signal.signal(signal.SIGPROF, stop)
    try:
        signal.setitimer(signal.ITIMER_PROF, cpu_s)
        yield
    except _EndlessError as error:
        raise UserError(f"{what} {name} does not return: a loop without an end{error}?") from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


_NOTHING = {
    **dict.fromkeys(("interval_us", "lost_packets", "marked_packets", "timeouts", "seed"), 0),
    **dict.fromkeys(("rtt_us", "rtt_mean_us", "pacing_bytes_per_s")),
    "first": False,
    "app_limited": False,
    "packet_bytes": 1448,
    "srtt_us": 20_000,
    "rtt_min_us": 20_000,
}
_SAMPLE = {"rtt_us": 24_000, "rtt_mean_us": 22_000, "interval_us": 22_000}
_TRIAL: tuple[dict[str, Any], ...] = (
    {"first": True, "interval_us": 0, "acked_packets": 0},
    *(_SAMPLE for _ in range(4)),
    {**_SAMPLE, "lost_packets": 3},
    {**_SAMPLE, "marked_packets": 5},
    {"interval_us": 250_000, "acked_packets": 1, "lost_packets": 9, "timeouts": 1},
    {**_SAMPLE, "acked_packets": 1, "app_limited": True},
    {**_SAMPLE, "interval_us": 5_000_000},
)

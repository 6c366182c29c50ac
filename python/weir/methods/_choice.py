"""The default method for a plan: the best that this machine has for it.

Methods declare whether and in which order they are considered (:attr:`Method.precedence`): of weir's own first ``lab``,
the real kernel with reproducible results, then ``sim``, which needs nothing, then ``emul``, whose results depend on
this machine. The rules:

1. the first in virtual time that can execute the plan in at most a minute;
2. else the last in virtual time that can, however long it takes: later ones are cheaper;
3. else the first on a real clock that can, except for plans with programs of the scenario, which run unconfined there:
   such a method must be named.

Nothing here measures: the methods' estimates are orders of magnitude.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from weir._duration import estimate_text
from weir.methods import _registry
from weir.methods._errors import MethodError

__all__ = ["MAX_S", "Choice", "Prospect", "choose", "order"]

MAX_S = 60.0
"""Maximum estimate of a method that is preferred to a faster one."""


@dataclass(frozen=True)
class Prospect:
    """The outlook of a method for a scenario."""

    method: str
    obstacle: str | None
    """Why it cannot execute it; ``None`` if it can."""
    seconds: float = 0.0
    """Wall time of all cells, on all processors that may be used."""
    untried: str | None = None
    """What only an execution can show, without an obstacle."""


@dataclass(frozen=True)
class Choice:
    """The method, and the reason."""

    method: str
    reason: str


def order() -> tuple[str, ...]:
    """The candidate methods, in order."""
    known = {name: method for name in _registry.names() if (method := _registry.registered(name)) is not None}
    chosen = [name for name, method in known.items() if method.precedence]
    return tuple(sorted(chosen, key=lambda name: (known[name].clock == "real", -known[name].precedence)))


def choose(prospect: Callable[[str], Prospect]) -> Choice:
    """The method by the rules of this module; asks ``prospect`` only for candidates.

    Raises:
        MethodError: none can; the message has the reason of each.
    """
    asked: list[Prospect] = []
    known = order()
    virtual = [name for name in known if _registry.get(name).clock == "virtual"]
    chosen = _first(prospect, virtual, asked, MAX_S)
    if chosen is None:
        chosen = next((one for one in reversed(asked) if one.obstacle is None), None)
    before = [one for one in reversed(asked) if one is not chosen]
    if chosen is None:
        real: list[Prospect] = []
        chosen = _first(prospect, [name for name in known if name not in virtual], real, None)
        if chosen is None:
            reasons = "".join(f"\n  {one.method}: {one.obstacle}" for one in (*before, *real))
            raise MethodError(f"no method of this machine can execute this:{reasons}")
    return Choice(chosen.method, "; ".join([_registry.get(chosen.method).title, *map(_why_not, before)]))


def _first(
    prospect: Callable[[str], Prospect], names: list[str], asked: list[Prospect], most_s: float | None
) -> Prospect | None:
    """The first that can, within the given time; adds the examined ones to ``asked``."""
    for name in names:
        one = prospect(name)
        asked.append(one)
        if one.obstacle is None and (most_s is None or one.seconds <= most_s):
            return one
    return None


def _why_not(one: Prospect) -> str:
    method = _registry.get(one.method)
    if one.obstacle is not None:
        return method.refusal(one.obstacle)
    return f"{method.called or method.name} would take about {estimate_text(one.seconds)}"

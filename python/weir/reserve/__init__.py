"""Reserves nodes of clusters: one small contract, and providers for schedulers that keep to it.

>>> from weir import reserve
>>> request = reserve.parse({"by": "static", "names": ["a1", "a2"]})
>>> with reserve.reserved({"A": request}) as nodes:  # doctest: +SKIP
...     [node.address for node in nodes["A"]]
['a1', 'a2']

Whatever happens to the process, what it reserved is released: docs/reservation.md says how. A provider is a subclass of
:class:`Provider` and one line of the registry, or an entry point of the group ``weir.reserve``.
"""

from __future__ import annotations

from weir.reserve._provider import Held, Phase, Provider, State
from weir.reserve._registry import GROUP, PROVIDERS, get, names
from weir.reserve._request import KEYS, FrontEnd, Request, parse, to_json
from weir.reserve._reservation import (
    Progress,
    Reservation,
    forget,
    keep,
    kept,
    release,
    release_all,
    reserve,
    reserved,
    state,
    usable,
    wait,
)
from weir.reserve.errors import RequestError, ReserveError

__all__ = [
    "GROUP",
    "KEYS",
    "PROVIDERS",
    "FrontEnd",
    "Held",
    "Phase",
    "Progress",
    "Provider",
    "Request",
    "RequestError",
    "Reservation",
    "ReserveError",
    "State",
    "forget",
    "get",
    "keep",
    "kept",
    "names",
    "parse",
    "release",
    "release_all",
    "reserve",
    "reserved",
    "state",
    "to_json",
    "usable",
    "wait",
]

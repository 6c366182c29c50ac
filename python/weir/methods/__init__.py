"""The methods that execute a plan, and their registry.

A method takes a plan (JSON text, see ``weir schema plan``) and writes the tables of a run (``weir schema``) into a
sink. It knows neither scenarios nor folders nor reports. No code above this package has a list of methods: all
differences are attributes of :class:`Method`.
"""

from __future__ import annotations

from weir.methods._capacity import Capacity, Need
from weir.methods._choice import MAX_S, Choice, Prospect, choose, order
from weir.methods._errors import LostError, MethodError, UnavailableError, UnfitMethodError, UnknownMethodError
from weir.methods._live import Live, LiveFlow, LiveLink, Upcoming
from weir.methods._method import INSIDE, NO_ACKS, REAL, TABLES, About, Method, Outcome, Progress, Sink
from weir.methods._registry import DEFAULT, METHODS, get, names, registered
from weir.methods.options import OPTIONS, Option

__all__ = [
    "DEFAULT",
    "INSIDE",
    "MAX_S",
    "METHODS",
    "NO_ACKS",
    "OPTIONS",
    "REAL",
    "TABLES",
    "About",
    "Capacity",
    "Choice",
    "Live",
    "LiveFlow",
    "LiveLink",
    "LostError",
    "Method",
    "MethodError",
    "Need",
    "Option",
    "Outcome",
    "Progress",
    "Prospect",
    "Sink",
    "UnavailableError",
    "UnfitMethodError",
    "UnknownMethodError",
    "Upcoming",
    "choose",
    "get",
    "names",
    "order",
    "registered",
]

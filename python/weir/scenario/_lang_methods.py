"""Language definitions of method options: choices of how a method executes the experiment.

Methods declare them (:mod:`weir.methods.options`); this module turns them into keys of the language.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from weir.language.scalars import Choice
from weir.language.spec import Spec, Struct, key
from weir.methods.options import OPTIONS, WHAT, Option

__all__ = ["Methods"]


def _mapping(name: str, doc: str, keys: dict[str, Any], bases: tuple[type[Spec], ...] = (Spec,)) -> type[Spec]:
    """A mapping of the language with ``keys``, equivalent to the hand-written ones."""
    fields = [(field, object, value) for field, value in keys.items()]
    made = dataclasses.make_dataclass(name, fields, bases=bases, frozen=True, kw_only=True)
    made.__doc__ = doc
    return made


def _key(one: Option) -> Any:
    return key(Choice(one.kind, one.values), one.doc, default=one.default)


def _options(method: str) -> type[Spec]:
    keys = {one.name: _key(one) for one in OPTIONS[method]}
    return _mapping(method.capitalize(), f"Options of method `{method}`, {WHAT[method]}.", keys)


_OF = {method: _options(method) for method in OPTIONS}


class _Plan(Spec):
    def plan(self) -> dict[str, Any]:
        """The form in a plan. The plan's hash names results, so options added later are omitted at their default."""
        given = {method: _values(getattr(self, method), options) for method, options in OPTIONS.items()}
        return {method: values for method, values in given.items() if values}


def _values(given: Spec, options: tuple[Option, ...]) -> dict[str, Any]:
    values = {one.name: getattr(given, one.name) for one in options}
    return {one.name: values[one.name] for one in options if not one.late or values[one.name] != one.default}


_DOC = "Options of the methods: how they execute the experiment. They may change its results."

if TYPE_CHECKING:

    class Methods(_Plan):
        """Options of methods, a mapping for each."""

else:
    Methods = _mapping(
        "Methods",
        _DOC,
        {method: key(Struct(spec), f"Options of `{method}`.", default=spec()) for method, spec in _OF.items()},
        (_Plan,),
    )

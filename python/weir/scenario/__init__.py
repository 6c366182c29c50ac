"""Scenarios: the language of experiments, read, checked and compiled into plans.

A scenario is YAML 1.2, described in ``docs/scenario-language.md`` and ``docs/schema/scenario.schema.json``. It is data:
never executed, never evaluated. :func:`load` and :func:`parse` return a :class:`Scenario` or raise
:class:`ScenarioError` with every problem found; :func:`check` returns the problems. :meth:`Scenario.cells` returns the
cells of the sweep. Each cell compiles into a plan that every method executes.

Parsed times are nanoseconds, rates bits per second and sizes bytes, all integers.
"""

from __future__ import annotations

from weir.language.problem import Problem

from ._about import texts_in
from ._claims import Expectation, Unjudged, Version
from ._errors import ScenarioError
from ._lang_switch import is_file as is_switch_file
from ._overrides import yaml_texts
from ._reduced import reduced
from ._scenario import Cell, Scenario, check, load, parse, schema
from ._summary import Shown

__all__ = [
    "Cell",
    "Expectation",
    "Problem",
    "Scenario",
    "ScenarioError",
    "Shown",
    "Unjudged",
    "Version",
    "check",
    "is_switch_file",
    "load",
    "parse",
    "reduced",
    "schema",
    "texts_in",
    "yaml_texts",
]

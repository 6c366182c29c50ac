"""Surveys: the catalogue by several methods, the agreement on every claim and figure, and the methods that stand alone.

``execute`` runs the missing parts and returns a :class:`Survey`; ``build`` writes its page.
"""

from __future__ import annotations

from weir.study.survey._execute import execute
from weir.study.survey._result import Claim, Entry, Figure, Said, Survey
from weir.study.survey._tasks import tasks_of
from weir.study.survey.page import build

__all__ = ["Claim", "Entry", "Figure", "Said", "Survey", "build", "execute", "tasks_of"]

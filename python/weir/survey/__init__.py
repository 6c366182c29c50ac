"""The catalogue by several methods: every claim and figure by each, who agrees with whom, and who stands alone.

``execute`` does what is missing and gives a :class:`Survey`; ``build`` writes its page.
"""

from __future__ import annotations

from weir.survey._execute import execute
from weir.survey._result import Claim, Entry, Execution, Figure, Said, Survey
from weir.survey._tasks import missing_methods, parse_methods
from weir.survey.errors import SurveyError
from weir.survey.page import build

__all__ = [
    "Claim",
    "Entry",
    "Execution",
    "Figure",
    "Said",
    "Survey",
    "SurveyError",
    "build",
    "execute",
    "missing_methods",
    "parse_methods",
]

"""Judges a congestion control like a referee: its builds, its checks, and scenarios beside established controls.

``judge`` does all of it and returns a :class:`Judgement`; ``build`` writes its page. The scenarios are files of
``cases/``; a file ``with-NAME.yaml`` makes the control NAME one of those that every scenario also runs with.
"""

from __future__ import annotations

from weir.study.judge._builds import Check
from weir.study.judge._cases import CASES, Case, Measure, references, standards
from weir.study.judge._judge import Judged, Judgement, Level, Point, judge
from weir.study.judge._words import REJECT, levels, recommendation, rule, sentence
from weir.study.judge.page import build

__all__ = [
    "CASES",
    "REJECT",
    "Case",
    "Check",
    "Judged",
    "Judgement",
    "Level",
    "Measure",
    "Point",
    "build",
    "judge",
    "levels",
    "recommendation",
    "references",
    "rule",
    "sentence",
    "standards",
]

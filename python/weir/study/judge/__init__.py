"""Judges a congestion control like a referee: its builds, its checks, and scenarios beside established controls.

``judge`` does all of it and returns a :class:`Judgement`; ``build`` writes its page. The scenarios are files of
``cases/``; a file ``with-NAME.yaml`` makes the control NAME one of those that every scenario also runs with.
"""

from __future__ import annotations

from weir.study.judge._builds import Check
from weir.study.judge._cases import CASES, REPEATS, Case, Measure, references, standards
from weir.study.judge._judge import Judged, Judgement, judge
from weir.study.judge._points import Difference, Level, Point
from weir.study.judge._words import REJECT, chance, intervals, levels, recommendation, rule, sentence
from weir.study.judge.page import build

__all__ = [
    "CASES",
    "REJECT",
    "REPEATS",
    "Case",
    "Check",
    "Difference",
    "Judged",
    "Judgement",
    "Level",
    "Measure",
    "Point",
    "build",
    "chance",
    "intervals",
    "judge",
    "levels",
    "recommendation",
    "references",
    "rule",
    "sentence",
    "standards",
]

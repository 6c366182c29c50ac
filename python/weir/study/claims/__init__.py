"""Which claims of the papers reproduce?

`wanted_units` says what a call asks for, `work_of` which cells of a scenario have no stored result, `execute` executes
them and stores each, `judge` decides the papers' claims on what is stored, `write` writes the pages, `verify` executes
a few stored cells again, and `weaknesses` finds checks that no result could refute.
"""

from __future__ import annotations

from weir.study.claims._asked import Asked, read_where, wanted_units
from weir.study.claims._execute import Plan, Work, execute, obstacle_of, work_of
from weir.study.claims._judge import Answer, Judged, Part, State, judge, states
from weir.study.claims._page import Pages, is_current, write
from weir.study.claims._papers import Claim, Papers, read_papers
from weir.study.claims._refute import Weakness, parts_of, weaknesses
from weir.study.claims._store import Result, Store, Unit
from weir.study.claims._verify import Verified, verify

__all__ = [
    "Answer",
    "Asked",
    "Claim",
    "Judged",
    "Pages",
    "Papers",
    "Part",
    "Plan",
    "Result",
    "State",
    "Store",
    "Unit",
    "Verified",
    "Weakness",
    "Work",
    "execute",
    "is_current",
    "judge",
    "obstacle_of",
    "parts_of",
    "read_papers",
    "read_where",
    "states",
    "verify",
    "wanted_units",
    "weaknesses",
    "work_of",
    "write",
]

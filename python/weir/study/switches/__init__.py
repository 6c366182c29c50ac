"""Finds out what is inside a switch from outside, and fits a model of it: ``weir switch characterise``.

A rig has testers at the ports of a switch: :class:`ModelRig` is one around a switch of the simulator,
:class:`BetweenRig` one of network interfaces around a real switch, :class:`OverRig` one whose interfaces belong to
several machines. :func:`fit` executes the programme of LIP 2006-38, extended by more inputs and outputs, and returns
the switch that explains what was seen.
"""

from __future__ import annotations

from weir.scenario import is_switch_file as is_file
from weir.study.switches._arbiter import Law
from weir.study.switches._between import RETRIES, BetweenRig, Senders
from weir.study.switches._characterise import Characterised, characterise
from weir.study.switches._compare import Behaviour
from weir.study.switches._extent import PAPER, Extent
from weir.study.switches._fit import Class, Fitted, Pause, class_of, fit, window_ns
from weir.study.switches._hidden import SMALL_MEMORIES, USUAL_MEMORIES, Verdict, hidden, judged
from weir.study.switches._isolines import Isolines, error_of, isolines
from weir.study.switches._kept import KeptTrials
from weir.study.switches._memory import MemoryFit, Resume
from weir.study.switches._model import ModelRig
from weir.study.switches._over import OverRig, over
from weir.study.switches._rig import Observation, Rig, Stream, Trial
from weir.study.switches._words import lines
from weir.study.switches._yaml import flow_text, switch_words, yaml_text
from weir.study.switches.page import build

__all__ = [
    "PAPER",
    "RETRIES",
    "SMALL_MEMORIES",
    "USUAL_MEMORIES",
    "Behaviour",
    "BetweenRig",
    "Characterised",
    "Class",
    "Extent",
    "Fitted",
    "Isolines",
    "KeptTrials",
    "Law",
    "MemoryFit",
    "ModelRig",
    "Observation",
    "OverRig",
    "Pause",
    "Resume",
    "Rig",
    "Senders",
    "Stream",
    "Trial",
    "Verdict",
    "build",
    "characterise",
    "class_of",
    "error_of",
    "fit",
    "flow_text",
    "hidden",
    "is_file",
    "isolines",
    "judged",
    "lines",
    "over",
    "switch_words",
    "window_ns",
    "yaml_text",
]

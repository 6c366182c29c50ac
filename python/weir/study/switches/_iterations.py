"""Rounds of a matching arbiter, by simulation of the candidates.

With few rounds some pairs of free ports are left unmatched, and outputs are idle. How much depends on everything else,
so each candidate gets the same trial, and the nearest one is taken.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weir.study.switches._model import ModelRig
from weir.study.switches._rig import Observation

__all__ = ["ROUNDS", "nearest_rounds"]

Floats = npt.NDArray[np.float64]
ROUNDS = (4, 2, 1)
_ALIKE = 0.003
"""Candidates whose outputs differ by less, as a share of all packets, are alike: the first is taken."""


def nearest_rounds(seen: Observation, models: dict[int, ModelRig]) -> int:
    """The rounds, of those in ``models``, whose output is nearest to what was seen."""
    came = np.array([int((out >= 0).sum()) for out in seen.received], np.float64)
    far = {}
    for rounds, rig in models.items():
        made = rig.counts(seen.trial.streams, seen.trial.end_ns, seen.trial.end_ns)[:, 0].astype(np.float64)
        far[rounds] = float(np.abs(_by_output(seen, came - made)).sum() / came.sum())
    least = min(far.values())
    return next(rounds for rounds, distance in far.items() if distance <= least + _ALIKE)


def _by_output(seen: Observation, packets: Floats) -> Floats:
    outputs = np.array([stream.output for stream in seen.trial.streams])
    return np.array([packets[outputs == output].sum() for output in np.unique(outputs)])

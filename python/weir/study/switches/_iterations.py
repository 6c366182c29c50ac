"""Rounds of a matching arbiter, by simulation of the candidates.

With few rounds some pairs of free ports are left unmatched, and outputs are idle. How much depends on everything else,
so each candidate gets the same trials, and the nearest one is taken. Several may be alike: with three outputs, hardly
anything is left for a third round, and with jitter ports are seldom free together.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from weir.study.switches._model import ModelRig
from weir.study.switches._rig import Observation

__all__ = ["ROUNDS", "alike_by_delay", "alike_by_share", "rounds_note"]

Floats = npt.NDArray[np.float64]
ROUNDS = (4, 2, 1)
_ALIKE = 0.003
"""Candidates whose outputs differ by less, as a share of all packets, are alike."""
_NEAR = 0.01
"""Candidates whose mean delays differ by less, as a share, are alike."""


def alike_by_share(seen: Observation, candidates: Mapping[int, ModelRig]) -> list[int]:
    """The rounds whose output rates are nearest to those seen."""
    came = np.array([int((out >= 0).sum()) for out in seen.received], np.float64)
    far = {}
    for rounds, rig in candidates.items():
        made = rig.counts(seen.trial.streams, seen.trial.end_ns, seen.trial.end_ns)[:, 0].astype(np.float64)
        far[rounds] = float(np.abs(_by_output(seen, came - made)).sum() / came.sum())
    least = min(far.values())
    return [rounds for rounds, distance in far.items() if distance <= least + _ALIKE]


def alike_by_delay(seen: Observation, candidates: Mapping[int, ModelRig]) -> list[int]:
    """The rounds whose mean delay is nearest to that seen, of a switch in which nothing is random."""
    mean = _delay_ns(seen)
    far = {rounds: abs(_delay_ns(rig.observe(seen.trial)) - mean) for rounds, rig in candidates.items()}
    near = min(far.values()) + _NEAR * mean
    return [rounds for rounds, distance in far.items() if distance <= near]


def rounds_note(alike: list[int]) -> str:
    """What is not known of the rounds; empty if they are known."""
    if len(alike) == 1:
        return ""
    numbers = [str(rounds) for rounds in sorted(alike)]
    listed = f"{', '.join(numbers[:-1])} and {numbers[-1]}"
    return f"rounds of the arbiter: {listed} look alike; the fitted model has {alike[0]}"


def _delay_ns(seen: Observation) -> float:
    """Mean time from a sender to a receiver."""
    delays = np.concatenate([(out - at)[out >= 0] for at, out in zip(seen.sent, seen.received, strict=True)])
    return float(delays.mean()) if len(delays) else 0.0


def _by_output(seen: Observation, packets: Floats) -> Floats:
    outputs = np.array([stream.output for stream in seen.trial.streams])
    return np.array([packets[outputs == output].sum() for output in np.unique(outputs)])

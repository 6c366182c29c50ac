"""A characterisation from beginning to end: the fit, and the fitted model beside what was measured."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from weir.study.switches._compare import Behaviour, Tell, behaviour, tcp
from weir.study.switches._fit import Fitted, fit, window_ns
from weir.study.switches._isolines import error_of
from weir.study.switches._model import ModelRig
from weir.study.switches._rig import Rig
from weir.study.switches._yaml import flow_text, switch_words

__all__ = ["Characterised", "characterise"]


@dataclass(frozen=True)
class Characterised:
    """A switch that was characterised."""

    name: str
    fitted: Fitted
    measured: Behaviour
    model: Behaviour
    """The fitted model under the same traffic."""
    wall_s: float
    rate_bps: float
    """Of the ports."""

    @property
    def isoline_error(self) -> float:
        """Median relative error of the model's isolines where the port is congested."""
        return float(np.median(error_of(self.model.isolines, self.measured.isolines, congested=True)))


def characterise(
    rig: Rig, name: str, *, seed: int = 1, points: int = 10, with_tcp: bool = True, tell: Tell = lambda _: None
) -> Characterised:
    """Characterises a switch and compares the fitted model with it.

    Args:
        rig: The switch and its testers.
        name: For the report.
        seed: Of the fitted model's random choices.
        points: Rates of either input for the isolines.
        with_tcp: Whether TCP flows pass both, too; only a model can take them.
        tell: Gets the next step.
    """
    begin = time.monotonic()
    fitted = fit(rig, tell)
    span = window_ns(fitted)
    measured = behaviour(rig, span, points, tell)
    model_rig = ModelRig(
        flow_text(switch_words(fitted)),
        seed=seed,
        base="<fitted switch>",
        rate_bps=rig.rate_bps,
        overhead_bytes=rig.overhead_bytes,
    )
    model = behaviour(model_rig, span, points, lambda text: tell(f"fitted model: {text}"))
    if with_tcp and isinstance(rig, ModelRig):
        measured = Behaviour(**{**vars(measured), "tcp": tcp(rig, tell)})
        model = Behaviour(**{**vars(model), "tcp": tcp(model_rig, lambda text: tell(f"fitted model: {text}"))})
    return Characterised(name, fitted, measured, model, time.monotonic() - begin, rig.rate_bps)

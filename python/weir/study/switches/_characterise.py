"""A characterisation from beginning to end: the fit, and the fitted model beside what was measured."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from weir._errors import MethodError, UnavailableError
from weir.study.switches._between import BetweenRig
from weir.study.switches._compare import BURSTS, PAIRS, Behaviour, Tell, behaviour
from weir.study.switches._fit import Fitted, fit, window_ns
from weir.study.switches._isolines import error_of
from weir.study.switches._model import ModelRig
from weir.study.switches._rig import Rig
from weir.study.switches._steps import Phase, Steps, phases
from weir.study.switches._tcp import Tcp, tcp_between, tcp_of
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
    no_tcp: str = ""
    """Why no TCP flows passed the switch, if they should have."""

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
        with_tcp: Whether TCP flows pass both, too: of this kernel where the switch is real.
        tell: Gets the next step, with its number and an estimate of the time left.
    """

    def planned(window: float | None) -> list[Phase]:
        """All phases; how long a trial lasts depends on the switch."""
        counts = {"pairs": len(PAIRS), "bursts": len(BURSTS)}
        return phases(rig, points, simulated=isinstance(rig, ModelRig), with_tcp=with_tcp, window_ns=window, **counts)

    begin = time.monotonic()
    step = Steps(tell, planned(None))
    fitted = fit(rig, step)
    span = window_ns(fitted)
    step.plan(planned(span)[1:])
    step.next_phase()
    measured = behaviour(rig, span, points, step)
    step.next_phase()
    model_rig = ModelRig(
        flow_text(switch_words(fitted)),
        seed=seed,
        base="<fitted switch>",
        rate_bps=rig.rate_bps,
        overhead_bytes=rig.overhead_bytes,
    )
    model = behaviour(model_rig, span, points, lambda text: step(f"fitted model: {text}"))
    step.next_phase()
    no_tcp = ""
    if with_tcp:
        try:
            flows, stack = _tcp(rig, step)
            step.next_phase()
            measured = replace(measured, tcp=flows)
            controls = list(dict.fromkeys(one.control for one in flows))
            passed = tcp_of(model_rig, lambda text: step(f"fitted model: {text}"), stack, controls)
            model = replace(model, tcp=passed)
        except (MethodError, UnavailableError) as error:  # the rest took minutes, and stands
            no_tcp = str(error)
    return Characterised(name, fitted, measured, model, time.monotonic() - begin, rig.rate_bps, no_tcp)


def _tcp(rig: Rig, tell: Tell) -> tuple[tuple[Tcp, ...], str]:
    """TCP flows through the switch, and the stack of their hosts.

    Raises:
        UnavailableError: no TCP can pass it from here.
        MethodError: something failed.
    """
    if isinstance(rig, ModelRig):
        return tcp_of(rig, tell), "linux-2.6"
    assert isinstance(rig, BetweenRig)
    return tcp_between(rig, tell), "linux"

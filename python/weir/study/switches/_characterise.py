"""A characterisation from beginning to end: the fit, and the fitted model beside what was measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from weir._errors import MethodError, UnavailableError
from weir.study.switches._between import BetweenRig, Senders
from weir.study.switches._compare import BURSTS, PAIRS, Behaviour, Tell, behaviour
from weir.study.switches._extent import Extent
from weir.study.switches._fit import Fitted, fit, window_ns
from weir.study.switches._isolines import error_of, isolines, out_of_phase
from weir.study.switches._model import ModelRig
from weir.study.switches._rig import Rig, gap_ns
from weir.study.switches._steps import Phase, Steps, phases
from weir.study.switches._tcp import Course, Tcp, tcp_between, tcp_of
from weir.study.switches._yaml import flow_text, switch_words

__all__ = ["Characterised", "characterise"]

_USUAL = Extent()


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
    extent: Extent
    seed: int
    """Of random choices: the model's, and those of a switch that is a model."""
    chance: float | None = None
    """The same error of a second run of the fitted model with other random numbers; ``None`` if it draws no bursts."""
    phase: float | None = None
    """The same error of a second run of the fitted model whose second input sends half of a packet's time later, at
    points where an input sends at full rate; ``None`` if the senders are exact."""
    no_tcp: str = ""
    """Why no TCP flows, or not all of them, passed the switch, if they should have."""
    senders: Senders | None = None
    """How exact real senders were."""

    @property
    def isoline_error(self) -> float:
        """Median relative error of the model's isolines where the port is congested."""
        return float(np.median(error_of(self.model.isolines, self.measured.isolines, congested=True)))

    def error(self, *, at_full_rate: bool) -> float | None:
        """The same error where an input sends at full rate, or elsewhere; ``None`` if no point is there."""
        model, measured = self.model.isolines, self.measured.isolines
        errors = error_of(model, measured, congested=True, at_full_rate=at_full_rate)
        return float(np.median(errors)) if len(errors) else None


def characterise(
    rig: Rig,
    name: str,
    *,
    seed: int = 1,
    extent: Extent = _USUAL,
    with_tcp: bool = True,
    tell: Tell = lambda _: None,
    keep: Callable[[Fitted], None] = lambda _: None,
) -> Characterised:
    """Characterises a switch and compares the fitted model with it.

    Args:
        rig: The switch and its testers.
        name: For the report.
        seed: Of the fitted model's random choices.
        extent: What is measured beside the fit.
        with_tcp: Whether TCP flows pass both, too: of this kernel where the switch is real.
        tell: Gets the next step, with its number and an estimate of the time left.
        keep: Gets the fitted switch before it is compared, which may be interrupted.
    """

    def planned(window: float | None) -> list[Phase]:
        """All phases; how long a trial lasts depends on the switch."""
        counts = {"pairs": len(PAIRS), "bursts": len(BURSTS)}
        return phases(
            rig, extent, simulated=isinstance(rig, ModelRig), with_tcp=with_tcp, window_ns=window, again=again, **counts
        )

    begin, again = time.monotonic(), 0
    step = Steps(tell, planned(None))
    fitted = fit(rig, step)
    keep(fitted)
    span = window_ns(fitted)
    by_chance = fitted.law.values.get("hold", {}).get("kind", "fixed") != "fixed"
    again = by_chance + (not rig.exact)
    step.plan(planned(span)[1:])
    step.next_phase()
    measured = behaviour(rig, span, extent, step)
    step.next_phase()

    def of_model(text: str) -> None:
        step(f"fitted model: {text}")

    model_rig = _model_of(rig, fitted, seed)
    model = behaviour(model_rig, span, extent, of_model, measured)
    chance = None
    if by_chance:
        other = isolines(_model_of(rig, fitted, seed + 1), span, extent.points, of_model, measured.isolines.trials)
        chance = float(np.median(error_of(other, model.isolines, congested=True)))
    phase = None if rig.exact else _by_phase(model_rig, model, span, extent, of_model)
    step.next_phase()
    no_tcp = ""
    if with_tcp:
        flows, no_tcp = _tcp(rig, extent, step)
        step.next_phase()
        if flows:
            stack = "linux-2.6" if isinstance(rig, ModelRig) else "linux"
            measured = replace(measured, tcp=flows)
            model = replace(model, tcp=_tcp_of_model(model_rig, flows, extent, stack, of_model))
    wall_s = time.monotonic() - begin
    senders = rig.summary if isinstance(rig, BetweenRig) else None
    said = seed, chance, phase, no_tcp, senders
    return Characterised(name, fitted, measured, model, wall_s, rig.rate_bps, extent, *said)


def _by_phase(rig: ModelRig, model: Behaviour, span_ns: int, extent: Extent, tell: Tell) -> float:
    """How much the model's ratios hang on the phase of its inputs where one of them sends at full rate."""
    half = round(gap_ns(1500 + rig.overhead_bytes, rig.rate_bps) / 2)
    other = isolines(rig, span_ns, extent.points, tell, out_of_phase(model.isolines.trials, half))
    return float(np.median(error_of(other, model.isolines, congested=True, at_full_rate=True)))


def _model_of(rig: Rig, fitted: Fitted, seed: int) -> ModelRig:
    """The fitted model between ports like those of ``rig``."""
    text = flow_text(switch_words(fitted))
    return ModelRig(text, seed=seed, base="<fitted switch>", rate_bps=rig.rate_bps, overhead_bytes=rig.overhead_bytes)


def _tcp(rig: Rig, extent: Extent, tell: Tell) -> tuple[tuple[Tcp, ...], str]:
    """TCP flows through the switch, and why some of them did not pass it: the rest took minutes, and stands."""
    flows = list[Tcp]()
    for rtt_ns in extent.tcp_rtts_ns:
        try:
            flows += _flows(rig, Course(extent.tcp_ns, extent.second_ns, rtt_ns), tell)
        except (MethodError, UnavailableError) as error:
            return tuple(flows), str(error)
    return tuple(flows), ""


def _flows(rig: Rig, course: Course, tell: Tell) -> tuple[Tcp, ...]:
    if isinstance(rig, ModelRig):
        return tcp_of(rig, tell, course)
    assert isinstance(rig, BetweenRig)
    return tcp_between(rig, tell, course=course)


def _tcp_of_model(rig: ModelRig, like: Sequence[Tcp], extent: Extent, stack: str, tell: Tell) -> tuple[Tcp, ...]:
    """The same flows through the fitted model."""
    controls = list(dict.fromkeys(one.control for one in like))
    flows = list[Tcp]()
    for rtt_ns in dict.fromkeys(one.rtt_ns for one in like):
        flows += tcp_of(rig, tell, Course(extent.tcp_ns, extent.second_ns, rtt_ns), stack, controls)
    return tuple(flows)

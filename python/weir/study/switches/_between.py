"""A rig around a real switch: network interfaces of this host, and ``weir-agent tester`` behind them.

An interface is named ``eth1``, or ``NAMESPACE/eth1`` if it is in a network namespace of that name.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from weir._errors import MethodError, UnavailableError
from weir._interfaces import Interface, common_rate_bps
from weir._programs import find
from weir.study.switches._kept import KeptTrials
from weir.study.switches._rig import Accuracy, Observation, Stream, Trial
from weir.study.switches._units import time_text

__all__ = ["GRACE_S", "RETRIES", "BetweenRig", "Senders", "require_three"]

GRACE_S = 60
RETRIES = 2
"""How often a trial is executed again in which a sender was late."""
_LATE = 0.01
"""Part of its time by which a stream may begin late or take longer."""


@dataclass(frozen=True)
class Senders:
    """How exact the senders of a characterisation were."""

    streams: int
    achieved: float
    """Median of achieved over asked rate on the wire."""
    worst: float
    """The ratio that is furthest from 1."""
    late_median_ns: float
    late_p99_ns: float
    """Of the worst stream."""
    clock_error_ns: int = 0
    """The most by which instants of a sender and a receiver on other machines may be off."""
    trials: int = 0
    repeated: int = 0
    """Trials that were executed again, because a stream began late or was slower than asked."""
    late: int = 0
    """Trials in which a stream still did."""

    @property
    def text(self) -> str:
        """A sentence."""
        rates = f"{self.streams} streams had {self.achieved:.3%} of the asked rate on the wire at the median"
        late = f"packets left {time_text(self.late_median_ns)} late at the median"
        tail = f"{time_text(self.late_p99_ns)} in the worst 1 % of the worst stream"
        again = (
            f"; {self.repeated} of {self.trials} trials were repeated, because a sender was late by over {_LATE:.0%}"
        )
        still = f"; in {self.late} of them one still was" if self.late else ""
        busy = f"{again}{still}" if self.repeated or self.late else ""
        clocks = f"; clocks of nodes within {time_text(self.clock_error_ns)}" if self.clock_error_ns else ""
        return f"{rates}, {self.worst:.3%} at worst; {late}, {tail}{clocks}{busy}"


class BetweenRig:
    """The ports of a real switch. See :class:`weir.study.switches.Rig`."""

    exact = False

    def __init__(
        self,
        interfaces: Sequence[str],
        rate_bps: float | None = None,
        overhead_bytes: int = 38,
        retries: int = RETRIES,
    ) -> None:
        """A rig of ``interfaces``; the last ones are its outputs.

        Args:
            interfaces: Three at least, each connected to a port of the switch.
            rate_bps: Rate of the ports; default: what the network cards say.
            overhead_bytes: Bytes that an IP packet has besides on the wire.
            retries: How often a trial is executed again in which a sender was late.

        Raises:
            UnavailableError: an interface is missing, or the rate is neither given nor said by all of them.
        """
        require_three(interfaces)
        self._agent = str(find("weir-agent"))
        self._set({word: Interface.of(word) for word in interfaces}, rate_bps, overhead_bytes, retries)

    def _set(
        self, interfaces: Mapping[str, Interface], rate_bps: float | None, overhead_bytes: int, retries: int
    ) -> None:
        self.interfaces = list(interfaces.values())
        self.rate_bps = self.out_bps = float(common_rate_bps(interfaces) if rate_bps is None else rate_bps)
        self.overhead_bytes = overhead_bytes
        self.inputs = len(interfaces)
        self.outputs = min(3, len(interfaces) - 1)
        self.retries = retries
        self.accuracy: list[Accuracy] = []
        """Of the streams of all trials; of a trial that was repeated, those of the attempt that counts."""
        self.trials = self.repeated = self.late = 0
        self.clock_error_ns = 0
        """The most by which instants of a sender and a receiver on other machines may be off, over all trials."""
        self.kept: KeptTrials | None = None
        """Where trials are kept for a characterisation that continues, if they are."""

    def senders(self, output: int) -> tuple[int, ...]:
        """See :meth:`weir.study.switches.Rig.senders`."""
        return tuple(port for port in range(self.inputs) if port != self._port(output))

    def _port(self, output: int) -> int:
        """The interface of an output."""
        return self.inputs - 1 - output

    def observe(self, trial: Trial) -> Observation:
        """See :meth:`weir.study.switches.Rig.observe`.

        Repeats the trial while a sender was late, and returns the attempt whose latest sender was least so.
        """
        tried = [self._attempt(trial)]
        while min(map(_lateness, tried)) > 1 and len(tried) <= self.retries:
            tried.append(self._attempt(trial))
        best = min(tried, key=_lateness)
        seen, accuracy = best
        late = _lateness(best) > 1
        self.accuracy += accuracy
        self.trials += 1
        self.repeated += len(tried) > 1
        self.late += late
        return replace(seen, late=late)

    def _attempt(self, trial: Trial) -> tuple[Observation, list[Accuracy]]:
        found = self._execution(trial)
        sent = [np.array(times, np.int64) for times in found["sent"]]
        refused, received = [], []
        for times, numbers, came in zip(sent, found["refused"], found["received"], strict=True):
            lost = np.zeros(len(times), np.bool_)
            lost[np.array(numbers, np.int64)] = True
            out = np.full(len(times), -1, np.int64)
            for number, at in came:
                if out[number] < 0:
                    out[number] = max(at, 0)
            refused.append(lost)
            received.append(out)
        accuracy = [
            _accuracy(self, stream, times, np.array(due, np.int64))
            for stream, times, due in zip(trial.streams, sent, found["due"], strict=True)
            if len(times) > 1
        ]
        return Observation(trial, sent, refused, received), accuracy

    def _execution(self, trial: Trial) -> dict[str, Any]:
        """What the testers see of the next execution of a trial; it may be one that is kept."""

        def execute() -> dict[str, Any]:
            return self._run(trial) | {"clock_error_ns": self.clock_error_ns}

        found = execute() if self.kept is None else self.kept.execution(self._job(trial) | {"token": 0}, execute)
        self.clock_error_ns = max(self.clock_error_ns, found["clock_error_ns"])
        return found

    def counts(self, streams: Sequence[Stream], interval_ns: int, end_ns: int) -> npt.NDArray[np.int64]:
        """See :meth:`weir.study.switches.Rig.counts`."""
        seen = self.observe(Trial(tuple(streams), end_ns))
        edges = np.arange(0, end_ns + 1, interval_ns)
        return np.array([np.histogram(out[out >= 0], edges)[0] for out in seen.received])

    @property
    def summary(self) -> Senders:
        """How exact the senders were in all trials so far."""
        ratios = [one.achieved_bps / one.asked_bps for one in self.accuracy] or [float("nan")]
        late = [one.late_median_ns for one in self.accuracy] or [float("nan")]
        worst = max((one.late_p99_ns for one in self.accuracy), default=float("nan"))
        furthest = max(ratios, key=lambda ratio: abs(ratio - 1))
        achieved, median = float(np.median(ratios)), float(np.median(late))
        counted = self.trials, self.repeated, self.late
        return Senders(len(self.accuracy), achieved, furthest, median, worst, self.clock_error_ns, *counted)

    def _job(self, trial: Trial) -> dict[str, Any]:
        """The job of a tester that has all ports."""
        ports = [
            {
                "device": interface.name, "netns": interface.path, "mac": list(interface.mac),
                "rate_bps": self.rate_bps, "overhead_bytes": self.overhead_bytes,
            }
            for interface in self.interfaces
        ]  # fmt: skip
        streams = [
            {
                "input": stream.input, "output": self._port(stream.output), "ip_bytes": stream.ip_bytes,
                "gap_ns": (stream.ip_bytes + self.overhead_bytes) * 8e9 / stream.wire_bps,
                "start_ns": stream.start_ns, "stop_ns": stream.stop_ns,
            }
            for stream in trial.streams
        ]  # fmt: skip
        return {"token": secrets.randbits(63), "ports": ports, "streams": streams, "end_ns": trial.end_ns}

    def _run(self, trial: Trial) -> dict[str, Any]:
        job = self._job(trial)
        pipe = subprocess.PIPE
        with subprocess.Popen([self._agent, "tester"], stdin=pipe, stdout=pipe, stderr=pipe, text=True) as tester:
            # Its input stays open: the tester leaves when that ends, also if this process is killed.
            stdin, tester.stdin = tester.stdin, None
            assert stdin is not None
            try:
                with stdin:
                    with contextlib.suppress(BrokenPipeError):  # it says why on standard error
                        stdin.write(json.dumps(job) + "\n")
                        stdin.flush()
                    out, said = tester.communicate(timeout=trial.end_ns / 1e9 + GRACE_S)
            except subprocess.TimeoutExpired:
                raise MethodError("the tester did not end") from None
            finally:
                tester.kill()
        if tester.returncode:
            raise MethodError(f"the tester failed: {said.strip()}")
        found: dict[str, Any] = json.loads(out)
        return found


def require_three(interfaces: Sequence[str]) -> None:
    """Raises UnavailableError unless these are three interfaces or more."""
    if len(set(interfaces)) != len(interfaces) or len(interfaces) < 3:
        raise UnavailableError(f"--between: expected three or more interfaces, found {', '.join(interfaces)}")


def _accuracy(rig: BetweenRig, stream: Stream, sent: npt.NDArray[np.int64], due: npt.NDArray[np.int64]) -> Accuracy:
    wire = (stream.ip_bytes + rig.overhead_bytes) * 8e9
    span, gap = float(sent[-1] - sent[0]), wire / stream.wire_bps
    late = sent - due
    # A sender that was late sends the rest faster if its port allows that, so it may end in time.
    behind = max(float(sent[0] - stream.start_ns), span - gap * (len(sent) - 1))
    return Accuracy(
        stream.wire_bps, wire * (len(sent) - 1) / span, float(np.median(late)), float(np.quantile(late, 0.99)),
        behind, max(_LATE * (stream.stop_ns - stream.start_ns), gap),
    )  # fmt: skip


def _lateness(attempt: tuple[Observation, Sequence[Accuracy]]) -> float:
    """How late the latest sender was, in units of what it may be."""
    return max((one.behind_ns / one.allowed_ns for one in attempt[1]), default=0.0)

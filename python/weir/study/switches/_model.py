"""A rig around a model: the simulator's switch, with a tester at each port."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from weir.scenario import parse
from weir.study.switches._rig import Instants, Observation, Stream, Trial

__all__ = ["INPUTS", "OUTPUTS", "ModelRig"]

INPUTS, OUTPUTS = 4, 3
_RATE = 1_000_000_000
_CLOCK_PPM = 50
"""The output ports' clocks are slower than the senders' by half of what Ethernet allows, so that phases drift."""
_STEP_NS = 50_000_000
_COLUMNS = {"time_ns": pl.Int64, "event": pl.String, "link": pl.Int64, "flow": pl.Int64, "number": pl.Int64}


class ModelRig:
    """Senders h0, h1 ... and receivers around a switch of the simulator. See :class:`weir.study.switches.Rig`."""

    exact = True
    inputs, outputs = INPUTS, OUTPUTS

    def __init__(
        self,
        switch: str,
        *,
        seed: int = 1,
        base: str = "<switch>",
        rate_bps: float = _RATE,
        overhead_bytes: int = 38,
    ) -> None:
        """A rig around ``switch``, YAML of the scenario language.

        Args:
            switch: The switch.
            seed: Of random choices.
            base: The name of the text in problems.
            rate_bps: Of all ports; the clocks of the outputs are a little slower.
            overhead_bytes: Bytes that an IP packet has besides on the wire.

        Raises:
            ScenarioError: it is no switch.
        """
        self.rate_bps = float(rate_bps)
        self.out_bps = float(round(rate_bps * (1 - _CLOCK_PPM * 1e-6)))
        self.overhead_bytes = overhead_bytes
        self.seed = seed
        self.yaml = switch
        workload = f"workload:\n  - {{name: s, kind: cbr, between: [h0, h{INPUTS}], rate: 1kbps, until: 1ms}}\n"
        (cell,) = parse(self._text(workload), file=base).cells()
        self._plan = cell.plan()

    def _text(self, workload: str) -> str:
        """A scenario with the switch, the hosts of the rig and this workload."""
        return (
            f"title: rig\nseed: {self.seed}\ntopology:\n  star:\n    hosts: {INPUTS + OUTPUTS}\n"
            f"    overhead: {self.overhead_bytes}B\n"
            f"    access: {{rate: {self.rate_bps:.0f}bps, queue: 5000packets}}\n"
            f"    port: {{rate: {self.out_bps:.0f}bps}}\n"
            f"    switch: {self.yaml}\n{workload}measure: {{goodput: 1ms, tcp: 0, links: 0}}\n"
        )

    @property
    def switch(self) -> dict[str, Any]:
        """The switch in the form of the plan."""
        (found,) = [node["switch"] for node in self._plan["nodes"] if "switch" in node]
        return dict(found)

    def senders(self, output: int) -> tuple[int, ...]:
        """See :meth:`weir.study.switches.Rig.senders`."""
        return tuple(range(INPUTS))

    def observe(self, trial: Trial) -> Observation:
        """See :meth:`weir.study.switches.Rig.observe`."""
        plan = self._plan_of(trial.streams, trial.end_ns, goodput_ns=trial.end_ns)
        window = {"flows": [], "from_ns": 0, "to_ns": trial.end_ns, "max_packets": 10**9}
        plan["measure"] |= {"trace": window}
        count = len(trial.streams)
        parts: list[pl.DataFrame] = []
        pauses: list[tuple[int, int, bool]] = []
        for tables, log in _executed(plan):
            parts.append(log)
            pauses += _pauses(tables)
        log = pl.concat(parts)
        sent, refused, received = [], [], []
        for flow in range(count):
            own = log.filter(pl.col("flow") == flow)
            times = own.filter(pl.col("event") == "sent").sort("number")["time_ns"].to_numpy()
            out = np.full(len(times), -1, np.int64)
            came = own.filter(pl.col("event") == "received")
            out[came["number"].to_numpy() - 1] = came["time_ns"].to_numpy()
            own_queue = own.filter((pl.col("event") == "dropped") & (pl.col("link") == 2 * trial.streams[flow].input))
            lost = np.zeros(len(times), np.bool_)
            lost[own_queue["number"].to_numpy() - 1] = True
            sent.append(times)
            refused.append(lost)
            received.append(out)
        return Observation(trial, sent, refused, received, pauses)

    def counts(self, streams: Sequence[Stream], interval_ns: int, end_ns: int) -> npt.NDArray[np.int64]:
        """See :meth:`weir.study.switches.Rig.counts`."""
        plan = self._plan_of(streams, end_ns, goodput_ns=interval_ns)
        found = np.zeros((len(streams), end_ns // interval_ns), np.int64)
        for tables, _ in _executed(plan, log=False):
            rows = tables["goodput"]
            at, flow = (np.asarray(memoryview(rows[name])).astype(np.int64) for name in ("time_ns", "flow"))
            value = np.asarray(memoryview(rows["delivered_bytes"])).astype(np.int64)
            whole = at % interval_ns == 0
            np.add.at(found, (flow[whole], at[whole] // interval_ns - 1), value[whole])
        payload = np.array([stream.ip_bytes - 28 for stream in streams])
        packets: npt.NDArray[np.int64] = found // payload[:, None]
        return packets

    def _plan_of(self, streams: Sequence[Stream], end_ns: int, goodput_ns: int) -> dict[str, Any]:
        plan = copy.deepcopy(self._plan)
        (pattern,) = plan["flows"]
        plan["flows"] = [self._flow(pattern, number, stream) for number, stream in enumerate(streams)]
        plan["end_ns"] = end_ns
        plan["measure"] |= {"goodput_ns": goodput_ns}
        return plan

    def _flow(self, pattern: Mapping[str, Any], number: int, stream: Stream) -> dict[str, Any]:
        output = INPUTS + stream.output
        size = stream.ip_bytes
        rate = stream.wire_bps * size / (size + self.overhead_bytes)
        start_ns, periods = stream.start_ns, list[int]()
        if stream.instants is not None:
            start_ns, periods = _each(stream.instants)
        return {
            **pattern,
            "name": f"s{number}[0]",
            "group": f"s{number}",
            "from": stream.input + 1,
            "to": output + 1,
            "path": [2 * stream.input, 2 * output + 1],
            "reverse_path": [2 * output, 2 * stream.input + 1],
            "start_ns": start_ns,
            "stop_ns": stream.stop_ns,
            "transport": {"protocol": "udp", "payload_bytes": size - 28},
            "source": {"kind": "cbr", "rate_bps": round(rate), "periods_ns": periods},
        }


def _each(instants: Instants) -> tuple[int, list[int]]:
    """The first instant, and ON and OFF periods of which each has one packet."""
    periods = np.ones(2 * len(instants) - 1, np.int64)
    periods[1::2] = np.maximum(np.diff(instants) - 1, 0)
    return int(instants[0]), periods.tolist()


def _executed(plan: Mapping[str, Any], *, log: bool = True) -> Any:
    """The tables and the lines of the trace, part by part."""
    from weir import _weir

    simulator = _weir.Simulator(json.dumps(plan))
    head = b""
    over = False
    while not over:
        over = simulator.advance(simulator.now_ns + _STEP_NS)
        tables = simulator.drain()
        if not log:
            yield tables, None
            continue
        text = simulator.drain_trace().get("packets.csv", b"")
        if not head:
            head, _, text = text.partition(b"\n")
        content = io.BytesIO(head + b"\n" + text)
        yield tables, pl.read_csv(content, columns=list(_COLUMNS), schema_overrides=_COLUMNS)


def _pauses(tables: Mapping[str, Any]) -> list[tuple[int, int, bool]]:
    from weir import _weir

    kinds = _weir.event_kinds()
    stop, go = kinds.index("pause"), kinds.index("resume")
    events = tables["events"]
    at, kind, link = (np.asarray(memoryview(events[name])) for name in ("time_ns", "kind", "link"))
    chosen = (kind == stop) | (kind == go)
    found = zip(at[chosen].tolist(), (link[chosen] // 2).tolist(), (kind[chosen] == stop).tolist(), strict=True)
    return list(found)

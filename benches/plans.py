"""The plans of the benchmark: dumbbells with the telemetry of scenario A, a scheduler with two classes, a switch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["CASES", "SMALL", "Bench", "Case", "Scene"]

_MS = 1_000_000
_GBPS = 1_000_000_000
_ACCESS_DELAY_NS = 10_000


class Bench(Protocol):
    """A plan whose execution is measured."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def what(self) -> str:
        """What it is."""

    @property
    def bottleneck_bps(self) -> int:
        """Rate of the links that count, together."""

    def plan(self, shorter: float = 1.0) -> dict[str, Any]:
        """The plan; ``shorter`` scales the simulated time."""

    def counted(self, plan: dict[str, Any]) -> list[int]:
        """The links whose bytes count."""


@dataclass(frozen=True)
class Scene:
    """A scenario of one cell. The links that count are named ``bottleneck``, or those that leave the switch."""

    name: str
    what: str
    text: str
    bottleneck_bps: int
    simulated_s: float

    def plan(self, shorter: float = 1.0) -> dict[str, Any]:
        """The plan; ``shorter`` scales the simulated time."""
        from weir import scenario

        (cell,) = scenario.parse(f"{self.text}\nduration: {round(self.simulated_s * shorter * 1000)}ms\n").cells()
        return dict(cell.plan())

    def counted(self, plan: dict[str, Any]) -> list[int]:
        """The links whose bytes count."""
        switches = {number for number, node in enumerate(plan["nodes"]) if node.get("switch") is not None}
        links = enumerate(plan["links"])
        return [number for number, link in links if link["name"] == "bottleneck" or link["from"] in switches]


@dataclass(frozen=True)
class Case:
    """A dumbbell: ``flows`` bulk flows, each between its own hosts, through one bottleneck."""

    name: str
    what: str
    flows: int
    access_bps: int
    bottleneck_bps: int
    rtt_ns: int
    mtu_bytes: int
    simulated_s: float
    stagger_ns: int = 0
    """Time between the starts of two flows."""

    def plan(self, shorter: float = 1.0) -> dict[str, Any]:
        """The plan; ``shorter`` scales the simulated time."""
        bdp = self.bottleneck_bps * self.rtt_ns // (8 * 1_000 * _MS)
        links = [self._link("bottleneck", 0, 1, self.bottleneck_bps, max(bdp, 125_000), nic=False)]
        links.append(self._link("bottleneck back", 1, 0, self.bottleneck_bps, max(bdp, 125_000), nic=False))
        nodes = [{"name": "left", "kind": "router"}, {"name": "right", "kind": "router"}]
        flows = []
        for i in range(self.flows):
            source, sink = len(nodes), len(nodes) + 1
            nodes += [{"name": f"src{i}", "kind": "host"}, {"name": f"dst{i}", "kind": "host"}]
            first = len(links)
            links += [
                self._link(f"src{i}->left", source, 0, self.access_bps, 12_500_000, nic=True),
                self._link(f"right->dst{i}", 1, sink, self.access_bps, 12_500_000, nic=False),
                self._link(f"dst{i}->right", sink, 1, self.access_bps, 12_500_000, nic=True),
                self._link(f"left->src{i}", 0, source, self.access_bps, 12_500_000, nic=False),
            ]
            path, back = [first, 0, first + 1], [first + 2, 1, first + 3]
            flows.append(self._flow(i, source, sink, path, back, bdp))
        return {
            "version": 1,
            "title": self.what,
            "seed": 1,
            "end_ns": round(self.simulated_s * shorter * 1e9),
            "nodes": nodes,
            "links": links,
            "flows": flows,
            "changes": [],
            "measure": {"goodput_ns": 500 * _MS, "tcp_ns": 20 * _MS, "links_ns": 20 * _MS, "links": [0, 1]},
            "phases": [],
        }

    def counted(self, plan: dict[str, Any]) -> list[int]:
        """The bottleneck."""
        return [0]

    def _link(self, name: str, start: int, end: int, rate: int, queue_bytes: int, *, nic: bool) -> dict[str, Any]:
        bottleneck = name.startswith("bottleneck")
        delay_ns = self.rtt_ns // 2 - 2 * _ACCESS_DELAY_NS if bottleneck else _ACCESS_DELAY_NS
        return {
            "name": name,
            "from": start,
            "to": end,
            "rate_bps": rate,
            "overhead_bytes": 38,
            "mtu_bytes": self.mtu_bytes,
            "delay": {"kind": "fixed", "delay_ns": delay_ns},
            "queue": {"kind": "droptail", "limit": {"bytes": queue_bytes}},
            "host_nic": nic,
        }

    def _flow(self, i: int, source: int, sink: int, path: list[int], back: list[int], bdp: int) -> dict[str, Any]:
        return {
            "name": f"elephants[{i}]",
            "group": "elephants",
            "index": i,
            "stream": 0,
            "role": "test",
            "from": source,
            "to": sink,
            "path": path,
            "reverse_path": back,
            "start_ns": i * self.stagger_ns,
            "stop_ns": None,
            "transport": {
                "protocol": "tcp",
                "cc": "cubic",
                "stack": "linux",
                "mss_bytes": self.mtu_bytes - 52,
                "timestamps": True,
                "sack": True,
                "ecn": False,
                "initial_window": 10,
                "send_buffer_bytes": max(50_000_000, 3 * bdp),
                "receive_buffer_bytes": max(50_000_000, 3 * bdp),
                "pacing": False,
                "ack": "delayed",
            },
            "source": {"kind": "bulk"},
            "dscp": 0,
        }


def _wide(name: str, flows: int, mtu: int, simulated_s: float) -> Case:
    what = f"{flows} flows on 100 Gb/s, 100 ms, {mtu} B" if flows > 1 else f"1 flow on 100 Gb/s, 100 ms, {mtu} B"
    return Case(name, what, flows, 100 * _GBPS, 100 * _GBPS, 100 * _MS, mtu, simulated_s, 1 * _MS)


_CLASSES = """
title: One TCP flow in a class of 90 %, constant UDP in the other, DataTAG section 7
topology:
  dumbbell:
    pairs: 2
    access: {rate: 1Gbps, queue: 50000packets}
    bottleneck:
      rate: 1Gbps
      queue: {QUEUE}
    reverse: {rate: 1Gbps, queue: 2000packets}
    rtt: 118ms
transport: {cc: scalable, stack: linux-2.6, buffers: 100MB}
workload:
  - {name: tcp, between: "pairs[0]", kind: bulk, dscp: af11}
  - {name: udp, between: "pairs[1]", kind: cbr, rate: 970Mbps, background: true}
measure: {goodput: 1s, tcp: 200ms, links: 1s}"""
_WRR = (
    "{wrr: {classes: {af: {dscp: af11, weight: 90%, priority: high, queue: 15000packets}, "
    "be: {weight: 10%, priority: low, queue: 1667packets}}}}"
)
_PORTS = 16
_SWITCH = "\n".join(
    [
        "title: Each of 16 ports sends to two others, each gets from two",
        f"topology: {{star: {{hosts: {_PORTS}, access: {{rate: 1Gbps, delay: 500us, clocks: 0.01%}}, switch: fair}}}}",
        "transport: {cc: cubic}",
        "workload:",
        *(
            f"  - {{name: f{step}x{port}, kind: bulk, between: [h{port}, h{(port + step) % _PORTS}]}}"
            for step in (1, 5)
            for port in range(_PORTS)
        ),
        "measure: {goodput: 500ms, tcp: 20ms, links: 100ms}",
    ]
)
CASES: tuple[Bench, ...] = (
    Case("a20", "12 x 1 Gb/s into 10 Gb/s, 20 ms", 12, _GBPS, 10 * _GBPS, 20 * _MS, 1500, 30, 100 * _MS),
    Case("a100", "12 x 1 Gb/s into 10 Gb/s, 100 ms", 12, _GBPS, 10 * _GBPS, 100 * _MS, 1500, 30, 100 * _MS),
    _wide("b1-1500", 1, 1500, 6),
    _wide("b1-9000", 1, 9000, 10),
    _wide("b128-1500", 128, 1500, 5),
    _wide("b128-9000", 128, 9000, 10),
    Case("c", "1000 flows on 1 Gb/s, 20 ms", 1000, _GBPS, _GBPS, 20 * _MS, 1500, 60, 1 * _MS),
    Scene("classes", "2 classes of wrr on 1 Gb/s, 118 ms", _CLASSES.replace("{QUEUE}", _WRR), _GBPS, 120),
    Scene("one-queue", "the same loads in one queue", _CLASSES.replace("{QUEUE}", "15000packets"), _GBPS, 120),
    Scene("switch", "switch of 16 x 1 Gb/s, 32 TCP flows, 2 ms", _SWITCH, _PORTS * _GBPS, 10),
)

SMALL = Case("small", "2 flows on 10 Mb/s, 20 ms", 2, _GBPS // 10, _GBPS // 100, 20 * _MS, 1500, 2)
"""A cell of a few milliseconds of work."""

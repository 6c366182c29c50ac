"""Measures the response function and the fairness of every congestion control in the simulator.

Without arguments it measures all, some minutes; with ``--missing``, what is not stored yet. It stores the figures in
``docs/response-functions/data.json``; ``make docs`` makes pages and pictures of them. ``--check`` measures some of them
again and compares.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import math
import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import yaml

from weir import _weir, methods, scenario

DATA = Path(__file__).parent.parent / "docs" / "response-functions" / "data.json"

RTT_S = 0.1
LOSS_RATES = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5)
RATED = ("reno", "cubic", "bbr", "bbr3")
"""Controls whose goodput on a path with a rate is measured: BBR has no window that losses alone decide, and the others
are there for comparison."""
RATED_LOSS_RATES = (1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 2e-2, 5e-2, 1e-1, 1.5e-1, 2e-1, 3e-1)
RATE_BPS = 100_000_000
RATED_FROM_S, RATED_TO_S = 10, 60
"""The path of BBR's paper, figure 8, and the time over which goodput is measured on it."""
SETTLING, MEASURED = 16, 12
"""Losses before and during the measurement."""
MARKED: Mapping[str, Sequence[int]] = {"dctcp": (100,), "prague": (100, 10)}
"""Controls that react to the share of marks, and the round-trip times at which that is measured, ms. Prague's differs
below 25 ms."""
MARKED_PACKETS = {
    0.1: 1_000_000,
    0.05: 1_000_000,
    0.03: 2_000_000,
    0.02: 2_000_000,
    0.01: 4_000_000,
    0.003: 16_000_000,
    0.001: 60_000_000,
}
"""Packets of a measurement, by probability of marks. A window forgets its beginning within some 5 / p^2 packets; the
first third, at least 20 / p^2, is for that. The rest leaves an error of about 1 %."""
MARK_RATES = tuple(MARKED_PACKETS)
EQUAL, UNEQUAL = (40, 40), (20, 100)
"""Round-trip times of both flows, ms."""
SHARED_FROM_S, SHARED_TO_S = 20, 100
"""The time over which the goodput of two flows is compared."""
STEPS = "steps"
STEP_FLOWS, STEP_EVERY_S, STEP_S = 5, 4, 40
STEP_BIN_MS = 200
"""Flows of a control with explicit feedback: they begin one after the other, and stop so from the middle on."""
_PAYLOAD = 1448
_RATED = "rate:"
_MARKED = "mark:"
_CHEAP = (1e-4, 1e-2)
"""A check measures responses at this loss rate, or probability of marks, and above, which take a second each."""
_SAMPLE = 6
"""Figures that a check measures again."""

Figure = tuple[str, str]
"""A control and the loss rate (behind ``rate:`` if it is one of `RATED_LOSS_RATES`), the probability of marks (behind
``mark:`` and a round-trip time) or the round-trip times, as the data name them."""


class _Memory:
    """A sink that keeps tables in memory."""

    def __init__(self) -> None:
        self.batches: defaultdict[str, list[pa.RecordBatch]] = defaultdict(list)

    def write(self, table: str, rows: pa.RecordBatch) -> None:
        self.batches[table].append(rows)

    def open(self, name: str) -> BinaryIO:
        raise OSError(f"no file {name} is expected")

    def column(self, table: str, name: str) -> npt.NDArray[Any]:
        return np.concatenate([rows.column(name).to_numpy(zero_copy_only=False) for rows in self.batches[table]])


def controls() -> list[str]:
    """weir's congestion controls, in the registry's order."""
    return [str(one["name"]) for one in json.loads(_weir.cc_list())]


def explicit() -> dict[str, str]:
    """The controls that get explicit feedback, each with the queue that gives it."""
    return {str(one["name"]): str(one["queue"]) for one in json.loads(_weir.cc_everywhere()) if one["queue"]}


def everyone() -> list[str]:
    """All controls that are measured."""
    return [*controls(), *explicit()]


def figures() -> list[Figure]:
    """All that is measured."""
    kinds = [f"{p:g}" for p in LOSS_RATES] + [_pair(EQUAL), _pair(UNEQUAL)]
    rated = [rated_kind(p) for p in RATED_LOSS_RATES]
    known = controls()
    found = list(itertools.product(known, kinds)) + [one for one in itertools.product(known, rated) if one[0] in RATED]
    found += [(name, marked_kind(rtt, p)) for name, rtts in MARKED.items() for rtt in rtts for p in MARK_RATES]
    return found + [(name, STEPS) for name in explicit()]


def marked_kind(rtt_ms: int, p: float) -> str:
    """The name of the mean window at a round-trip time and a probability of marks."""
    return f"{_MARKED}{rtt_ms}:{p:g}"


def rated_kind(p: float) -> str:
    """The name of the goodput at a loss rate."""
    return f"{_RATED}{p:g}"


def measure(figure: Figure) -> Any:
    """A mean window, packets, or ``None`` without one; the goodput of two flows by second, or of one, b/s; or what
    :func:`steps` finds."""
    name, kind = figure
    if kind == STEPS:
        return steps(_executed(_stepping(name)))
    if kind.startswith(_MARKED):
        rtt_ms, p = kind.removeprefix(_MARKED).split(":")
        return settled_window(_executed(_marking(name, int(rtt_ms), float(p))))
    if kind.startswith(_RATED):
        return rated(_executed(_limited(name, float(kind.removeprefix(_RATED)))))
    if "," not in kind:
        return mean_window(_executed(_losing(name, float(kind))))
    return goodput(_executed(_sharing(name, [int(rtt) for rtt in kind.split(",")])))


def _pair(rtts_ms: Iterable[int]) -> str:
    return ",".join(map(str, rtts_ms))


# Scenarios -----------------------------------------------------------------------------------------------------------


def _losing(name: str, p: float) -> dict[str, Any]:
    """A transfer that loses a packet every ``1 / p``, on a path whose rate and queue do not matter.

    The first loss is where slow start has reached about the window that is expected, or 1.5 / sqrt(p) packets.
    """
    from responses_oracles import ORACLES

    expected = ORACLES[name].window(p) if name in ORACLES else 1.5 / math.sqrt(p)
    period = round(1 / p)
    losses = [round(expected) + k * period for k in range(SETTLING + MEASURED + 1)]
    return {
        "title": f"{name} at a loss rate of {p:g}",
        "seed": 1,
        "topology": {
            "dumbbell": {
                "pairs": 1,
                "access": {"rate": "100Gbps", "queue": "10000000packets"},
                "bottleneck": {"rate": "100Gbps", "queue": "10000000packets", "loss": {"list": losses}},
                "rtt": f"{RTT_S * 1000:g}ms",
            }
        },
        "transport": {"cc": name, "stack": "linux", "ack": "every", "buffers": "4GB", "processing": "0s"},
        "workload": [{"name": "flow", "between": "pairs", "kind": "transfer", "size": f"{losses[-1] * _PAYLOAD}B"}],
        "duration": "20000s",
        "measure": {"tcp": "50ms", "goodput": "1000s", "links": "1000s"},
    }


def _marking(name: str, rtt_ms: int, p: float) -> dict[str, Any]:
    """A transfer whose packets are marked at random, each on its own, on a path whose rate and queue do not matter."""
    return {
        "title": f"{name} at a probability of marks of {p:g}",
        "seed": 1,
        "topology": {
            "dumbbell": {
                "pairs": 1,
                "access": {"rate": "100Gbps", "queue": "10000000packets"},
                "bottleneck": {"rate": "100Gbps", "queue": {"marks": {"size": "10000000packets", "p": p}}},
                "rtt": f"{rtt_ms}ms",
            }
        },
        "transport": {
            "cc": name,
            "stack": "linux",
            "ack": "every",
            "buffers": "4GB",
            "processing": "0s",
            "ecn": True,
        },
        "workload": [
            {"name": "flow", "between": "pairs", "kind": "transfer", "size": f"{MARKED_PACKETS[p] * _PAYLOAD}B"}
        ],
        "duration": "40000s",
        "measure": {"tcp": f"{rtt_ms / 2:g}ms", "goodput": "1000s", "links": "1000s"},
    }


def _limited(name: str, p: float) -> dict[str, Any]:
    """One long flow on 100 Mb/s and 100 ms that loses packets at random; the queue is one bandwidth-delay product."""
    return {
        "title": f"{name} on a path with a rate, at a loss rate of {p:g}",
        "seed": 1,
        "topology": {
            "dumbbell": {
                "pairs": 1,
                "access": {"rate": "1Gbps", "queue": "10000packets"},
                "bottleneck": {"rate": f"{RATE_BPS}bps", "queue": "1bdp", "loss": {"bernoulli": p}},
                "rtt": f"{RTT_S * 1000:g}ms",
            }
        },
        "transport": {"cc": name, "stack": "linux", "buffers": "64MB"},
        "workload": [{"name": "flow", "between": "pairs", "kind": "bulk"}],
        "duration": f"{RATED_TO_S}s",
        "measure": {"tcp": "10s", "goodput": "1s", "links": "10s"},
    }


def _sharing(name: str, rtts_ms: Sequence[int]) -> dict[str, Any]:
    """Two long flows of a control that share 50 Mb/s and a queue of 50 ms; the second begins a second later."""
    return {
        "title": f"Two flows of {name}",
        "seed": 1,
        "topology": {
            "dumbbell": {
                "pairs": 2,
                "access": {"rate": "1Gbps", "queue": "10000packets"},
                "bottleneck": {"rate": "50Mbps", "queue": "50ms"},
                "rtt": [f"{rtt}ms" for rtt in rtts_ms],
            }
        },
        "transport": {"cc": name, "stack": "linux", "buffers": "16MB"},
        "workload": [{"name": "flows", "between": "pairs", "kind": "bulk", "start": {"every": "1s"}}],
        "duration": f"{SHARED_TO_S}s",
        "measure": {"tcp": "10s", "goodput": "1s", "links": "10s"},
    }


def _stepping(name: str) -> dict[str, Any]:
    """Five flows that begin 4 s after each other and stop so from 24 s on, over 100 Mb/s and 80 ms."""
    return {
        "title": f"Flows of {name} begin and stop",
        "seed": 1,
        "topology": {
            "dumbbell": {
                "pairs": STEP_FLOWS,
                "access": {"rate": "1Gbps", "queue": "10000packets"},
                "bottleneck": {"rate": f"{RATE_BPS}bps", "queue": {explicit()[name]: {"size": "1bdp"}}},
                "rtt": "80ms",
            }
        },
        "transport": {"cc": name, "buffers": "16MB"},
        "workload": [
            {
                "name": "flows",
                "between": "pairs",
                "kind": "bulk",
                "start": {"every": f"{STEP_EVERY_S}s"},
                "stop": {"every": f"{STEP_EVERY_S}s", "first": f"{STEP_S - 4 * STEP_EVERY_S}s"},
            }
        ],
        "duration": f"{STEP_S}s",
        "measure": {"tcp": "10s", "goodput": f"{STEP_BIN_MS}ms", "links": f"{STEP_BIN_MS}ms"},
    }


def _executed(document: Mapping[str, Any]) -> _Memory:
    plan = scenario.parse(yaml.safe_dump(dict(document), sort_keys=False)).cells()[0].plan()
    sink = _Memory()
    methods.get("sim").execute(json.dumps(plan), sink, lambda *_: None)
    return sink


# Figures -------------------------------------------------------------------------------------------------------------


def mean_window(tables: _Memory) -> float | None:
    """The mean window, packets, over the losses that are measured; ``None`` if they take no ten samples."""
    lost = tables.column("samples", "retransmitted_packets")
    windows = tables.column("samples", "cwnd")[(lost >= SETTLING) & (lost < SETTLING + MEASURED)]
    return round(float(windows.mean()), 2) if len(windows) >= 10 else None


def settled_window(tables: _Memory) -> float:
    """The mean window, packets, over the last two thirds of the packets."""
    windows, sent = tables.column("samples", "cwnd"), tables.column("samples", "acked_bytes")
    return round(float(windows[sent > sent[-1] / 3].mean()), 2)


def rated(tables: _Memory) -> int:
    """The goodput of the only flow from :data:`RATED_FROM_S` to :data:`RATED_TO_S`, b/s."""
    delivered = tables.column("goodput", "delivered_bytes")
    return round(8 * int(delivered[RATED_FROM_S:].sum()) / (RATED_TO_S - RATED_FROM_S))


def goodput(tables: _Memory) -> list[list[int]]:
    """The goodput of both flows by second, b/s."""
    flow, amount = tables.column("goodput", "flow"), tables.column("goodput", "delivered_bytes")
    time_s = tables.column("goodput", "time_ns") // 1_000_000_000
    series = np.zeros((2, SHARED_TO_S), np.int64)
    series[flow, time_s - 1] = 8 * amount
    return [[int(value) for value in one] for one in series]


def steps(tables: _Memory) -> dict[str, Any]:
    """By interval the goodput of each flow, kb/s, and of the bottleneck the longest queue and what it sent, bytes.

    And the packets that it dropped in all.
    """
    bins = STEP_S * 1000 // STEP_BIN_MS
    rates = np.zeros((STEP_FLOWS, bins), np.int64)
    place = tables.column("goodput", "time_ns") // (STEP_BIN_MS * 1_000_000) - 1
    amount = tables.column("goodput", "delivered_bytes")
    rates[tables.column("goodput", "flow"), place] = amount * 8 // STEP_BIN_MS
    link, sent = tables.column("links", "link"), tables.column("links", "out_bytes")
    forward = link == max(set(link.tolist()), key=lambda number: int(sent[link == number].sum()))
    place = (tables.column("links", "time_ns") // (STEP_BIN_MS * 1_000_000) - 1)[forward]
    queue, out = np.zeros(bins, np.int64), np.zeros(bins, np.int64)
    queue[place] = tables.column("links", "queue_max_bytes")[forward]
    out[place] = sent[forward]
    dropped = int(tables.column("links", "drop_packets")[forward].sum())
    return {"goodput": rates.tolist(), "queue": queue.tolist(), "sent": out.tolist(), "dropped": dropped}


def shares(series: Sequence[Sequence[int]]) -> list[float]:
    """The mean goodput of both flows over the time that is compared, b/s."""
    return [float(np.mean(one[SHARED_FROM_S:SHARED_TO_S])) for one in series]


# The command ---------------------------------------------------------------------------------------------------------


def stored() -> dict[str, Any]:
    """The stored figures: ``date``, and ``figures`` by control and kind."""
    found: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    return found


def drawn(seed: str, count: int = _SAMPLE) -> list[Figure]:
    """Some of the cheap figures, by ``seed``; half of them are windows."""
    rates = [figure for figure in figures() if "," in figure[1] or figure[1].startswith((_RATED, STEPS))]
    windows = [figure for figure in figures() if figure not in rates]
    cheap = [(name, kind) for name, kind in windows if float(kind.rpartition(":")[2]) >= _CHEAP[_MARKED in kind]]
    dice = random.Random(seed)
    return dice.sample(cheap, count - count // 2) + dice.sample(rates, count // 2)


def differences(chosen: Sequence[Figure]) -> list[str]:
    """Measures ``chosen`` again; a line for each that is not what is stored."""
    known, lines = stored()["figures"], []
    for name, kind in chosen:
        if name not in known or kind not in known[name]:
            lines.append(f"{name} at {kind}: nothing is stored")
        elif (found := measure((name, kind))) != known[name][kind]:
            lines.append(f"{name} at {kind}: {_short(found)}; stored is {_short(known[name][kind])}")
    return lines


def _short(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(f"{share / 1e6:.3f} Mb/s" for share in shares(value))
    if isinstance(value, dict):
        return f"{value['dropped']} packets dropped, {sum(value['sent'])} bytes sent"
    if isinstance(value, int):
        return f"{value / 1e6:.3f} Mb/s"
    return "no window" if value is None else f"{value} packets"


def _measure_all(workers: int, known: Mapping[str, Mapping[str, Any]]) -> None:
    """Measures all figures but those that are ``known``."""
    found: dict[str, dict[str, Any]] = {name: dict(known.get(name, {})) for name in everyone()}
    wanted = [(name, kind) for name, kind in figures() if kind not in found[name]]
    with ProcessPoolExecutor(workers) as pool:
        for (name, kind), value in zip(wanted, pool.map(measure, wanted), strict=True):
            found[name][kind] = value
    write(datetime.datetime.now(datetime.UTC).date().isoformat(), found)


def write(date: str, found: Mapping[str, Mapping[str, Any]]) -> None:
    """Stores figures: a line for each control."""
    DATA.parent.mkdir(parents=True, exist_ok=True)
    parts = (f'"{name}": {json.dumps(values, separators=(",", ":"))}' for name, values in found.items())
    DATA.write_text(f'{{"date": "{date}", "figures": {{\n' + ",\n".join(parts) + "\n}}\n", encoding="utf-8")


def main() -> int:
    """Measures all, or checks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--missing", action="store_true", help="measure only what is not stored")
    parser.add_argument("--check", metavar="SEED", nargs="?", const="", help="measure some again, by date or SEED")
    asked = parser.parse_args()
    if asked.check is None:
        from responses_page import write_pictures

        _measure_all(asked.workers, stored()["figures"] if asked.missing else {})
        write_pictures(stored())
        print(f"wrote {DATA.parent.name}/; `make docs` makes the page")
        return 0
    seed = asked.check or datetime.datetime.now(datetime.UTC).date().isoformat()
    chosen = drawn(seed)
    lines = differences(chosen)
    for line in lines:
        print(line, file=sys.stderr)
    print(f"seed {seed}: {len(chosen)} figures measured again, {len(lines)} differ")
    if lines:
        print("If the change is meant, measure all anew: make responses", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())

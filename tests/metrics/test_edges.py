"""Cells with little or no data: a metric is undefined or reports what is missing, but never crashes."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weir.metrics import MeasuredRun, MetricError, names, open_run

from .synthetic import MS, CellSpec, FlowSpec, LinkSpec, two_classes, write_run

ARGUMENTS = {
    "lateness": "[expected: 2s]",
    "delivery.time": "[packets: 100]",
    "goodput.reach": "[rate: 30Mbps]",
    "goodput.aggregate.reach": "[share: 0.9]",
    "uif": "[legacy: elephants, baseline: {cc: reno}]",
    "ks": "[before: none]",
    "ks.weighted": "[baseline: {cc: reno}]",
    "qef": "[allocated: 100Mbps]",
    "qef.transient": "[allocated: 100Mbps, steady: none]",
    **{f"class.{name}": "[class: af]" for name in ("throughput", "share", "efficiency", "loss", "delay")},
}

WHOLE_LIFE = {"loss", "marks", "retransmissions"}
"""Counted over the life of a flow: without a value for a phase."""

MEASURED = {"goodput_ms": 1000, "tcp_ms": 100, "links_ms": 100, "delay_ms": 1000}


def _cell(flows: list[FlowSpec], links: list[LinkSpec] | None = None) -> CellSpec:
    return CellSpec(
        flows,
        links or [LinkSpec(queue=two_classes())],
        factors={"cc": "reno"},
        phases={"none": (3.1, 3.2), "all": (0, 10)},
        **MEASURED,  # type: ignore[arg-type]
    )


SAMPLES: dict[str, list[Any]] = {"cwnd": [10] * 100, "srtt_ns": [None] * 100, "min_rtt_ns": [None] * 100}

CELLS: dict[str, Callable[[], CellSpec]] = {
    "nothing was recorded": lambda: _cell([FlowSpec()]),
    "one interval": lambda: _cell([FlowSpec([1.0], stop_s=1)]),
    "nothing got through": lambda: _cell([FlowSpec([0.0] * 10, samples=SAMPLES), FlowSpec([0.0] * 10, index=1)]),
    "a flow after the end": lambda: _cell([FlowSpec([1.0] * 10), FlowSpec(index=1, start_s=10)]),
    "datagrams only": lambda: _cell([FlowSpec([1.0] * 10, protocol="udp")]),
    "a link that stands still": lambda: CellSpec(
        [FlowSpec([1.0] * 10)],
        [LinkSpec(queue=two_classes(), rows={"out_packets": [0] * 100, "in_packets": [0] * 100})],
        factors={"cc": "reno"},
        phases={"none": (3.1, 3.2), "all": (0, 10)},
        changes=[{"at_ns": 5 * MS, "link": 0, "change": {"kind": "rate", "rate_bps": 0}}],
        **MEASURED,  # type: ignore[arg-type]
    ),
    "a transfer that never ends": lambda: _cell([FlowSpec([1.0] * 10, transfers=[(0, None, 1000)])]),
    "a transfer in no time": lambda: _cell([FlowSpec([1.0] * 10, transfers=[(1, 1, 0)])]),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, MeasuredRun]:
    folder = tmp_path_factory.mktemp("edges")
    return {title: open_run(write_run(folder / str(k), [make()])) for k, (title, make) in enumerate(CELLS.items())}


@pytest.mark.parametrize("title", CELLS)
@pytest.mark.parametrize("phase", [None, "none", "all"])
@pytest.mark.filterwarnings("error")
def test_every_metric_has_a_value_or_none(runs: dict[str, MeasuredRun], title: str, phase: str | None) -> None:
    for name in names():
        if phase is not None and name in WHOLE_LIFE:
            with pytest.raises(MetricError, match="whole life"):
                runs[title].metrics(name, phase=phase)
            continue
        for value in runs[title].metrics(name + ARGUMENTS.get(name, ""), phase=phase)["value"].to_list():
            assert value is None or math.isfinite(value), name


def test_a_run_without_flows_under_test_is_undefined(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path / "run", [_cell([FlowSpec([1.0] * 10, role="background")])]))
    for name in ("goodput", "jain", "goodput.aggregate", "completion", "rtt", "loss.synchronisation"):
        assert run.metrics(name)["value"].to_list() == [None], name


def test_delays_that_nobody_asked_for_or_could_tell_are_missed_by_name(tmp_path: Path) -> None:
    flow = FlowSpec(delays_ns=[[5, 6]])
    write_run(tmp_path / "unasked", [CellSpec([flow])])
    with pytest.raises(MetricError, match=r"'delays', which this run did not record \(set `measure.delay`\)"):
        open_run(tmp_path / "unasked").metrics("delay.p95")
    write_run(tmp_path / "untold", [CellSpec([flow], delay_ms=1000, timed=False)])
    with pytest.raises(MetricError, match="lacks: the method that executed it does not measure that"):
        open_run(tmp_path / "untold", verify=False).metrics("delay.p95")


def test_a_class_that_the_queue_lacks_is_named(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path / "run", [_cell([FlowSpec([1.0] * 10)])]))
    with pytest.raises(MetricError, match="has no class 'ef'; its classes are af, be"):
        run.metrics("class.share[class: ef]")
    plain = open_run(write_run(tmp_path / "plain", [_cell([FlowSpec([1.0] * 10)], [LinkSpec()])]))
    with pytest.raises(MetricError, match="its queue has no classes"):
        plain.metrics("class.loss[class: af]")

"""Every metric against a value computed by hand; the cells are in ``cells.py``."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from weir.metrics import MeasuredRun, MetricError, catalogue, names, open_run, parse_reference
from weir.metrics.bounds import ANY
from weir.metrics.deployability import code_lines, count_code_lines
from weir.metrics.overview import has_pages

from .cells import RUNS
from .synthetic import write_run

Open = Callable[[str], MeasuredRun]

RTT_S = 0.010013024
BDP_PACKETS = 1e9 * RTT_S / (8 * 1538)
LOOP = 1e9 / 8 / 1538 * 0.010013024
LOOP_HALF = 0.25 * math.pi / math.sqrt(1 + 0.25 * math.pi**2)
FAIR = 0.5e9 * 1448 / 1538  # half of 1 Gb/s of wire, as payload
UNDEFINED = math.nan

CASES: list[tuple[str, str, float]] = [
    # two flows at 100 and 300 Mb/s
    ("pair", "goodput", 200e6),
    ("pair", "goodput.mean", 200e6),
    ("pair", "goodput.max", 300e6),
    ("pair", "goodput.min", 100e6),
    ("pair", "goodput.mean.max", 300e6),
    ("pair", "goodput.mean@early", 200e6),
    ("pair", "goodput(elephants[1])", 300e6),
    ("pair", "goodput(elephants[0:1])", 100e6),
    ("pair", "goodput.aggregate", 400e6),
    ("pair", "goodput.aggregate.max", 400e6),
    ("pair", "throughput", 200e6),
    ("pair", "throughput.aggregate.p50", 400e6),
    ("pair", "efficiency.capacity", 0.4),
    ("pair", "goodput.mode", 0.2),
    ("pair", "goodput.mode_share", 1.0),
    ("pair", "goodput.share[from: 200Mbps]", 0.5),
    ("pair", "goodput.share[from: 100Mbps, to: 300Mbps]", 0.5),
    ("pair", "jain", 0.8),
    ("pair", "fairness.minmax", 1 / 3),
    ("pair", "fairness.alpha", 0.75),  # harmonic mean 150 over arithmetic mean 200
    ("pair", "fairness.alpha[alpha: 0]", 1.0),
    ("pair", "fairness.alpha[alpha: 0.5]", ((math.sqrt(100) + math.sqrt(300)) / 2) ** 2 / 200),
    ("pair", "fairness.alpha[alpha: 200]", 0.5 * 2 ** (1 / 199)),  # towards min / mean
    ("pair", "fairness.proportional", math.sqrt(100 * 300) / 200),
    ("pair", "fairness.maxmin", 100e6 / FAIR),
    ("pair", "performability", 0.0),
    ("pair", "performability[level: 0.5]", 0.5),
    ("pair", "performability[level: 0.2]", 1.0),
    ("pair", "goodput.sd", 0.0),
    ("pair", "deployability.application", 0.0),
    ("pair", "deployability.network", 0.0),
    # one flow at 100, 200, 300, 400 Mb/s from 2 s to 6 s, sending a tenth more
    ("steps", "goodput", 250e6),
    ("steps", "goodput.last", 400e6),
    ("steps", "goodput.median", 250e6),
    ("steps", "goodput.p25", 175e6),
    ("steps", "goodput@late", 350e6),  # 3 to 4 s is partly outside
    ("steps", "goodput@nothing", UNDEFINED),
    ("steps", "goodput.aggregate", 250e6),  # from the first start to the last end
    ("steps", "goodput.sd", math.sqrt(12_500) * 1e6),
    ("steps", "goodput.variance", 12_500e12),
    ("steps", "goodput.cov", math.sqrt(12_500) / 250),
    ("steps", "goodput.normalised_sd", math.sqrt(12_500) / 250),
    ("steps", "throughput", 275e6),
    ("steps", "throughput.cov", math.sqrt(5 / 3) * 110 / 275),
    ("steps", "smoothness", 110e6),
    ("steps", "efficiency", 1 / 1.1),
    ("steps", "goodput.reach[rate: 300Mbps]", 3.0),
    ("steps", "goodput.reach[share: 0.2]", 2.0),
    ("steps", "goodput.reach[rate: 500Mbps]", 4.0),  # a bound
    ("steps", "goodput.reach[peak: 0.5]", 2.0),
    ("steps", "goodput.reach[peak: 1]@late", 2.5),  # 400 Mb/s, at 6 s
    ("steps", "goodput.aggregate.reach[share: 0.3]", 3.0),
    ("settle", "responsiveness.average", 1.0),  # mean 190: 100 is out, 200 is within a tenth
    ("settle", "responsiveness.average[tolerance: 0.6]", 0.0),
    ("settle", "responsiveness.average[tolerance: 0.01]", 10.0),  # a bound: never within
    # two flows that alternate: 0.8, 0.8, both idle, 0.5
    ("alternate", "jain.interval", 0.7),
    ("alternate", "jain.interval.min", 0.5),
    ("alternate", "jain", 250**2 / (2 * (100**2 + 150**2))),
    ("alternate", "jain.interval@idle", UNDEFINED),
    # nodes of one and of two streams, 100 Mb/s each
    ("streams", "jain", 1.0),
    ("streams", "jain.node", 0.9),
    ("streams", "goodput.node", 150e6),
    ("streams", "goodput.node.max", 200e6),
    ("streams", "deployability.application", 2 / 3),
    # transfers of 2, 4 and 1 s, and one that did not end
    ("transfers", "completion", 7 / 3),
    ("transfers", "completion.max", 4.0),
    ("transfers", "completion.median", 2.0),
    ("transfers", "completion.sd", math.sqrt((1 / 9 + 25 / 9 + 16 / 9) / 3)),
    ("transfers", "completion.cov", math.sqrt((1 / 9 + 25 / 9 + 16 / 9) / 3) / (7 / 3)),
    ("transfers", "completion@first", 1.5),
    ("transfers", "completion.count", 3.0),
    ("transfers", "completion.unfinished", 0.25),
    ("transfers", "completion.unfinished@first", 1 / 3),
    ("transfers", "completion.makespan", 10.0),  # a bound
    ("transfers", "completion.makespan(elephants[0])", 6.0),
    ("transfers", "completion.jain", 16 / (2 * 10)),  # means 3 and 1
    ("transfers", "completion.goodput", (4e6 + 2e6 + 2e6) / 3),
    ("transfers", "lateness[expected: 2s]", 1 / 3),
    # 2 s instead of 1.5 s and a round trip of 10 ms with 1538 B there and 90 B back at 1 Gb/s
    ("profile", "profile.lateness", 0.5 - 0.010013024),
    ("profile", "profile.lateness(elephants[1])", UNDEFINED),
    ("transfers", "profile.lateness", UNDEFINED),
    # pages of 3, 2 and 0.5 s, and two that did not end
    ("pages", "page.completion", 5.5 / 3),
    ("pages", "page.completion.max", 3.0),
    ("pages", "page.completion@first", 2.5),
    ("pages", "page.completion(web[0])", 3.0),
    ("pages", "page.completion(web[1])", 1.25),
    ("pages", "page.count", 3.0),
    ("pages", "page.count(elephants)", 0.0),
    ("pages", "page.completion(elephants)", UNDEFINED),
    ("pages", "page.unfinished", 0.4),
    ("pages", "page.unfinished@first", 0.0),
    ("pages", "page.unfinished(elephants)", UNDEFINED),
    ("pages", "completion.count", 8.0),
    ("transfers", "page.count", 0.0),
    ("finished", "completion.makespan", 5.0),
    # a link over two intervals of 1 s
    ("link", "link.throughput", 8 * (120_000 + 150_000) / 2),
    ("link", "link.throughput.max", 8 * 150_000),
    ("link", "link.throughput(bottleneck)", 8 * (120_000 + 150_000) / 2),
    ("link", "link.frames", 8 * (270_000 + 18 * 180) / 2),
    ("link", "utilisation", 8 * (270_000 + 38 * 180) / 2 / 1e9),
    ("slower", "utilisation.max", 8 * (150_000 + 38 * 100) / 0.5e9),
    # 1.52, 0.58, 0 and 0.4 Mbit of capacity in intervals of 100 ms; packets have 8 kbit on the wire
    ("alternating", "utilisation@first", 0.4 / 1.52),
    ("alternating", "utilisation@second", 0.08 / 0.58),
    ("alternating", "utilisation@stopped", UNDEFINED),
    ("alternating", "utilisation@last", 0.08 / 0.4),
    ("alternating", "efficiency.capacity@first", 0.38 / 1.52),
    ("alternating", "efficiency.capacity@second", 0.29 / 0.58),
    ("alternating", "efficiency.capacity@stopped", UNDEFINED),
    ("alternating", "class.share[class: af]@first", 38 * 0.008 / 1.52),
    ("alternating", "class.efficiency[class: af]@first", 38 * 0.008 / (0.8 * 1.52)),
    ("alternating", "class.efficiency[class: af]@stopped", UNDEFINED),
    # 20 % of 20 ms, then half of 80 ms, at 4 Mb/s
    ("alternating", "class.efficiency[class: be]@last", 10 * 0.008 / (0.2 * 0.08 + 0.5 * 0.32)),
    ("link", "link.loss", 20 / 200),
    # two classes over two intervals of 1 s, the second silent: 80 % and 20 % of 1 Mb/s, packets of 900 and 100 B
    ("classes", "class.throughput[class: af]", 8 * 67_500 / 2),
    ("classes", "class.share[class: af]", 8 * 75_000 / 1e6 / 2),
    ("classes", "class.share.max[class: be]", 8 * 25_000 / 1e6),
    ("classes", "class.efficiency.max[class: af]", 8 * 75_000 / 0.8e6),
    ("classes", "class.efficiency[class: be](bottleneck)", 8 * 25_000 / 0.2e6 / 2),
    ("classes", "class.loss[class: af]", 25 / 100),
    ("classes", "class.loss[class: be]", 0.0),
    ("classes", "class.delay[class: af]", 2e-3),
    # a class with two inside, which has both together: 80 and 30 packets of 900 B, the last 30 of one class only
    ("nested", "class.throughput[class: tenant]", 8 * (72_000 + 27_000) / 2),
    ("nested", "class.share.max[class: tenant]", 8 * 80_000 / 1e6),
    ("nested", "class.efficiency.max[class: tenant]", 8 * 80_000 / 0.8e6),
    ("nested", "class.efficiency.max[class: tenant.gold]", 8 * 60_000 / 0.6e6),
    ("nested", "class.loss[class: tenant]", 20 / 130),
    ("nested", "class.delay[class: tenant]", (60 * 2e-3 + 20 * 6e-3 + 30 * 3e-3) / 110),
    ("nested", "class.delay.max[class: tenant]", 3e-3),
    # an input port of a switch over two intervals; the other input's row does not count. 2 Mb of 1472 B in packets of
    # 1500 B, 18 B more as frames; sent were 4 Mb of packets
    ("ports", "port.rate", 1e6 * 1518 / 1472),
    ("ports", "port.ratio", 2e6 / 1472 / (4e6 / 1500)),
    ("ports", "port.lost", 4e6 / 8 / 1500 - 2e6 / 8 / 1472),
    ("ports", "switch.lost", 8.0),
    ("ports", "switch.loss", 8 / 16),
    ("ports", "switch.loss_run", 8 / 4),
    ("ports", "switch.loss_run_max", 5.0),
    ("ports", "switch.service_run", 8 / 4),
    ("ports", "switch.starvation", 40e-3),
    ("classes", "switch.starvation", math.nan),
    ("classes", "switch.lost", math.nan),
    ("link", "link.marks", 10 / 200),
    ("link", "queue.length", 3000.0),
    ("link", "queue.delay", (80 * 1e-3 + 100 * 3e-3) / 180),
    ("link", "queue.delay.p99", 3e-3),
    ("link", "queue.delay.p10", 1e-3),
    ("link", "queue.delay.sd", math.sqrt(80 * 100) / 180 * 2e-3),
    ("link", "queue.delay.max", 5e-3),
    # packets in intervals of 1 s, in nanoseconds: a call (100, 100, 130; none; 90, 190; 5 x 100), a bulk flow of three
    ("delays", "delay(call)", 111e-9),
    ("delays", "delay.min(call)", 90e-9),
    ("delays", "delay.max(call)", 190e-9),
    ("delays", "delay.median(call)", 100e-9),
    ("delays", "delay.p80(call)", 100e-9),
    ("delays", "delay.p90(call)", 130e-9),
    ("delays", "delay.p95(call)", 190e-9),
    ("delays", "delay.sum(call)", 1110e-9),
    ("delays", "delay.sd(bulk)", 0.0),
    ("delays", "delay(call)@early", 122e-9),
    ("delays", "delay.p50(call)@early", 100e-9),
    ("delays", "delay(call)@between", 140e-9),  # the first interval and the last are partly outside
    ("delays", "delay(call)@nothing", UNDEFINED),
    ("delays", "delay(bulk)", 200e-9),  # also of what arrives after its source has stopped
    ("delays", "delay", 1710e-9 / 13),  # all packets are one population
    ("delays", "delay.p75", 190e-9),
    ("delays", "delay(lost)", UNDEFINED),
    ("delays", "delay.jitter(call)", (0 + 30 + 40 + 100 + 90) / 9 * 1e-9),
    ("delays", "delay.jitter.p50(call)", 0.0),
    ("delays", "delay.jitter.p60(call)", 30e-9),
    ("delays", "delay.jitter.max(call)", 100e-9),
    ("delays", "delay.jitter.min(call)", 0.0),
    ("delays", "delay.jitter(call)@between", 70e-9),
    ("delays", "delay.jitter(bulk)", 0.0),
    # one TCP flow, ten samples at 100 ms; the last is at the end of the run, which a window leaves out
    ("tcp", "cwnd", 500.0),
    ("tcp", "cwnd.max", 900.0),
    ("tcp", "in_flight.max", 810.0),
    ("tcp", "rtt", (20 + 30 + 6 * 25) / 8 * 1e-3),
    ("tcp", "rtt.max", 30e-3),
    ("tcp", "rtt.queueing.max", 20e-3),
    ("tcp", "rtt.queueing@half", 15e-3),
    ("tcp", "rtt.jitter.max", 10e-3),
    ("tcp", "convergence.time", 0.7),  # 80 % of 813.8 packets is 651
    ("tcp", "convergence", 0.7 / RTT_S),
    ("tcp", "convergence.time[level: 0.5]", 0.5),
    ("tcp", "convergence.time[level: 2]", 0.9),  # a bound: the last sample inside
    ("tcp", "slow_start.time_share", 0.3),
    ("tcp", "slow_start.bytes_share", 0.3),
    ("silent", "silence", 0.3),
    ("silent", "silence@later", 0.2),
    ("silent", "silence.count", 2.0),  # 300 and 200 ms; one row without is no longer than the interval of the samples
    ("silent", "silence.count[longer: 50ms]", 3.0),
    ("silent", "silence.count[longer: 250ms]", 1.0),
    ("silent", "slow_start.entries", 2.0),
    ("silent", "slow_start.entries@later", 1.0),
    ("tcp", "slow_start.entries", 0.0),
    # 12.5 MB by 1 s, 37.5 MB by 2 s; from 3.5 s on 12.5 MB in 500 ms, then 37.5 MB in 1 s
    ("steps", "delivery.time[packets: 10000]", 1 + (14.48 - 12.5) / 25),
    ("steps", "delivery.time[packets: 10000]@late", 0.5 + (14.48 - 12.5) / 37.5),
    ("steps", "delivery.time[packets: 100000]", 4.0),
    ("steps", "delivery.time[packets: 1]@nothing", UNDEFINED),
    ("tcp", "retransmissions.rate", 20.0),
    ("tcp", "retransmissions.rate@half", 40.0),
    ("tcp", "timeouts.rate", 2.0),
    ("tcp", "timeouts.rate@half", 4.0),
    ("tcp", "loss", 10 / 200),
    ("tcp", "marks", 20 / 200),
    ("tcp", "retransmissions", 12 / 200),
    # steps of 100 ms from 1 s on: 8, 8, 5, 2 Mb/s
    ("react", "responsiveness@after(elephants[0])", 4.0),
    ("react", "aggressiveness@after(elephants[1])", 4e6),
    ("rise", "aggressiveness@after", 4e6),
    ("react", "responsiveness@after(elephants[1])", 9.0),  # a bound: it only rises, for nine whole steps
    # recoveries and timeouts of three flows
    ("events", "loss.synchronisation@start", (2 / 3 + 1 / 3) / 2),
    ("events", "loss.synchronisation[within: 4.5s]", (3 / 3 + 1 / 3) / 2),  # 1 to 5.5 s, 7 to 11.5 s
    ("events", "sawtooth", (2 + 4) / 2),  # 1-3, 3-7; a timeout lies between 7 and 8
    ("events", "sawtooth@start", 2.0),
    ("events", "timeouts", 2 / 3),
    ("events", "timeouts(elephants[2])", 1.0),
    ("events", "backoffs(elephants[0])", 5.0),
    ("events", "backoffs(elephants[1])", 2.0),
    # two flows that approach each other: off the mean by 80, 40, 4, 0 %
    ("shares", "fairness.delta", 3.0),
    ("shares", "fairness.delta[delta: 0.5]", 2.0),
    ("shares", "fairness.delta@after", 1.0),
    ("shares", "fairness.delta@before", 2.0),  # a bound
    ("ks", "ks[before: calm]@storm", 0.5),
    ("ks", "ks.weighted[before: calm]@storm", 0.5 * -math.log(0.875 * 0.125)),
    ("lossy", "ks[baseline: {loss: 0%}]{loss: 1%}", 0.5),
    ("uif", "uif[legacy: vanilla, baseline: {cc: reno}]{cc: scalable}", 100 / (1000 / 3)),
    ("uif", "uif[legacy: vanilla, baseline: {cc: reno}]{cc: reno}", 300 / (1000 / 3)),
    # UDP: 1472 B of payload in 1500 B, 1538 B on the wire
    ("qos", "qef[allocated: 200Mbps](af)", 87.5 * 1538 / 1472 / 200),
    ("qos", "qef[allocated: 200Mbps]@steady(af)", 100 * 1538 / 1472 / 200),
    ("qos", "qef.transient[allocated: 200Mbps, steady: steady](af)", 12.5 * 1538 / 1472 / 200),
    # c τ = 1 Gb/s / 8 / 1538 B * 10.013024 ms = 813.8023 packets; two flows; at β = 0.5 the right side is 0.42176
    ("loop", "stability.loop", 0.001 * LOOP**3 / 16 * (LOOP / 4 + 1 + 1 / (0.002 * LOOP)) / LOOP_HALF),
    ("loop", "stability.loop[power: 4]", 0.001 * LOOP**3 / 64 * (LOOP / 4 + 1 + 1 / (0.002 * LOOP)) / LOOP_HALF),
    ("starved", "starvation.max", 2.0),  # 0.5 and 1 Mb/s are below 1 % of 150.125 Mb/s
    ("starved", "starvation.min", 0.0),
    ("queues", "deployability.network", 1.0),
    # max-min: 1 Gb/s halves between flows 0 and 1; flow 2 takes the rest of 2 Gb/s. Shares 500, 500, 1500 of wire
    ("parking", "fairness.maxmin", 200 / (500 * 1448 / 1500)),
]

CENSORED = {
    ("steps", "goodput.reach[rate: 500Mbps]"),
    ("steps", "delivery.time[packets: 100000]"),
    ("settle", "responsiveness.average[tolerance: 0.01]"),
    ("transfers", "completion.makespan"),
    ("tcp", "convergence.time[level: 2]"),
    ("react", "responsiveness@after(elephants[1])"),
    ("shares", "fairness.delta@before"),
}


@pytest.fixture(scope="module")
def open_(tmp_path_factory: pytest.TempPathFactory) -> Open:
    opened: dict[str, MeasuredRun] = {}

    def get(name: str) -> MeasuredRun:
        if name not in opened:
            opened[name] = open_run(write_run(tmp_path_factory.mktemp(name) / "run", RUNS[name]))
        return opened[name]

    return get


@pytest.mark.parametrize(("name", "reference", "expected"), CASES)
def test_value(open_: Open, name: str, reference: str, expected: float) -> None:
    frame = open_(name).metrics(reference)
    assert frame.height == 1
    value = frame["value"][0]
    if math.isnan(expected):
        assert value is None
    else:
        assert value == pytest.approx(expected, rel=2e-6)
    assert frame["censored"][0] == ((name, reference) in CENSORED)


def test_every_metric_has_a_case() -> None:
    elsewhere = {"goodput.distribution", "completion.distribution", "deployability.code_lines",
                 "processor.senders", "processor.receivers", "processor.network"}  # fmt: skip
    tested = {parse_reference(reference).metric.name for _, reference, _ in CASES}
    assert set(names()) - tested == elsewhere


def test_goodput_distribution(open_: Open) -> None:
    frame = open_("pair").metrics("goodput.distribution")
    assert frame.height == 101
    found = {row["bin_low"]: row["value"] for row in frame.iter_rows(named=True) if row["value"]}
    assert found == {0.1: 0.5, 0.3: 0.5}
    by_flow = open_("pair").metrics("goodput.distribution", by="flow").filter(pl.col("value") > 0)
    assert by_flow.select("flow", "bin_low", "value").rows() == [("elephants[0]", 0.1, 1.0), ("elephants[1]", 0.3, 1.0)]


def test_goodput_above_the_rate_of_the_path_is_in_the_last_bin(tmp_path: Path) -> None:
    from .synthetic import CellSpec, FlowSpec

    run = open_run(write_run(tmp_path / "run", [CellSpec([FlowSpec([990.0, 1000.0, 1010.0, 2000.0])])]))
    found = run.metrics("goodput.distribution").filter(pl.col("value") > 0).select("bin_low", "value").rows()
    assert found == [(0.99, 0.25), (1.0, 0.75)]


def test_completion_distribution(open_: Open) -> None:
    frame = open_("transfers").metrics("completion.distribution")
    third = pytest.approx(1 / 3)
    assert frame.select("bin_low", "bin_high").rows() == [(1, 2), (2, 3), (3, 4), (4, 5)]
    assert frame["value"].to_list() == [third, third, 0.0, third]
    wide = open_("transfers").metrics("completion.distribution[width: 5s]")
    assert wide.select("bin_low", "bin_high", "value").rows() == [(0, 5, 1.0)]


def test_lines_of_code_leave_out_blanks_and_comments() -> None:
    source = """
    // a comment
    int f(void) { /* one line */
        char *s = "/* no comment */ // neither";

        /* two
           lines */ return 0;  // the end
    }
    """
    assert count_code_lines(source) == 4


def test_lines_of_code_of_a_congestion_control(open_: Open) -> None:
    source = Path(__file__).parents[2] / "cc" / "reno" / "reno.c"
    expected = count_code_lines(source.read_text())
    assert 10 < expected < 200
    assert open_("pair").metrics("deployability.code_lines")["value"].to_list() == [expected]
    for name in ("linux:reno", "./my_cc.so", "../reno", "nothing"):
        assert math.isnan(code_lines(name))


@pytest.mark.parametrize(
    ("name", "reference", "problem"),
    [
        ("steps", "cwnd", "did not record.*measure.tcp"),
        ("steps", "utilisation", "did not record.*measure.links"),
        ("tcp", "loss@half", "whole life"),
        ("steps", "goodput@lat", "no phase 'lat'.*Did you mean 'late'"),
        ("pair", "goodput(elephant)", "no flow 'elephant'.*elephants"),
        ("pair", "goodput(elephants[7])", "no flow"),
        ("link", "utilisation(bottlenek)", "no link.*bottleneck"),
        ("pair", "goodput.reach[rate: 1Mbps, share: 1]", "one of the parameters"),
        ("pair", "goodput.aggregate.reach", "one of the parameters"),
        ("pair", "fairness.alpha[alpha: -1]", "negative"),
        ("pair", "lateness", "needs 'expected'"),
        ("pair", "goodput.reach[rate: 5s]", "a quantity in bit/s"),
        ("pair", "ks", "one of the parameters"),
        ("ks", "ks[before: x]@storm", "no phase 'x'"),
        ("lossy", "ks[baseline: {los: 0%}]", "no factor 'los'.*loss"),
        ("lossy", "ks[baseline: {loss: 5%}]", "no cell has"),
        ("qos", "qef[allocated: 0bps]", "positive"),
        ("loop", "stability.loop[beta: 1]", "between 0 and 1"),
        ("pair", "jain.mean.max", "at most 1"),
        ("pair", "goodput.maximum", "no 'maximum'"),
        ("pair", "godput", "Did you mean 'goodput'"),
    ],
)
def test_what_cannot_be_computed_says_why(open_: Open, name: str, reference: str, problem: str) -> None:
    with pytest.raises(MetricError, match=problem):
        open_(name).metrics(reference)


def test_values_are_within_the_bounds_that_metrics_declare(open_: Open) -> None:
    """Intervals are cut at the bounds, so a wrong bound would hide possible values."""
    outside = {}
    for name, reference, _ in CASES:
        bounds = parse_reference(reference).bounds
        for value in open_(name).metrics(reference)["value"].drop_nulls():
            if not bounds.low - 1e-9 <= value <= bounds.high + 1e-9:
                outside[name, reference] = value
    assert outside == {}


def test_every_metric_says_what_values_it_can_have() -> None:
    """Only differences can be negative; they declare no bounds."""
    unbounded = {"aggressiveness", "lateness", "port.lost", "profile.lateness", "qef.transient"}
    assert {info.name for info in catalogue() if info.bounds == ANY} == unbounded


def test_the_overview_knows_runs_with_pages(open_: Open) -> None:
    assert has_pages(open_("pages"))
    assert not has_pages(open_("transfers"))
    assert not has_pages(open_("pair"))

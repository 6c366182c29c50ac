"""Scenarios through this host's kernel, at rates that any machine can carry."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from emul_support import cell_of, manifest_of, needs_emul, remains_of, text, weir

from shared import Memory, assert_share, execute, marking, marks_of, plan_of
from weir.bpf import status
from weir.hosts import selfcheck
from weir.hosts.congestion import kernel_names
from weir.hosts.congestion import obstacle as lacking_control
from weir.hosts.network import Network
from weir.hosts.wiring import Wiring, wire
from weir.methods import Live, MethodError, get
from weir.plan import typed

pytestmark = needs_emul()


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert remains_of({os.getpid()}) == []


def frame(sink: Memory, table: str) -> pl.DataFrame:
    found = pl.from_arrow(sink.table(table))
    assert isinstance(found, pl.DataFrame)
    return found


def goodput_bps(sink: Memory, plan: dict[str, Any]) -> float:
    return float(frame(sink, "goodput")["delivered_bytes"].sum()) * 8e9 / plan["end_ns"]


@pytest.fixture(scope="module")
def shared() -> tuple[dict[str, Any], Memory]:
    """Two flows with occasional losses, executed once."""
    plan = plan_of(text(pairs=2, until="3s", cc="linux:reno", loss="0.2%"))
    return plan, execute("emul", plan)[0]


def test_the_kernel_gets_what_the_simulator_gets() -> None:
    plan = plan_of(text(until="3s", cc="linux:cubic"))
    kernel = execute("emul", plan)[0]
    ours = json.loads(json.dumps(plan).replace("linux:cubic", "cubic"))
    simulator = execute("sim", ours)[0]
    # 1448 of 1538 bytes are payload; both lose the time of slow start.
    assert goodput_bps(simulator, plan) == pytest.approx(18.5e6, rel=0.05)
    assert goodput_bps(kernel, plan) == pytest.approx(goodput_bps(simulator, plan), rel=0.1)


def test_the_emulator_marks_at_random() -> None:
    """All marks are the first flow's: the packets of the other one cannot carry any, and pass."""
    plan = plan_of(marking())
    sink, _ = execute("emul", plan)
    found = marks_of(sink, plan)
    assert found[1] > 1000
    assert_share(found, 0.1)


def test_the_tables_agree_with_each_other(shared: tuple[dict[str, Any], Memory]) -> None:
    plan, run = shared
    flows, goodput, links = frame(run, "flows"), frame(run, "goodput"), frame(run, "links")
    assert flows["flow"].to_list() == [0, 1]
    by_flow = goodput.group_by("flow").agg(pl.col("delivered_bytes").sum()).sort("flow")
    assert flows["delivered_bytes"].to_list() == by_flow["delivered_bytes"].to_list()
    assert (flows["established_ns"] >= flows["start_ns"] + 20_000_000).all()
    assert (flows["delivered_bytes"] <= flows["sent_bytes"]).all()
    assert flows["lost_packets"].sum() > 0
    forward = plan["flows"][0]["path"][1]
    bottleneck = links.filter(pl.col("link") == forward)
    assert bottleneck["drop_packets"].sum() == flows["lost_packets"].sum()
    assert bottleneck["out_packets"].sum() <= bottleneck["in_packets"].sum()
    assert bottleneck["queue_max_bytes"].max() <= plan["links"][forward]["queue"]["limit"]["bytes"]
    samples = frame(run, "samples")
    assert set(samples["flow"].unique()) == {0, 1}
    assert samples["srtt_ns"].drop_nulls().min() > 20_000_000
    events = frame(run, "events")
    assert events["time_ns"].is_sorted()
    assert {"flow_start", "established", "recovery"} <= set(events["kind"].cast(pl.String).unique())


def test_the_cell_keeps_how_it_was_done(shared: tuple[dict[str, Any], Memory]) -> None:
    _, run = shared
    kept = {name: run.text(name) for name in run.files}
    assert "tuntap add dev weir0" in kept["commands.sh"]
    kernel = json.loads(kept["kernel.json"])
    assert kernel["cc"] == {"linux:reno": "reno"}
    assert kernel["tcp"]["net.ipv4.tcp_no_metrics_save"] == "1"
    assert json.loads(kept["job-senders.json"])["ends"] == [{"from": 0}, {"from": 1}]
    checked = json.loads(kept["selfcheck.json"])["checks"]
    assert all(check["passed"] for check in checked)
    assert {"round-trip time", "rate", "losses"} <= {check["what"] for check in checked}


def test_a_host_that_sends_small_packets_passes_the_self_check() -> None:
    """Its card is set for packets of 64 B; it would slow full ones down to 64 % of the link."""
    plan = plan_of("""
title: Small packets
seed: 1
topology:
  dumbbell: {pairs: 1, access: {rate: 5Mbps}, bottleneck: {rate: 10Mbps, queue: 100packets}, rtt: 4ms}
workload:
  - {name: one, kind: cbr, between: pairs, wire_rate: 4Mbps, packet: 64B, until: 1s}
measure: {goodput: 100ms, tcp: 0s, links: 100ms}
""")
    sink, _ = execute("emul", plan)
    rates = [check for check in json.loads(sink.text("selfcheck.json"))["checks"] if check["what"] == "rate"]
    assert [check["expected"] for check in rates] == [5.0]
    assert goodput_bps(sink, plan) == pytest.approx(4e6 * 36 / 102, rel=0.05)


def test_the_commands_can_be_replayed(shared: tuple[dict[str, Any], Memory], tmp_path: Path) -> None:
    script = tmp_path / "commands.sh"
    script.write_text(shared[1].text("commands.sh"))
    hosts = [line.split()[-1] for line in script.read_text().splitlines() if line.startswith("ip netns add")]
    listed = Path("/run/netns")
    try:
        subprocess.run(["sh", str(script)], check=True, capture_output=True, timeout=60)
        assert {*hosts} <= {path.name for path in listed.iterdir()}
        device = subprocess.run(
            ["ip", "-n", hosts[0], "-d", "link", "show", "weir0"], check=True, capture_output=True, text=True
        )
        assert "tun type tun pi off vnet_hdr on" in device.stdout
    finally:
        subprocess.run(["sh", str(script), "down"], check=True, capture_output=True, timeout=60)
    assert not {*hosts} & {path.name for path in listed.iterdir()}


def test_every_kind_of_traffic_passes() -> None:
    scenario = text(pairs=1, until="2s").replace(
        "measure:",
        "  - {name: files, between: pairs, kind: transfer, count: 3, size: 50kB, wait: 100ms}\n"
        "  - {name: voice, between: pairs, kind: cbr, rate: 1Mbps, packet: 528B, until: 2s}\n"
        "measure:",
    )
    plan = plan_of(scenario)
    run = execute("emul", plan)[0]
    flows = frame(run, "flows")
    names = {index: flow["group"] for index, flow in enumerate(plan["flows"])}
    rows = flows.with_columns(flows["flow"].replace_strict(names, return_dtype=pl.String).alias("group"))
    files = rows.filter(pl.col("group") == "files")
    assert files["transfer"].to_list() == [0, 1, 2]
    assert files["delivered_bytes"].to_list() == files["bytes"].to_list() == [50_000] * 3
    assert files["end_ns"].null_count() == 0
    voice = rows.filter(pl.col("group") == "voice").row(0, named=True)
    assert voice["established_ns"] is None
    assert voice["sent_packets"] == pytest.approx(2e6 / 8 / 528, rel=0.02)
    assert voice["delivered_bytes"] >= 500 * 0.9 * voice["sent_packets"]


def execute_often(plan: dict[str, Any]) -> None:
    """Executes the plan four times: a busy machine may be too slow to overfill a queue, which is then noted and not
    checked.
    """
    for _ in range(4):
        execute("emul", plan)


def test_a_network_that_is_not_the_plans_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(text())
    for link, values, message in (
        ("bottleneck", {"rate_bps": 15_000_000}, r"rate of src0 -> dst0 \(bottleneck\): measured .* the plan has 20 "),
        ("bottleneck", {"delay": {"kind": "fixed", "delay_ns": 15_000_000}}, "round-trip time of src0 - dst0: "),
        ("bottleneck", {"loss": {"kind": "bernoulli", "p": 0.3}}, "losses of src0 -> dst0: measured"),
        ("bottleneck", {"queue": {"kind": "droptail", "limit": {"bytes": 90_000, "packets": None}}}, "queue of bottl"),
    ):
        other = json.loads(json.dumps(plan))
        next(one for one in other["links"] if one["name"] == link).update(values)
        with monkeypatch.context() as patch:
            # The emulator gets another network than the check expects.
            original = selfcheck.SelfCheck
            patch.setattr("weir.methods.emul.SelfCheck", lambda _, wiring, other=original: other(typed(plan), wiring))
            with pytest.raises(selfcheck.SelfCheckError, match=message):
                execute_often(other)


@pytest.mark.parametrize("kind", ["codel", "fq_codel"])
def test_a_train_is_no_longer_than_a_queue_lets_it_pass(kind: str) -> None:
    """CoDel with a short interval would drop from the longer train of other queues."""
    queue = f"{{{kind}: {{target: 1ms, interval: 20ms}}}}"
    run = execute("emul", plan_of(text(until="1s").replace("{droptail: {size: 1bdp}}", queue)))[0]
    found = json.loads(run.text("selfcheck.json"))
    rates = [check for check in found["checks"] if check["what"] == "rate"]
    assert rates, found
    assert all(check["passed"] for check in rates)


def test_a_congestion_control_that_the_kernel_lacks_is_told() -> None:
    plan = plan_of(text(cc="linux:reno"))
    plan["flows"][0]["transport"]["cc"] = "linux:nonesuch"
    with pytest.raises(MethodError, match=r"no congestion control 'nonesuch'; it has .*reno"):
        execute("emul", plan)


def test_what_the_kernel_lacks_is_told_before_anything_is_executed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weir._linux.available", lambda: ("reno", "w1.2_mine"))
    monkeypatch.setattr("weir._linux._modules", lambda release: frozenset({"lp"}))
    plan = plan_of(text(cc="linux:reno"))

    def obstacle(name: str) -> str:
        plan["flows"][0]["transport"]["cc"] = name
        return lacking_control(typed(plan)) or ""

    assert [obstacle(name) for name in ("linux:reno", "linux:lp", "cubic")] == ["", "", ""]
    missing = "cc: linux:nonesuch: this kernel has no congestion control 'nonesuch'; it has reno"
    assert obstacle("linux:nonesuch") == missing
    assert obstacle("linux:htcp").endswith("it has reno. Without `linux:`, weir loads its own")


def test_ours_and_the_kernels_are_told_apart() -> None:
    plan = plan_of(text(pairs=2, cc="linux:reno"))
    for index, options in enumerate(({}, {"beta": 700})):
        plan["flows"][index]["transport"] |= {"cc": "cubic", "cc_options": options}
    if (why := status().why_not) is not None:
        pytest.skip(f"this kernel takes no congestion control of weir's: {why}")
    with kernel_names(typed(plan), dict(os.environ)) as names:
        loaded = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
        assert list(names) == ["cubic", 'cubic{"beta":700}']
        assert len({*names.values()}) == 2
        assert {*names.values()} <= {*loaded}


def test_a_command_that_fails_is_shown_and_nothing_is_left() -> None:
    from weir import _owner

    tag = _owner.new()
    wiring = wire(typed(plan_of(text())), str(tag))
    broken: Wiring = dataclasses.replace(
        wiring, up=(*wiring.up, ("ip", "-n", wiring.hosts[0].namespace, "link", "set", "nonesuch", "up"))
    )
    with pytest.raises(MethodError, match=r"(?s)ip -n weir-\S+ -batch -.*nonesuch"), Network(broken, tag):
        pytest.fail("it was entered")


def test_two_runs_at_once_do_not_meet(tmp_path: Path) -> None:
    scenario = tmp_path / "s.yaml"
    scenario.write_text(text(rate="10Mbps", until="2s"))
    arguments = ("run", str(scenario), "--method", "emul", "--no-report", "--quiet", "--out")
    runs = [weir(*arguments, str(tmp_path / name)) for name in ("a", "b")]
    outputs = [run.communicate(timeout=60) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], outputs
    for name in ("a", "b"):
        delivered = pl.read_parquet(cell_of(tmp_path / name) / "flows.parquet")["delivered_bytes"].sum()
        assert delivered * 8 / 2 == pytest.approx(9.0e6, rel=0.15)
    assert remains_of({run.pid for run in runs}) == []


def test_a_trace_is_a_capture(tmp_path: Path) -> None:
    scenario = tmp_path / "s.yaml"
    scenario.write_text(text(rate="5Mbps", until="1s"))
    run = weir(
        "run", str(scenario), "--method", "emul", "--trace", "--no-report", "--quiet", "--out", str(tmp_path / "r")
    )
    out = run.communicate(timeout=60)
    assert run.returncode == 0, out
    content = (cell_of(tmp_path / "r") / "senders.pcap").read_bytes()
    assert content[:4] == b"\x4d\x3c\xb2\xa1"
    assert len(content) > 1000


def test_who_watches_sees_flows_the_queue_and_what_comes_next() -> None:
    plan = plan_of(text(until="2s"))
    plan["flows"][0]["stop_ns"] = 1_900_000_000
    seen: list[Live] = []

    def progress(now_ns: int, live: Live | None = None, /) -> None:
        assert live is not None
        seen.append(Live.from_json(json.loads(json.dumps(live.to_json()))))

    get("emul").execute(json.dumps(plan), Memory(), progress)
    late = next(live for live in seen if live.now_ns > 1_300_000_000)
    assert [flow.name for flow in late.flows] == [plan["flows"][0]["name"]]
    assert late.flows[0].goodput_bps == pytest.approx(18.8e6, rel=0.3)
    assert late.flows[0].cwnd
    assert late.flows[0].srtt_ns
    assert late.links[0].name == "bottleneck"
    assert [event.what for event in late.upcoming] == ["flow[0] stops", "end"]


def test_the_manifest_has_what_the_host_did(tmp_path: Path) -> None:
    scenario = tmp_path / "s.yaml"
    scenario.write_text(text(rate="5Mbps", until="1s"))
    run = weir("run", str(scenario), "--method", "emul", "--no-report", "--quiet", "--out", str(tmp_path / "r"))
    out = run.communicate(timeout=60)
    assert run.returncode == 0, out
    stats = manifest_of(tmp_path / "r")["stats"]
    assert {"host.cpu0", "host.softirq", "host.steal", "emulator.lateness_p99_ns", "setup.selfcheck_s"} <= set(stats)

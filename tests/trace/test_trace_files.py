"""``weir run --trace``: every method writes the same kinds of files, and they agree with the tables of the run."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from shared import argv, dumbbell, environment
from weir import _weir, methods
from weir.run import open_cell

SCENARIO = dumbbell(
    pairs=2,
    access="rate: 50Mbps, clocks: 0.01%",
    bottleneck="rate: 20Mbps, queue: {codel: {size: 100packets, ecn: true}}, loss: 0.3%",
    rtt="20ms",
    transport="cc: CC, buffers: 2MB, ecn: true",
    workload="name: file, kind: transfer, between: 'pairs[0]', count: 2, size: 2MB, wait: 100ms",
    measure="goodput: 200ms, tcp: 20ms, links: 20ms, delay: 100ms, record: all",
).replace(
    "measure:",
    "  - {name: call, kind: cbr, between: 'pairs[1]', rate: 500kbps, packet: 500B, until: 2s}\nduration: 4s\nmeasure:",
)
SWEEP = "sweep: {topology.dumbbell.rtt: [20ms, 40ms]}\n"

_FILES = ["packets.csv", "receivers.pcap", "senders.pcap"]
_HEADER = "time_ns,event,link,flow,from,connection,kind,number,id,ip_bytes,payload_bytes,seq,ack,sack,tsval,tsecr,flags"
_PCAP = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 256, 101)
"""Nanoseconds, version 2.4, raw IP packets of which at most 256 bytes are captured."""
_DATA = pl.col("kind").is_in(["data", "datagram"])


@dataclass(frozen=True)
class Traced:
    """A cell with its trace."""

    method: str
    path: Path

    @cached_property
    def packets(self) -> pl.DataFrame:
        """The log."""
        types = {"link": pl.Int64, "sack": pl.String, "flags": pl.String}
        return pl.read_csv(self.path / "packets.csv", schema_overrides=types)

    @cached_property
    def tables(self) -> dict[str, pl.DataFrame]:
        """The tables of the run."""
        return {name: pl.read_parquet(self.path / f"{name}.parquet") for name in ("flows", "links", "delays")}

    def having(self, *conditions: pl.Expr) -> pl.DataFrame:
        """The lines of the log for which all ``conditions`` hold."""
        return self.packets.filter(*conditions)

    def by_flow(self, *conditions: pl.Expr) -> list[int]:
        """The number of such lines per flow."""
        counts = Counter(self.having(*conditions)["flow"].to_list())
        return [counts[flow] for flow in range(len(self.plan["flows"]))]

    @cached_property
    def plan(self) -> dict[str, Any]:
        """The plan."""
        plan: dict[str, Any] = open_cell(self.path).plan.raw
        return plan

    def capture(self, name: str) -> list[tuple[int, int, bytes]]:
        """The packets of a capture: time, bytes of the whole packet, its headers."""
        content = (self.path / name).read_bytes()
        assert content[:24] == _PCAP
        packets, place = [], 24
        while place < len(content):
            seconds, nanos, shown, whole = struct.unpack_from("<IIII", content, place)
            packets.append((seconds * 10**9 + nanos, whole, content[place + 16 : place + 16 + shown]))
            place += 16 + shown
        assert place == len(content)
        return packets


def run(folder: Path, text: str, method: str, *more: str) -> Path:
    """The folder of the only cell that ``weir run`` made of a scenario."""
    file = folder / "s.yaml"
    file.write_text(text.replace("CC", "reno" if method == "sim" else "linux:reno"), encoding="utf-8")
    made = ("run", str(file), "--method", method, "--no-report", "--quiet", "--out", str(folder / "r"), *more)
    ran = subprocess.run(argv(*made), env=environment(), capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr
    (cell,) = (folder / "r" / "cells").iterdir()
    return cell


def require(method: str) -> None:
    """Skips if ``method`` cannot run."""
    if (why := methods.get(method).available()) is not None:
        pytest.skip(f"{method} cannot run here: {why}")


_VARIANTS = {
    "emul-trains": ("emul", "--set", "methods.emul.offload=trains"),
    "lab-trains": ("lab", "--set", "methods.lab.offload=trains"),
    "lab-device": ("lab", "--set", "methods.lab.offload=device"),
    "lab-emulator": ("lab", "--set", "methods.lab.links=emulator"),
}


@pytest.fixture(scope="module", params=["sim", "emul", "lab", *_VARIANTS])
def traced(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Traced:
    """One cell of a sweep, traced by a method."""
    method, *more = _VARIANTS.get(request.param, (request.param,))
    require(method)
    cell = run(tmp_path_factory.mktemp("trace"), SCENARIO + SWEEP, method, "--trace", "--cell", "rtt=20ms", *more)
    return Traced(method, cell)


def test_the_files_and_their_headers_are_the_same(traced: Traced) -> None:
    assert sorted(_weir.trace_files()) == _FILES
    found = {file.name for file in traced.path.iterdir() if file.suffix in {".pcap", ".csv"}}
    assert sorted(found) == _FILES
    assert (traced.path / "packets.csv").read_text().splitlines()[0] == _HEADER
    for name in ("senders.pcap", "receivers.pcap"):
        assert len(traced.capture(name)) > 1000


def test_times_are_those_of_the_run_and_ordered(traced: Traced) -> None:
    assert traced.packets["time_ns"].is_sorted()
    first, last = traced.packets["time_ns"][0], traced.packets["time_ns"][-1]
    assert 0 <= first < 100_000_000, "the first flow starts at once"
    assert 2_000_000_000 <= last <= traced.plan["end_ns"]
    for name in ("senders.pcap", "receivers.pcap"):
        times = [time for time, _, _ in traced.capture(name)]
        assert times == sorted(times)


def test_each_packet_is_sent_once_and_ends_once(traced: Traced) -> None:
    key = ["flow", "from", "number"]
    sent = traced.having(pl.col("event") == "sent")
    ended = traced.having(pl.col("event") != "sent")
    assert not sent.select(key).is_duplicated().any()
    assert not ended.select(key).is_duplicated().any()
    both = sent.join(ended, on=key, how="full", suffix="_end", coalesce=True)
    assert both["event"].null_count() == both["event_end"].null_count() == 0, "all had time to arrive"
    path = min(link["delay"]["delay_ns"] for link in traced.plan["links"] if link["name"] == "bottleneck")
    arrived = both.filter(pl.col("event_end") == "received")
    assert (arrived["time_ns_end"] - arrived["time_ns"]).min() >= path > 0
    assert (both["time_ns_end"] >= both["time_ns"]).all()
    same = ["id", "ip_bytes", "payload_bytes", "seq", "ack", "tsval", "tsecr", "kind", "connection"]
    assert all((both[name] == both[f"{name}_end"]).all() for name in same)
    for (_, _), numbers in sent.group_by("flow", "from"):
        assert sorted(numbers["number"]) == list(range(1, len(numbers) + 1))


def test_counts_are_those_of_the_tables(traced: Traced) -> None:
    flows = traced.tables["flows"].group_by("flow").sum().sort("flow")
    sent, dropped = pl.col("event") == "sent", pl.col("event") == "dropped"
    from_sender, marked = pl.col("from") == "sender", pl.col("flags").str.contains("C").fill_null(value=False)
    assert traced.by_flow(sent, _DATA) == flows["sent_packets"].to_list()
    assert traced.by_flow(dropped, _DATA) == flows["lost_packets"].to_list()
    assert traced.by_flow(marked, ~sent, _DATA, from_sender) == flows["marked_packets"].to_list()
    resent = pl.col("flags").str.contains("R").fill_null(value=False)
    assert traced.by_flow(sent, _DATA, resent) == flows["retransmitted_packets"].to_list()
    assert flows["lost_packets"].min() > 0
    assert flows["marked_packets"].sum() > 0

    arrived = traced.tables["delays"].group_by("flow").agg(pl.col("packets").sum()).sort("flow")
    assert traced.by_flow(pl.col("event") == "received", _DATA, from_sender) == arrived["packets"].to_list()


def test_links_dropped_what_the_trace_says(traced: Traced) -> None:
    links = traced.tables["links"].group_by("link").sum().sort("link")
    drops = {row["link"]: row["drop_packets"] for row in links.to_dicts() if row["drop_packets"]}
    assert drops == Counter(traced.having(pl.col("event") == "dropped")["link"].to_list())
    assert traced.having(pl.col("event") != "dropped")["link"].null_count() == len(
        traced.having(pl.col("event") != "dropped")
    )
    entered = dict(zip(links["link"], links["in_packets"], strict=True))
    for number, flow in enumerate(traced.plan["flows"]):
        for end, path in (("sender", flow["path"]), ("receiver", flow["reverse_path"])):
            of = traced.having(pl.col("flow") == number, pl.col("from") == end, pl.col("event") == "sent")
            assert len(of) == entered.get(path[0] if path else None, 0)


def test_delays_are_those_of_the_table(traced: Traced) -> None:
    key = ["flow", "from", "number"]
    sent = traced.having(pl.col("event") == "sent", _DATA, pl.col("from") == "sender")
    arrived = traced.having(pl.col("event") == "received", _DATA, pl.col("from") == "sender")
    both = arrived.join(sent, on=key, suffix="_sent").with_columns(delay=pl.col("time_ns") - pl.col("time_ns_sent"))
    found = both.group_by("flow").agg(least=pl.col("delay").min(), most=pl.col("delay").max()).sort("flow")
    table = (
        traced.tables["delays"]
        .group_by("flow")
        .agg(least=pl.col("delay_min_ns").min(), most=pl.col("delay_max_ns").max())
    )
    assert found.cast(pl.Int64).equals(table.sort("flow").cast(pl.Int64))


def test_the_stream_is_the_transfers(traced: Traced) -> None:
    data = traced.having(pl.col("kind") == "data", pl.col("event") == "received")
    ends = (
        data.with_columns(end=pl.col("seq") + pl.col("payload_bytes")).group_by("connection").agg(pl.col("end").max())
    )
    assert ends.sort("connection").to_dicts() == [{"connection": n, "end": 2_000_000} for n in (1, 2)]
    acks = traced.having(pl.col("from") == "receiver", pl.col("kind") == "ack").group_by("connection")
    assert acks.agg(pl.col("ack").max())["ack"].to_list() == [2_000_000, 2_000_000]
    blocks = traced.having(pl.col("sack") != "")["sack"]
    assert len(blocks) > 0, "what was lost is reported"
    assert all(0 <= int(s) < int(e) <= 2_000_000 for b in blocks for s, e in [p.split("-") for p in b.split(";")])
    kinds = traced.having(pl.col("event") == "sent").group_by("kind").len()
    assert set(kinds["kind"]) == {"syn", "syn_ack", "data", "ack", "datagram"}
    assert traced.having(pl.col("flags").str.contains("E"))["from"].unique().to_list() == ["receiver"]


def test_captures_show_what_each_end_sees(traced: Traced) -> None:
    sender, received = pl.col("from") == "sender", pl.col("event") == "received"
    sent = pl.col("event") == "sent"
    for name, seen in (
        ("senders.pcap", sender & sent | ~sender & received),
        ("receivers.pcap", sender & received | ~sender & sent),
    ):
        lines = traced.having(seen).select("time_ns", "ip_bytes", "id", "payload_bytes", "flags").rows()
        packets = traced.capture(name)
        shown = []
        for time, whole, headers in packets:
            assert headers[0] >> 4 == 4
            length, number = struct.unpack_from("!HH", headers, 2)
            assert length == whole
            words = struct.unpack_from(f"!{(headers[0] & 15) * 2}H", headers)
            assert sum(words) % 0xFFFF == 0, "the checksum of the IP header"
            shown.append((time, whole, number, whole - len(headers), headers[1] & 3 == 3))
        assert sorted(shown) == sorted((*line[:4], "C" in (line[4] or "")) for line in lines)


@pytest.mark.parametrize("delay", ["100ms", "0ms"])
@pytest.mark.parametrize("method", ["sim", "lab"])
def test_a_trace_changes_no_table(tmp_path: Path, method: str, delay: str) -> None:
    require(method)
    tables = []
    for name, more in (("with", ["--trace"]), ("without", [])):
        (folder := tmp_path / name).mkdir()
        cell = run(folder, SCENARIO, method, "--set", f"measure.delay={delay}", *more)
        tables.append({file.name: file.read_bytes() for file in cell.glob("*.parquet")})
        assert (cell / "packets.csv").exists() == bool(more)
    assert tables[0] == tables[1]


@pytest.mark.parametrize("method", ["sim", "emul", "lab"])
def test_a_trace_keeps_to_its_window_flows_and_size(tmp_path: Path, method: str) -> None:
    require(method)
    trace = "measure.trace={flows: ['file'], from: 200ms, to: 1s, max_packets: 300}"
    found = Traced(method, run(tmp_path, SCENARIO, method, "--set", trace)).packets
    assert found["flow"].unique().to_list() == [0]
    assert found["time_ns"].min() >= 200_000_000
    assert found["time_ns"].max() < 1_000_000_000
    sent = found.filter(pl.col("event") == "sent")
    before = found.join(sent, on=["flow", "from", "number"], how="anti")
    assert len(sent) + len(before) == 300
    assert sent["number"].min() > 10, "packets before the window were counted"
    assert sent["seq"].max() > 10_000


@pytest.mark.parametrize("method", ["emul", "lab"])
def test_a_download_by_programs_goes_from_its_sender(tmp_path: Path, method: str) -> None:
    require(method)
    (tmp_path / "big").write_bytes(bytes(1_000_000))
    url = "http://${WEIR_PEER}:${WEIR_PORT}/big"
    command = [sys.executable, "-c", f"import urllib.request; urllib.request.urlopen('{url}').read()"]
    peer = [sys.executable, "-m", "http.server", "${WEIR_PORT}", "--directory", str(tmp_path)]
    text = dumbbell(
        pairs=1,
        bottleneck="rate: 10Mbps, queue: 20packets, loss: 0.5%",
        transport="cc: linux:reno, buffers: 2MB",
        workload=f"name: web, kind: command, between: pairs, sender: peer, until: 4s, "
        f"command: {json.dumps(command)}, peer: {json.dumps(peer)}",
        measure="delay: 500ms, trace: {}",
    )
    traced = Traced(method, run(tmp_path, text, method))
    flows = traced.tables["flows"]
    data, event = (pl.col("kind") == "data", pl.col("from") == "sender"), pl.col("event")
    assert traced.by_flow(*data, event == "sent") == flows["sent_packets"].to_list()
    assert traced.by_flow(*data, event == "dropped") == flows["lost_packets"].to_list()
    assert flows["lost_packets"].min() > 0
    assert traced.by_flow(*data, event == "received") == [traced.tables["delays"]["packets"].sum()]
    assert (
        traced.having(*data, event == "received").select(end=pl.col("seq") + pl.col("payload_bytes"))["end"].max()
        > 10**6
    )
    assert traced.having(pl.col("kind") == "syn")["from"].unique().to_list() == ["receiver"]

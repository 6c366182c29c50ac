"""Untrusted programs as workload: the commands for Linux, the remarks, and their remains."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from emul_support import cell_of, manifest_of, needs_emul, remains_of, text, weir

from shared import plan_of
from weir import methods
from weir.hosts.messages import File, FrameError, read
from weir.hosts.programs import Remains, require_settings, routes
from weir.hosts.wiring import route_options, wire
from weir.methods import MethodError
from weir.plan import typed

_SCENARIO = """\
title: Programs
seed: 1
topology:
  dumbbell:
    pairs: 2
    access: {{rate: 50Mbps}}
    bottleneck: {{rate: 20Mbps, queue: {{droptail: {{size: 1bdp}}}}}}
    rtt: 20ms
transport: {{cc: "linux:reno", buffers: 2MB}}
workload:
  - {{name: probe, kind: iperf3, between: "pairs[0]", until: {until}}}
  - name: copy
    kind: command
    between: "pairs[1]"
    start: 200ms
    command: [{python}, -I, -S, -c, "{sender}", "${{WEIR_PEER}}", "${{WEIR_PORT}}"]
    peer: [{python}, -I, -S, -c, "{receiver}", "${{WEIR_HOST}}", "${{WEIR_PORT}}"]
duration: {until}
measure: {{goodput: 200ms, tcp: 20ms, links: 20ms}}
"""
_SENDER = "import socket, sys; s = socket.create_connection(sys.argv[1:3]); s.sendall(bytes(300000)); s.close()"
_RECEIVER = (
    "import socket, sys; s = socket.create_server((sys.argv[1], int(sys.argv[2]))).accept()[0]\\n"
    "while s.recv(65536): pass\\nprint('all of it')"
)


def scenario_text(until: str = "6s") -> str:
    return _SCENARIO.format(until=until, python=sys.executable, sender=_SENDER, receiver=_RECEIVER)


@pytest.fixture(scope="module")
def plan() -> dict[str, Any]:
    return plan_of(scenario_text())


def changed(plan: dict[str, Any], flow: int, **values: object) -> dict[str, Any]:
    other = copy.deepcopy(plan)
    other["flows"][flow]["transport"] |= values
    return other


# Commands for Linux --------------------------------------------------------------------------------------------------


def test_the_route_of_a_program_has_its_congestion_control(plan: dict[str, Any]) -> None:
    wiring = wire(typed(plan), "t")
    sender, receiver = (wiring.host(plan["flows"][1][end]) for end in ("from", "to"))
    (route,) = routes(typed(plan), wiring, {"linux:reno": "reno"})
    assert route[:6] == ("ip", "-n", sender.namespace, "route", "replace", f"{receiver.address}/32")
    assert route[-2:] == ("congctl", "reno")
    made = next(c for c in wiring.up if c[:3] == route[:3] and c[4:6] == ("add", route[5]))
    assert route[6:-2] == made[6:], "what the route said before stays"


def test_segments_below_the_mtu_are_asked_of_the_receiver(plan: dict[str, Any]) -> None:
    small = changed(plan, 1, mss_bytes=1000)
    _, back = routes(typed(small), wire(typed(small), "t"), {"linux:reno": "reno"})
    assert back[-2:] == ("advmss", "1012")


def test_flows_between_the_same_hosts_must_agree(plan: dict[str, Any]) -> None:
    other = copy.deepcopy(plan)
    for key in ("from", "to", "path", "reverse_path"):
        other["flows"][0][key] = other["flows"][1][key]
    names = {"linux:reno": "reno", "linux:cubic": "cubic"}
    assert len(routes(typed(other), wire(typed(other), "t"), names)) == 1
    other["flows"][0]["transport"]["cc"] = "linux:cubic"
    with pytest.raises(MethodError, match="differ in their congestion control"):
        routes(typed(other), wire(typed(other), "t"), names)


def test_both_ends_of_a_program_with_ecn_have_its_congestion_control(plan: dict[str, Any]) -> None:
    marked = changed(plan, 1, cc="linux:dctcp", ecn=True)
    wiring = wire(typed(marked), "t")
    there, back = routes(typed(marked), wiring, {"linux:dctcp": "dctcp", "linux:reno": "reno"})
    sender, receiver = (wiring.host(marked["flows"][1][end]) for end in ("from", "to"))
    assert (there[2], back[2]) == (sender.namespace, receiver.namespace)
    assert there[-4:] == ("features", "ecn", "congctl", "dctcp")
    assert back[-2:] == ("congctl", "dctcp")
    opposite = copy.deepcopy(marked)
    for here, end in (("from", "to"), ("to", "from"), ("path", "reverse_path"), ("reverse_path", "path")):
        opposite["flows"][0][here] = marked["flows"][1][end]
    with pytest.raises(MethodError, match="differ in their congestion control"):
        routes(typed(opposite), wire(typed(opposite), "t"), {"linux:dctcp": "dctcp", "linux:reno": "reno"})


def test_ecn_is_asked_for_where_the_connection_is(plan: dict[str, Any]) -> None:
    """If the peer sends, the side that requests the data also requests the connection."""
    marked = changed(plan, 1, ecn=True)
    marked["flows"][1]["source"]["sender"] = "peer"
    flow = marked["flows"][1]
    words = route_options(typed(marked))
    assert "ecn" in words[flow["to"], flow["from"]]
    assert "ecn" not in words[flow["from"], flow["to"]]


@pytest.mark.parametrize(
    ("transport", "flow", "message"),
    [
        ({"pacing": True}, {}, r"flow copy\[0\]: pacing: a program cannot be told"),
        ({}, {"dscp": 46}, r"flow copy\[0\]: code point 46 \(dscp\): a program cannot be told"),
    ],
)
def test_what_a_program_cannot_be_told_is_refused(
    plan: dict[str, Any], transport: dict[str, Any], flow: dict[str, Any], message: str
) -> None:
    require_settings(typed(plan))
    asked = changed(plan, 1, **transport)
    asked["flows"][1] |= flow
    with pytest.raises(MethodError, match=message):
        require_settings(typed(asked))
    assert re.search(message, methods.get("lab").obstacle(asked) or ""), "also before anything is made"


def test_a_program_beside_a_flow_with_larger_buffers_is_refused(plan: dict[str, Any]) -> None:
    shared = copy.deepcopy(plan)
    shared["flows"][0]["from"] = shared["flows"][1]["from"]
    shared["flows"][0]["transport"]["send_buffer_bytes"] *= 2
    with pytest.raises(MethodError, match=r"flow copy\[0\]: send_buffer_bytes of 2000000 bytes: .* 4000000 bytes"):
        require_settings(typed(shared))


# Remains -------------------------------------------------------------------------------------------------------------


def test_files_come_between_messages() -> None:
    exact = io.BytesIO(b'{"message":"file","name":"commands/a.out","bytes":7}\none\ntwo{"message":"ready"}\n')
    assert [*read(exact)] == [File("commands/a.out", b"one\ntwo"), {"message": "ready"}]
    short = io.BytesIO(b'{"message":"file","name":"a","bytes":9}\none')
    with pytest.raises(FrameError, match="file 'a' ends after 3 of 9 bytes"):
        list(read(short))


def test_remains_are_kept_in_the_order_of_the_flows() -> None:
    class Folder:
        def __init__(self) -> None:
            self.files: dict[str, io.BytesIO] = {}

        def write(self, table: str, rows: object) -> None:
            raise AssertionError(table)

        def open(self, name: str) -> io.BytesIO:
            return self.files.setdefault(name, io.BytesIO())

    folder = Folder()
    ended = [
        {"message": "program", "flow": flow, "peer": peer} for flow, peer in (("b", False), ("a", True), ("a", False))
    ]
    Remains([File("commands/a.out", b"text")], [*ended]).keep(folder)  # type: ignore[arg-type]
    assert folder.files["commands/a.out"].getvalue() == b"text"
    facts = json.loads(folder.files["commands.json"].getvalue())
    assert facts == [{"flow": "a", "peer": False}, {"flow": "a", "peer": True}, {"flow": "b", "peer": False}]


# On this kernel ------------------------------------------------------------------------------------------------------


@needs_emul()
@pytest.mark.skipif(shutil.which("iperf3") is None, reason="iperf3 is not installed")
def test_programs_run_and_are_counted(tmp_path: Path) -> None:
    file, run = tmp_path / "s.yaml", tmp_path / "run"
    file.write_text(scenario_text())
    started = weir("run", str(file), "--method", "emul", "--force", "--no-report", "--out", str(run), "--quiet")
    said = started.communicate(timeout=120)
    assert started.returncode == 0, said
    cell = cell_of(run)
    flows = pl.read_parquet(cell / "flows.parquet").sort("flow")
    probe, copied = flows.rows(named=True)
    assert copied["sent_bytes"] - copied["retransmitted_packets"] * 1448 <= 300_000 <= copied["sent_bytes"]
    assert copied["delivered_bytes"] == 300_001, "and the end of the connection"
    assert copied["end_ns"] is not None
    assert probe["end_ns"] is None
    assert probe["lost_packets"] == probe["retransmitted_packets"]
    samples = pl.read_parquet(cell / "samples.parquet").filter(pl.col("flow") == 0)
    assert samples.height > 50
    assert (samples["cwnd"] > 0).all()
    ended = {(fact["flow"], fact["peer"]): fact for fact in json.loads((cell / "commands.json").read_text())}
    assert {key: fact["stopped"] for key, fact in ended.items()} == {
        ("probe[0]", False): True,
        ("probe[0]", True): ended["probe[0]", True]["stopped"],
        ("copy[0]", False): False,
        ("copy[0]", True): False,
    }
    assert ended["copy[0]", True]["exit_code"] == 0
    assert (cell / "commands" / "copy[0].peer.out").read_text() == "all of it\n"
    report = json.loads((cell / "commands" / "probe[0].json").read_text())
    assert report["end"]["sender_tcp_congestion"] == "reno"
    own = ended["probe[0]", True]["report"]["delivered_bytes"]
    assert abs(own - probe["delivered_bytes"]) < 0.1 * own
    assert "congctl reno" in (cell / "commands.sh").read_text()
    assert not [text for text in manifest_of(run)["warnings"] if "ended with code" in text]
    assert remains_of({started.pid}) == []


@needs_emul()
def test_nothing_is_left_of_programs_when_weir_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    sleeper = str(100_000 + os.getpid())
    file.write_text(
        text(until="60s").replace(
            "kind: bulk", f'kind: command, command: [sleep, "{sleeper}"], peer: [sh, -c, "sleep {sleeper} & wait"]'
        )
    )
    started = weir("run", str(file), "--method", "emul", "--force", "--out", str(tmp_path / "run"))
    assert eventually(lambda: len(running(sleeper)) >= 2), "command and peer have started"
    started.kill()
    started.wait()
    assert eventually(lambda: not running(sleeper))
    assert eventually(lambda: remains_of({started.pid}) == [])


def running(seconds: str) -> list[int]:
    """The processes `sleep SECONDS`."""
    found = []
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if process.name.isdigit() and (process / "cmdline").read_bytes() == f"sleep\0{seconds}\0".encode():
                found.append(int(process.name))
    return found


def eventually(holds: Callable[[], bool], seconds: float = 60.0) -> bool:
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.1)
    return holds()

"""Parity on live connections: the native build repeats the calls of the kernel's BPF build, one by one."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from bpf_support import run_in

from weir import _weir
from weir._programs import find

CONTROLS = {cc["name"]: cc for cc in json.loads(_weir.cc_list())}
EVERY = Path(__file__).parent / "every_operation.c"
RECEIVE = (
    "import socket, threading\n"
    "def drain(connection):\n"
    "    while connection.recv(1 << 16): pass\n"
    "server = socket.create_server(('10.99.0.2', 5001))\n"
    "server.settimeout(20)\n"
    "print('ready', flush=True)\n"
    "threads = [threading.Thread(target=drain, args=(server.accept()[0],)) for _ in range(2)]\n"
    "[thread.start() for thread in threads]\n"
    "[thread.join(20) for thread in threads]\n"
)
SEND = (
    "import socket, sys, threading, time\n"
    "def send():\n"
    "    connection = socket.socket()\n"
    "    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[1].encode())\n"
    "    connection.settimeout(20)\n"
    "    connection.connect(('10.99.0.2', 5001))\n"
    "    for amount in (4_000_000, 100_000, 2_000_000):\n"
    "        connection.sendall(bytes(amount))\n"
    "        time.sleep(0.3)\n"
    "    connection.close()\n"
    "threads = [threading.Thread(target=send) for _ in range(2)]\n"
    "[thread.start() for thread in threads]\n"
    "[thread.join() for thread in threads]\n"
)


def traffic(ends: tuple[str, str], name: str) -> None:
    with subprocess.Popen(run_in(ends[1], RECEIVE), stdout=subprocess.PIPE, text=True) as receiver:
        assert receiver.stdout is not None
        try:
            assert receiver.stdout.readline() == "ready\n"
            subprocess.run(run_in(ends[0], SEND, name), check=True, timeout=60)
            assert receiver.wait(20) == 0
        finally:
            receiver.kill()


def recorded(ends: tuple[str, str], cc: str, *options: str) -> dict[str, Any]:
    """The result of recording two connections with ``cc``."""
    name = f"wt{os.getpid():x}"
    command = [str(find("weir-bpf")), "record", cc, "--as", name, *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as recorder:
        assert recorder.stdout is not None
        try:
            assert json.loads(recorder.stdout.readline())["loaded"] == name
            traffic(ends, name)
            said, _ = recorder.communicate(timeout=20)
        finally:
            recorder.kill()
    found: dict[str, Any] = json.loads(said)
    assert found["differences"] == [], said
    assert found["unrecorded"] == 0
    assert found["flows"] == 2
    return found


@pytest.mark.parametrize("cc", CONTROLS)
def test_the_native_build_does_what_the_kernels_did(ends: tuple[str, str], cc: str) -> None:
    if cc in ("bbr", "bbr3", "nv"):
        pytest.skip("its state has instants of the kernel's clock, which a replay on the flow's clock cannot repeat")
    has_hystart = any(option["name"] == "hystart" for option in CONTROLS[cc]["options"])
    counts = recorded(ends, cc, *(["--option", "hystart=1"] if has_hystart else []))["operations"]
    assert counts["init"] == 2
    for operation in ["cong_control"] if CONTROLS[cc]["has_cong_control"] else ["cong_avoid", "pkts_acked"]:
        assert counts[operation] > 50
    avoids_losses = cc in ("lp", "ledbatpp")
    assert counts["ssthresh"] > (0 if avoids_losses else 2), "no packet was lost"
    assert counts["set_state"] > (0 if avoids_losses else 2)


def test_every_operation_is_given_the_same(ends: tuple[str, str]) -> None:
    counts = recorded(ends, str(EVERY), "--option", "share=300")["operations"]
    assert counts["cong_control"] > 200
    often = {"cwnd_event", "in_ack_event", "pkts_acked", "ssthresh", "set_state", "min_tso_segs", "sndbuf_expand"}
    assert all(counts.get(operation, 0) > 2 for operation in often), counts
    assert counts["release"] == 2

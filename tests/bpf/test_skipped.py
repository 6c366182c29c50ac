"""Windows on kernels that skip a call of a congestion control now and then."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from bpf_support import run_in

from weir.bpf import Loader

SKIPPED = Path(__file__).parent / "skipped_results.c"
MOST = 1000
"""More packets than the link and its queue ever hold."""

RECEIVE = (
    "import socket\n"
    "server = socket.create_server(('10.99.0.2', 5001))\n"
    "server.settimeout(20)\n"
    "print('ready', flush=True)\n"
    "connection = server.accept()[0]\n"
    "while connection.recv(1 << 16): pass\n"
)
SEND = (
    "import json, socket, struct, sys, threading, time\n"
    "connection = socket.socket()\n"
    "connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[1].encode())\n"
    "connection.settimeout(30)\n"
    "connection.connect(('10.99.0.2', 5001))\n"
    "sender = threading.Thread(target=connection.sendall, args=(bytes(20_000_000),))\n"
    "sender.start()\n"
    "seen = []\n"
    "while sender.is_alive():\n"
    "    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)\n"
    "    seen.append(struct.unpack_from('=II', info, 76) + struct.unpack_from('=I', info, 100))\n"
    "    time.sleep(0.002)\n"
    "print(json.dumps(seen))\n"
)


@pytest.mark.parametrize("stale", [0, 2_165_326_350, 497_348_337])
def test_a_threshold_that_no_control_computed_does_not_last(ends: tuple[str, str], stale: int) -> None:
    with Loader() as loader, subprocess.Popen(run_in(ends[1], RECEIVE), stdout=subprocess.PIPE, text=True) as receiver:
        name = loader.load(str(SKIPPED), {"stale": stale})
        assert receiver.stdout is not None
        try:
            assert receiver.stdout.readline() == "ready\n"
            sent = subprocess.run(
                run_in(ends[0], SEND, name), check=True, timeout=60, stdout=subprocess.PIPE, text=True
            )
            assert receiver.wait(20) == 0
        finally:
            receiver.kill()
    samples = json.loads(sent.stdout)
    assert len(samples) > 300
    assert samples[-1][2] > 2, "nothing was lost"
    wrong = [(threshold, window) for threshold, window, _ in samples if not 0 < window < MOST or threshold == stale]
    assert len(wrong) < len(samples) / 20, wrong

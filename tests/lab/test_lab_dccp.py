"""DCCP in the lab's kernel: flows with CCID 2 and CCID 3 over a lossy queue end, and deliver what is not lost."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from weir.lab import Kernel, Lab, Script

_PACKETS, _BYTES = 2000, 1000
_PROGRAM = f"""
import json, socket, sys, threading, time

SOL_DCCP, SERVICE, CCID = 269, 2, 13

def made():
    one = socket.socket(socket.AF_INET, 6, 33)  # SOCK_DCCP, IPPROTO_DCCP
    one.setsockopt(SOL_DCCP, SERVICE, (1).to_bytes(4, "big"))
    one.setsockopt(SOL_DCCP, CCID, bytes([int(sys.argv[1])]))
    return one

received = []

def receive():
    connection, _ = listener.accept()
    while data := connection.recv(2 * {_BYTES}):
        received.append(len(data))

listener = made()
listener.bind(("127.0.0.1", 5001))
listener.listen(1)
thread = threading.Thread(target=receive, daemon=True)
thread.start()
sender = made()
sender.connect(("127.0.0.1", 5001))
for _ in range({_PACKETS}):
    while True:
        try:
            sender.send(bytes({_BYTES}))
            break
        except BlockingIOError:  # its queue of packets is full
            time.sleep(0.001)
sender.close()
thread.join(60)
print(json.dumps([thread.is_alive(), sum(received), time.monotonic()]))
"""


@pytest.mark.parametrize("ccid", [2, 3])
def test_a_flow_of_dccp_ends(kernel: Kernel, tmp_path: Path, ccid: int) -> None:
    """20 Mb/s, 10 ms each way, and a queue of 30 packets for data and acknowledgements."""
    program = tmp_path / "flow.py"
    program.write_text(_PROGRAM, encoding="utf-8")
    script = Script()
    for module in kernel.protocol("dccp_ipv4"):
        script.add("insmod", str(module), "")
    path = "ip link set lo up && tc qdisc add dev lo root netem delay 10ms rate 20mbit limit 30"
    script.add("exec", "sh", "-c", path)
    script.add("exec", sys.executable, str(program), str(ccid))
    with Lab(kernel, script) as lab:
        lab.wait()
        assert lab.exit_code() == 0, lab.console()
        still, received, ended = json.loads(lab.output("stdout").read().decode().splitlines()[-1])
    assert not still
    assert 0.95 * _PACKETS * _BYTES < received <= _PACKETS * _BYTES
    assert ended < 5, "seconds: no timeout holds it up"

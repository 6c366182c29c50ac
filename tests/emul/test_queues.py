"""``weir-agent queues``: rows of table ``links`` from the counters of the kernel's queueing disciplines."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from weir import queues
from weir.hosts.messages import Frame, read
from weir.hosts.netem import queues_command
from weir.run.tables import TABLES

QUEUE = {
    "link": 0,
    "netns": "/proc/self/ns/net",
    "device": "lo",
    "flow": 3,
    "overhead_bytes": 38,
    "mtu_bytes": 1500,
    "rate_bps": 10**8,
    "marks_word": None,
}


@pytest.mark.parametrize(
    ("kind", "word"), [("red", 3), ("codel", 6), ("fq_codel", 3), ("pie", 9), ("step", 8), ("droptail", None)]
)
def test_marks_are_where_each_discipline_has_them(kind: str, word: int | None) -> None:
    """The words are those of ``tc_red_xstats`` and so on in ``linux/pkt_sched.h``."""
    assert queues.discipline(kind).marks_word == word


def _job(*queues: dict[str, Any], interval_ns: int = 1000, end_ns: int = 10**12) -> dict[str, Any]:
    return {"version": 1, "queues": queues, "interval_ns": interval_ns, "end_ns": end_ns}


def _process(*lines: object) -> subprocess.CompletedProcess[bytes]:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    return subprocess.run(queues_command(), input=text.encode(), capture_output=True, timeout=30, check=False)


def _error(done: subprocess.CompletedProcess[bytes]) -> str:
    (message,) = (json.loads(line) for line in done.stdout.splitlines())
    assert message["message"] == "error"
    return str(message["text"])


def test_a_namespace_that_is_not_there_is_told() -> None:
    done = _process(_job(QUEUE | {"netns": "/run/netns/weir-none"}))
    assert done.returncode == 1
    assert _error(done).startswith("namespace /run/netns/weir-none: ")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"version": 1}, "job: missing field"),
        (_job(QUEUE | {"rate_bps": 0}), "job.queues[0].rate_bps: 0; expected a positive rate"),
    ],
)
def test_a_job_that_is_wrong_is_refused(line: object, said: str) -> None:
    done = _process(line)
    assert done.returncode == 2
    assert _error(done).startswith(said)


def test_it_leaves_when_its_input_ends() -> None:
    done = _process(_job())
    assert done.returncode == 0
    assert [json.loads(line)["message"] for line in done.stdout.splitlines()] == ["ready"]


def test_it_takes_no_options_of_services() -> None:
    done = subprocess.run([*queues_command(), "--port", "7"], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert "queues and tester go with no service" in done.stderr


_LIVE = """
import json, socket, subprocess, sys, time
def tc(words):
    subprocess.run(["tc", "qdisc", "add", "dev", "lo", *words.split()], check=True)
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
tc("root handle 2: stab overhead 24 linklayer ethernet tbf rate 100mbit burst 10000 limit 10000")
tc("parent 2:1 handle 3: bfifo limit 100000")
child = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def tell(message):
    child.stdin.write(json.dumps(message).encode() + b"\\n")
    child.stdin.flush()
tell(json.loads(sys.argv[1]))
ready = child.stdout.readline()
tell({"command": "start", "clock": "monotonic", "reading_ns": time.monotonic_ns(), "after_ns": 10**8})
sink, source = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
sink.bind(("127.0.0.1", 0))
while child.poll() is None and time.sleep(0.01) is None:
    source.sendto(bytes(972), sink.getsockname())
sys.stdout.buffer.write(ready + child.stdout.read())
"""
"""In a network namespace of its own: a token bucket on its loopback, datagrams of 1000 IP bytes through it."""


@pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace needs root")
def test_counters_of_a_real_kernel() -> None:
    job = json.dumps(_job(QUEUE, interval_ns=10**8, end_ns=5 * 10**8))
    command = ["unshare", "--net", sys.executable, "-c", _LIVE, job, *queues_command()]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    if b"Operation not permitted" in done.stderr:
        pytest.skip("no network namespace can be made here")
    assert done.returncode == 0, done.stderr
    found = list(read(io.BytesIO(done.stdout)))
    rows = [message for message in found if isinstance(message, Frame)]
    assert {frame.table for frame in rows} == {"links"}
    assert list(rows[0].columns) == [column.name for column in TABLES["links"].columns]
    assert all(time_ns % 10**8 == 0 for frame in rows for time_ns in frame.columns["time_ns"].tolist())
    packets = sum(int(n) for table in rows for n in table.columns["out_packets"])
    assert packets > 0
    assert sum(int(n) for table in rows for n in table.columns["out_bytes"]) == 1000 * packets
    assert found[-1]["message"] == "end"  # type: ignore[index]

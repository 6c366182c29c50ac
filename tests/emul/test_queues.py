"""Counters of disciplines: as the kernel sends them, and as rows of table ``links``."""

from __future__ import annotations

import errno
import io
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from weir import queues
from weir.hosts import _queues
from weir.hosts._queues import Queue, Reading, interval_row, parse_dump
from weir.hosts.messages import Frame, read

QUEUE = Queue(link=4, device=7, overhead_bytes=38, mtu_bytes=1500, rate_bps=10_000_000, flow=0, marks_word=None)
COLUMNS = _queues._LINK_COLUMNS


def attribute(kind: int, content: bytes) -> bytes:
    padding = bytes(-len(content) % 4)
    return struct.pack("=HH", 4 + len(content), kind) + content + padding


def discipline(
    device: int, handle: int, kind: bytes, *, size: int = 0, packets: int = 0, drops: int = 0, length: int = 0,
    backlog: int = 0, app: bytes = b"",
) -> bytes:  # fmt: skip
    """A message of ``RTM_GETQDISC``'s answer (rtnetlink(7), linux/gen_stats.h)."""
    stats = attribute(1, struct.pack("=QIxxxx", size, packets))
    stats += attribute(3, struct.pack("=5I", length, backlog, drops, 0, 0))
    stats += attribute(4, app) if app else b""
    body = struct.pack("=BxxxiIII", 0, device, handle, 0xFFFF_FFFF, 0)
    body += attribute(1, kind + b"\0") + attribute(7, stats)
    return struct.pack("=IHHII", 16 + len(body), 36, 2, 1, 0) + body


DONE = struct.pack("=IHHIIi", 20, 3, 2, 1, 0, 0)


def test_a_dump_is_read_by_device_and_handle() -> None:
    content = discipline(7, 0x20000, b"tbf", size=1538, packets=1) + discipline(8, 0, b"noqueue") + DONE
    found, done = parse_dump(content)
    assert done
    assert set(found) == {(7, 0x20000), (8, 0)}
    assert (found[7, 0x20000].size, found[7, 0x20000].packets) == (1538, 1)
    assert parse_dump(discipline(7, 0x20000, b"tbf"))[1] is False


@pytest.mark.parametrize(("kind", "word"), [("red", 3), ("codel", 6), ("fq_codel", 3), ("pie", 9), ("droptail", None)])
def test_marks_are_where_each_discipline_has_them(kind: str, word: int | None) -> None:
    """The words are those of ``tc_red_xstats`` and so on in ``linux/pkt_sched.h``."""
    told = queues.discipline(kind).marks_word
    assert told == word
    app = struct.pack("=12I", *(77 if place == word else 1 for place in range(12)))
    found, _ = parse_dump(discipline(7, 0x30000, kind.encode(), app=app))
    assert found[7, 0x30000].marks(told) == (0 if word is None else 77)
    bare, _ = parse_dump(discipline(7, 0x30000, kind.encode()))
    assert bare[7, 0x30000].marks(told) == 0  # an older kernel that does not tell


def test_a_refusal_of_the_kernel_is_an_error() -> None:
    with pytest.raises(OSError, match="disciplines cannot be listed") as caught:
        parse_dump(struct.pack("=IHHIIi", 20, 2, 0, 1, 0, -errno.EPERM))
    assert caught.value.errno == errno.EPERM


def test_losses_are_told_from_drops_of_the_queue() -> None:
    """The bucket and the losses above it also count packets that the queue refuses."""
    content = discipline(7, 0x10000, b"netem", drops=15) + discipline(7, 0x20000, b"tbf", size=9000, packets=6, drops=5)
    content += discipline(7, 0x30000, b"bfifo", drops=5, length=2, backlog=3076) + DONE
    reading = _queues._reading(QUEUE, parse_dump(content)[0])
    assert reading == Reading(out_bytes=9000, out_packets=6, drops=15, queue_bytes=3076, queue_packets=2)


def test_a_row_counts_ip_bytes_and_packets_are_conserved() -> None:
    before = Reading(out_bytes=1538 * 10, out_packets=10, drops=1, queue_bytes=1538, queue_packets=1)
    now = Reading(out_bytes=1538 * 14, out_packets=14, drops=3, marks=2, queue_bytes=1538 * 3, queue_packets=3)
    found = interval_row(QUEUE, 50, before, now)
    assert found is not None
    row = dict(zip(COLUMNS, found, strict=True))
    assert (row["time_ns"], row["link"]) == (50, 4)
    assert (row["out_packets"], row["out_bytes"]) == (4, 6000)
    assert (row["drop_packets"], row["drop_bytes"]) == (2, 3000)
    assert row["in_packets"] == row["out_packets"] + row["drop_packets"] + 2
    assert row["in_bytes"] == row["out_bytes"] + row["drop_bytes"] + 3000
    assert (row["queue_packets"], row["queue_bytes"], row["queue_max_bytes"]) == (3, 4500, 4500)
    assert row["mark_packets"] == 2
    packet_ns = 1538 * 8 * 100  # at 10 Mb/s
    assert (row["queue_delay_ns"], row["queue_delay_max_ns"]) == (2 * packet_ns, 3 * packet_ns)


def test_counters_of_32_bits_may_wrap() -> None:
    before = Reading(out_bytes=10**12, out_packets=2**32 - 1, drops=2**32 - 1)
    row = interval_row(QUEUE, 1, before, Reading(out_bytes=10**12 + 3 * 1538, out_packets=2, drops=1))
    assert row is not None
    assert (row[COLUMNS.index("out_packets")], row[COLUMNS.index("drop_packets")]) == (3, 2)


def test_an_interval_in_which_nothing_was_has_no_row() -> None:
    quiet = Reading(out_bytes=1538, out_packets=1)
    assert interval_row(QUEUE, 1, quiet, quiet) is None


def test_tables_are_frames_that_the_others_read(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    tables = _queues._Tables()
    now = Reading(out_bytes=1538, out_packets=1, drops=2)
    tables.add(QUEUE, 50, Reading(), now)
    tables.flush()
    links, drops = read(io.BytesIO(capfdbinary.readouterr().out))
    assert isinstance(links, Frame)
    assert isinstance(drops, Frame)
    assert links.columns["drop_packets"].tolist() == [2]
    assert (drops.table, drops.columns["flow"].tolist(), drops.columns["packets"].tolist()) == ("drops", [0], [2])


def _process(job: object, *commands: object) -> subprocess.CompletedProcess[bytes]:
    lines = "".join(json.dumps(line) + "\n" for line in (job, *commands))
    command = [sys.executable, "-I", "-S", str(Path(_queues.__file__))]
    return subprocess.run(command, input=lines.encode(), capture_output=True, timeout=30, check=False)


def test_a_namespace_that_is_not_there_is_told() -> None:
    job = {"queues": [{"netns": "/run/netns/weir-none", "device": "weir0"}], "interval_ns": 1, "end_ns": 1}
    done = _process(job)
    assert done.returncode == 1
    (message,) = (json.loads(line) for line in done.stdout.splitlines())
    assert message["message"] == "error"
    assert "weir-none" in message["text"]


def test_it_leaves_when_its_input_ends() -> None:
    done = _process({"queues": [], "interval_ns": 1000, "end_ns": 10**12})
    assert done.returncode == 0
    assert [json.loads(line)["message"] for line in done.stdout.splitlines()] == ["ready"]


_LIVE = """
import json, socket, subprocess, sys, time
def tc(words):
    subprocess.run(["tc", "qdisc", "add", "dev", "lo", *words.split()], check=True)
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
tc("root handle 2: stab overhead 24 linklayer ethernet tbf rate 100mbit burst 10000 limit 10000")
tc("parent 2:1 handle 3: bfifo limit 100000")
queue = {"link": 0, "netns": "/proc/self/ns/net", "device": "lo", "flow": None}
queue |= {"overhead_bytes": 38, "mtu_bytes": 1500, "rate_bps": 10**8, "marks_word": None}
child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def tell(message):
    child.stdin.write(json.dumps(message).encode() + b"\\n")
    child.stdin.flush()
tell({"interval_ns": 10**8, "end_ns": 5 * 10**8, "queues": [queue]})
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
    program = (sys.executable, "-I", "-S", _queues.__file__)
    command = ["unshare", "--net", sys.executable, "-c", _LIVE, *program]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    if b"Operation not permitted" in done.stderr:
        pytest.skip("no network namespace can be made here")
    assert done.returncode == 0, done.stderr
    rows = [message for message in read(io.BytesIO(done.stdout)) if isinstance(message, Frame)]
    packets = sum(int(n) for table in rows for n in table.columns["out_packets"])
    assert packets > 0
    assert sum(int(n) for table in rows for n in table.columns["out_bytes"]) == 1000 * packets

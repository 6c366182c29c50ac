"""The link's effect on real packets through real devices."""

from __future__ import annotations

import random
import socket
import struct
import time
from pathlib import Path

import pytest
from emulate_support import Net, link, network, receive, round_trips, transfer

pytestmark = pytest.mark.root

IP_RECVTOS = 13
CONGESTION_EXPERIENCED = 3
UDP_SEGMENT = 103


def numbered(count: int, size: int = 1472) -> list[bytes]:
    return [number.to_bytes(4, "big") + bytes(size - 4) for number in range(count)]


def numbers(datagrams: list[bytes]) -> list[int]:
    return [int.from_bytes(datagram[:4], "big") for datagram in datagrams]


def test_a_train_of_packets_takes_the_time_that_the_rate_gives() -> None:
    with network(link(rate="20Mbps")) as net:
        here, peer = net.pair()
        begin = time.perf_counter()
        for datagram in numbered(300):
            here.send(datagram)
        assert len(receive(peer, 300, 2.0)) == 300
        took = time.perf_counter() - begin
    assert took >= 300 * 1538 * 8 / 20e6  # on a busy machine perhaps later than due, never earlier
    delays = net.column("links", "queue_delay_max_ns")
    assert max(value for value in delays if value < 1 << 63) <= 299 * 1538 * 8 / 20e6 * 1e9


def test_the_delay_is_there_both_ways() -> None:
    with network(link(delay="15ms")) as net:
        assert 0.030 <= min(round_trips(*net.pair(), 20)) < 0.036


def test_a_queue_drops_what_it_has_no_room_for_and_the_tables_say_so() -> None:
    with network(link(rate="100kbps", queue="10packets")) as net:
        here, peer = net.pair()
        for datagram in numbered(30):
            here.send(datagram)
        got = receive(peer, 30, 1.0)
    assert numbers(got) == list(range(11))
    assert (net.total("out_packets", 0), net.total("drop_packets", 0)) == (11, 19)
    assert sum(net.column("drops", "packets")) == 19
    assert net.total("in_bytes", 0) == 30 * 1500


def test_exactly_the_packets_of_a_list_are_lost() -> None:
    lost = [2, 5, 9, 10]
    with network(link(loss=f"{{list: {lost}}}")) as net:
        here, peer = net.pair()
        for datagram in numbered(20, 100):
            here.send(datagram)
        got = receive(peer, 20, 0.5)
    assert numbers(got) == [n for n in range(20) if n + 1 not in lost]


def test_a_full_queue_marks_packets_that_can_carry_it() -> None:
    compiled = link(rate="1Mbps", queue="{red: {size: 100packets, min: 1kB, max: 1530B, max_p: 100%, ecn: true}}")
    with network(compiled) as net:
        here, peer = net.pair()
        here.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 2)
        peer.setsockopt(socket.IPPROTO_IP, IP_RECVTOS, 1)
        for datagram in numbered(100):
            here.send(datagram)
        seen = []
        peer.settimeout(1.0)
        try:
            while True:
                _, control, _, _ = peer.recvmsg(2000, 100)
                seen += [data[0] & 3 for level, kind, data in control if (level, kind) == (0, socket.IP_TOS)]
        except TimeoutError:
            pass
    marked = seen.count(CONGESTION_EXPERIENCED)
    assert marked > 0
    assert seen.count(2) == len(seen) - marked > 0
    assert marked == sum(net.column("marks", "packets")) == net.total("mark_packets", 0)


def test_pings_pass() -> None:
    with network(link(delay="5ms")) as net:
        ping = net.socket(0, socket.SOCK_RAW, socket.IPPROTO_ICMP)
        body = struct.pack("!BBHHH", 8, 0, 0, 77, 1) + b"weir"
        total = sum(struct.unpack(f"!{len(body) // 2}H", body))
        checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
        begin = time.perf_counter()
        ping.sendto(body[:2] + struct.pack("!H", checksum) + body[4:], (net.hosts[1].address, 0))
        answer = ping.recv(200)[20:]
        assert time.perf_counter() - begin >= 0.010
    assert answer[0] == 0
    assert answer[4:] == body[4:]


@pytest.mark.parametrize("offloads", [(), ("--no-offloads",)])
def test_ipv6_passes(offloads: tuple[str, ...]) -> None:
    content = random.Random(1).randbytes(3_000_000)
    with network(link(delay="2ms"), *offloads, addresses=("fd00::1", "fd00::2")) as net:
        assert min(round_trips(*net.pair(), 5)) >= 0.004
        assert transfer(net, content) == content


def test_what_is_lost_late_and_overtaken_is_mended_by_tcp() -> None:
    compiled = link(rate="200Mbps", delay="2ms", loss="1%", jitter="{deviation: 1ms, overtaking: true}")
    content = random.Random(2).randbytes(2_000_000)
    with network(compiled) as net:
        assert transfer(net, content) == content
    assert sum(net.column("drops", "packets")) > 0


def test_links_change_when_they_shall() -> None:
    compiled = link(delay="3ms")
    change = {"kind": "delay", "delay": {"kind": "fixed", "delay_ns": 30_000_000}}
    compiled["changes"] = [{"at_ns": 1_000_000_000, "link": 0, "change": change}]
    with network(compiled) as net:
        begin = time.monotonic()
        pair = net.pair()
        assert min(round_trips(*pair, 5)) < 0.020
        time.sleep(max(0.0, begin + 1.2 - time.monotonic()))
        assert min(round_trips(*pair, 5)) >= 0.033
    assert net.column("events", "time_ns") == [1_000_000_000]


def _send_train(net: Net) -> None:
    here, peer = net.pair()
    here.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 1000)
    here.send(bytes(20_500))
    assert sum(map(len, receive(peer, 21, 1.0))) == 20_500


def test_offloads_change_no_count() -> None:
    counts = []
    for options in ((), ("--no-offloads",)):
        with network(link(rate="100Mbps"), *options) as net:
            try:
                _send_train(net)
            except OSError as error:
                pytest.skip(f"this kernel sends no trains of datagrams: {error}")
        counts.append([net.total(name, 0) for name in ("in_packets", "in_bytes", "out_packets", "out_bytes")])
    assert counts[0] == counts[1] == [21, 20_500 + 21 * 28, 21, 20_500 + 21 * 28]


def test_trains_of_tcp_are_cut_and_counted_by_packet() -> None:
    content = bytes(5_000_000)
    with network(link(rate="1Gbps", delay="1ms", queue="1000packets")) as net:
        assert transfer(net, content) == content
    packets, frames = net.total("in_packets", 0), net.column("stats", "frames")[0]
    assert packets >= len(content) / 1448
    assert frames < packets, "the sender's stack handed over trains"
    assert net.total("in_bytes", 0) <= packets * 1500


def test_a_trace_shows_each_packet_at_the_sender(tmp_path: Path) -> None:
    file = tmp_path / "trace.pcap"
    with network(link(rate="1Gbps", delay="1ms"), "--capture", str(file)) as net:
        transfer(net, bytes(300_000))
        time.sleep(0.1)  # for the last acknowledgements
    content = file.read_bytes()
    assert struct.unpack_from("<I", content)[0] == 0xA1B23C4D
    place, payload, packets, last = 24, 0, 0, 0
    while place < len(content):
        seconds, nanos, shown, whole = struct.unpack_from("<IIII", content, place)
        headers = content[place + 16 : place + 16 + shown]
        if headers[0] >> 4 == 4:  # the hosts also look for routers, by IPv6
            assert struct.unpack_from("!H", headers, 2)[0] == whole <= 1500
            if headers[12:16] == socket.inet_aton(net.hosts[0].address):
                payload += whole - 20 - (headers[32] >> 4) * 4
        packets, last, place = packets + 1, max(last, seconds * 10**9 + nanos), place + 16 + shown
    assert payload >= 300_000
    assert packets >= 300_000 // 1448
    assert last < 60 * 10**9

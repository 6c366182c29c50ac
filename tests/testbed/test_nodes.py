"""A test bed that is up: what a node is, how it is reached, and what is between nodes."""

from __future__ import annotations

import json
import pwd
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from testbed_support import ssh

from shared import Weir, argv, environment
from weir import inventory, testbed
from weir.testbed import Bed, LinkOptions, Request

pytestmark = pytest.mark.bed

RTT_MS = 18.0
RATE_MBPS = 20.0


@pytest.fixture(scope="module")
def bed(state: Path) -> Iterator[Bed]:
    """Two sites with two nodes each."""
    links = LinkOptions(rtt=f"{RTT_MS:g}ms", rate=f"{RATE_MBPS:g}Mbps")
    yield testbed.up(Request(sites=2, nodes=2, links=links, name="nodes"))
    testbed.down("nodes")


def python(bed: Bed, node: str, program: str, *arguments: str) -> str:
    """What a program of the node's Python prints."""
    done = bed.run(node, ["python3", "-c", program, *arguments])
    assert done.code == 0, done.err.decode()
    return done.out.decode()


def test_each_node_answers_the_systems_client_and_knows_its_name(bed: Bed) -> None:
    for node in bed.nodes:
        done = ssh(bed, node.name, "hostname; cat /etc/hostname", options=("-o", "StrictHostKeyChecking=yes"))
        assert (done.returncode, done.stdout) == (0, f"{node.name}\n{node.name}\n"), done.stderr


def test_the_known_hosts_are_those_of_the_nodes(bed: Bed, tmp_path: Path) -> None:
    lines = bed.known_hosts.read_text().splitlines()
    assert len({line.split()[2] for line in lines}) == len(bed.nodes), "each node has a key of its own"
    wrong = tmp_path / "known_hosts"
    key = lines[1].split()[2]
    wrong.write_text(f"{bed.nodes[0].control} ssh-ed25519 {key}\n")
    done = ssh(bed, "a1", "true", options=("-o", f"UserKnownHostsFile={wrong}"))
    assert done.returncode == 255
    assert "Host key verification failed" in done.stderr


def test_only_the_generated_key_opens_a_node(bed: Bed, tmp_path: Path) -> None:
    other = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other)], check=True)
    common = ["ssh", "-F", "/dev/null", "-o", f"UserKnownHostsFile={bed.known_hosts}", "-o", "IdentitiesOnly=yes"]
    words = [*common, "-o", "BatchMode=yes", "-i", str(other), f"root@{bed.nodes[0].control}", "true"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 255
    assert "Permission denied (publickey)." in done.stderr, "no password is asked for"


def test_files_are_private(bed: Bed) -> None:
    assert stat.S_IMODE(bed.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(bed.folder.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(bed.key.stat().st_mode) == 0o600


def test_no_server_listens_at_an_address_of_this_machine(bed: Bed) -> None:
    ours = bed.control.rsplit(".", 2)[0] + ".0.1"
    for address in ("127.0.0.1", ours):
        with socket.socket() as probe:
            before = probe.connect_ex((address, 22))
        with socket.create_connection((bed.nodes[0].control, 22), 5) as connection:
            assert connection.recv(4) == b"SSH-"
        if before == 0:  # this machine has a server of its own; it does not take the key of the test bed
            words = ["ssh", "-F", "/dev/null", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no"]
            words += ["-o", "UserKnownHostsFile=/dev/null", "-o", "IdentitiesOnly=yes", "-i", str(bed.key), address]
            done = subprocess.run([*words, "true"], capture_output=True, timeout=60, check=False)
            assert done.returncode == 255


def test_a_node_has_files_of_its_own(bed: Bed) -> None:
    for path in ("/tmp/mark", "/etc/mark", f"{pwd.getpwuid(0).pw_dir}/mark", "/usr/local/mark", "/var/tmp/mark"):
        bed.put("a1", path, b"of a1")
        assert bed.get("a1", path) == b"of a1"
        assert bed.run("a2", ["test", "-e", path]).code == 1, path
        assert not Path(path).exists(), path
    name = Path("/etc/hostname")
    assert not name.exists() or name.read_text() != "a1\n"
    assert bed.get("a1", "/etc/os-release") == Path("/etc/os-release").read_bytes(), "the rest is this machine's"


def test_a_full_disk_is_the_nodes_own(bed: Bed, state: Path) -> None:
    small = testbed.up(Request(sites=2, nodes=1, name="small", disk_bytes=8 << 20))
    try:
        done = small.run("a1", ["sh", "-c", "head -c 20000000 /dev/zero > /var/filled"])
        assert done.code != 0
        assert b"No space left" in done.err
        assert small.run("b1", ["sh", "-c", "echo fits > /var/small"]).code == 0
    finally:
        testbed.down("small")


def test_a_node_sees_its_own_processes_only(bed: Bed) -> None:
    program = "import os; print(*sorted(p for p in os.listdir('/proc') if p.isdigit()))"
    seen = python(bed, "a1", program).split()
    assert "1" in seen
    assert len(seen) < 10


def test_a_node_cannot_change_what_it_shares_with_this_machine(bed: Bed) -> None:
    refused = bed.run("a1", ["sh", "-c", "echo 1 > /proc/sys/kernel/panic"])
    assert refused.code != 0
    assert b"Read-only" in refused.err
    assert bed.run("a1", ["sh", "-c", "echo 1 > /proc/sys/net/ipv4/tcp_sack"]).code == 0, "its network is its own"
    assert ssh(bed, "a1", "date -s @0").returncode != 0
    assert bed.run("a1", ["find", "/dev", "-type", "b"]).out == b"", "no disks"


_TIMES = """
import socket, sys, time
times = []
for _ in range(10):
    begin = time.monotonic()
    socket.create_connection((sys.argv[1], 22), 10).close()
    times.append(1e3 * (time.monotonic() - begin))
print(min(times))
"""


def test_round_trip_times_are_those_of_the_links(bed: Bed) -> None:
    """TCP's handshake takes one; the shortest of ten is not the machine's doing."""
    between = float(python(bed, "a1", _TIMES, "b1"))
    assert RTT_MS <= between < RTT_MS + 10
    assert float(python(bed, "a1", _TIMES, "a2")) < RTT_MS
    assert float(python(bed, "a1", _TIMES, "b1.control")) < RTT_MS


_SINK = """
import socket, time
server = socket.create_server(("0.0.0.0", 5001))
open("/run/ready", "w").close()
connection, _ = server.accept()
count, begin = 0, None
while data := connection.recv(1 << 20):
    begin = begin or time.monotonic()
    count += len(data)
print(8e-6 * count / (time.monotonic() - begin))
"""
_SOURCE = """
import socket, time
connection = socket.create_connection(("b2", 5001), 10)
end = time.monotonic() + 2
while time.monotonic() < end:
    connection.sendall(bytes(1 << 14))
"""


def test_the_rate_is_that_of_the_link(bed: Bed) -> None:
    """No more passes than the link carries: 1448 bytes of each packet's 1538 on the wire."""
    words = bed.command("b2", ["python3", "-c", _SINK])
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as sink:
        waiting = "until [ -e /run/ready ]; do sleep 0.05; done"
        assert bed.run("b2", ["sh", "-c", waiting]).code == 0
        python(bed, "a2", _SOURCE)
        out, _ = sink.communicate(timeout=60)
    assert RATE_MBPS / 2 < float(out) <= RATE_MBPS * 1448 / 1538 * 1.01


def test_the_inventory_is_one_of_weir(bed: Bed) -> None:
    found = inventory.load(bed.inventory)
    assert list(found.sets) == ["A", "B"]
    nodes = [node for one in found.sets.values() for node in one.nodes]
    assert [(n.name, n.address, n.experiment_address) for n in nodes] == [
        (n.name, n.control, n.experiment) for n in bed.nodes
    ]
    assert {(n.user, n.interface, n.key) for n in nodes} == {("root", "weir0", str(bed.key))}
    assert [(role.name, role.parts[0].set) for role in found.roles] == [("sources", "A"), ("sinks", "B")]
    (connection,) = found.connections
    assert (connection.rtt_ns, connection.rate_bps) == (RTT_MS * 1e6, RATE_MBPS * 1e6)


def test_commands_in_nodes_by_the_command_line(bed: Bed, state: Path) -> None:
    def ran(*words: str) -> subprocess.CompletedProcess[str]:
        command = argv("testbed", "exec", "--name", "nodes", *words)
        variables = environment(XDG_STATE_HOME=str(state))
        return subprocess.run(command, capture_output=True, text=True, env=variables, timeout=60, check=False)

    done = ran("b1", "--", "sh", "-c", "hostname; pwd; exit 7")
    assert (done.returncode, done.stdout) == (7, "b1\n/root\n"), done.stderr
    done = ran("c1", "--", "true")
    assert done.returncode == 2
    assert "has no node 'c1'; it has a1 ... b2" in done.stderr


def test_status_for_programs_and_people(bed: Bed, weir: Weir) -> None:
    (told,) = json.loads(weir("testbed", "status", "--name", "nodes", "--json").out)
    assert [node["name"] for node in told["nodes"]] == ["a1", "a2", "b1", "b2"]
    assert all(node["up"] for node in told["nodes"])
    assert weir("testbed", "status", "--name", "nodes", "--config").out == f"{bed.config}\n"
    assert "18 ms, 20 Mb/s: A-B\n" in weir("testbed", "status").out


def test_daemons_stay_and_leave_no_zombies(bed: Bed) -> None:
    assert bed.run("b2", ["sh", "-c", "setsid sleep 100 > /dev/null 2>&1 & setsid true & exit"]).code == 0
    seen = bed.run("b2", ["sh", "-c", "cat /proc/[0-9]*/stat"]).out
    assert b"(sleep) S" in seen
    assert b") Z" not in seen


_CLOCKS = "import time; print(time.monotonic_ns(), time.clock_gettime_ns(time.CLOCK_BOOTTIME), time.time_ns())"


def test_nodes_booted_at_different_times(bed: Bed) -> None:
    assert len({node.clock_ns for node in bed.nodes}) == len(bed.nodes)
    for node in bed.nodes:
        before = (time.monotonic_ns(), time.time_ns())
        monotonic, boot, wall = map(int, python(bed, node.name, _CLOCKS).split())
        after = (time.monotonic_ns(), time.time_ns())
        assert before[0] <= monotonic - node.clock_ns <= after[0]
        assert boot - node.clock_ns >= before[0]
        assert before[1] <= wall <= after[1], "the time of day is that of this machine"
        by_ssh = int(ssh(bed, node.name, f"python3 -c '{_CLOCKS}'").stdout.split()[0])
        assert after[0] <= by_ssh - node.clock_ns <= time.monotonic_ns()


def test_one_network_and_a_user() -> None:
    """SSH takes the emulated links, too, and logs in without privileges."""
    links = LinkOptions(rtt="40ms")
    bed = testbed.up(Request(sites=2, nodes=1, links=links, name="single", one_network=True, user="somebody"))
    try:
        assert ssh(bed, "b1", "id -un; pwd; id -u").stdout.split()[:2] == ["somebody", "/home/somebody"]
        assert ssh(bed, "b1", "id -u").stdout != "0\n"
        assert ssh(bed, "b1", "touch /etc/mark").returncode != 0
        found = [node for one in inventory.load(bed.inventory).sets.values() for node in one.nodes]
        assert [(node.user, node.interface, node.experiment_address) for node in found] == [
            ("somebody", None, None)
        ] * 2
        assert handshake_ms(bed.node("b1").control) >= 40
        assert handshake_ms(bed.node("a1").control) < 40
        assert bed.run("a1", ["ls", "/sys/class/net"]).out.split() == [b"lo", b"weir0"]
    finally:
        testbed.down("single")


def handshake_ms(address: str) -> float:
    """The shortest of three handshakes from this machine, in ms."""
    times = []
    for _ in range(3):
        begin = time.monotonic()
        socket.create_connection((address, 22), 10).close()
        times.append(1e3 * (time.monotonic() - begin))
    return min(times)

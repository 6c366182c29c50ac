"""What nodes say of themselves, from recorded answers; and what they lack."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir import scenario
from weir.hosts.facts import Facts, Interface, Rights, gather, parse
from weir.hosts.fitness import Finding, Wish, for_scenario, in_general, tools_of
from weir.hosts.local import Local
from weir.hosts.place import PlaceError
from weir.inventory import parse as parse_inventory
from weir.plan import Plan, typed

# Not recorded, but written as such machines say it: a server with an Intel card, and a user with some sudo.
SERVER: dict[str, Any] = {
    "kernel": "6.1.0-18-amd64\n",
    "system": 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nNAME="Debian GNU/Linux"\n',
    "cpu": "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) Gold 5220 CPU @ 2.20GHz\n",
    "memory": "MemTotal:       98765432 kB\nMemFree:        1000 kB\nMemAvailable:   90000000 kB\n",
    "controls": "reno cubic\n",
    "allowed": "reno cubic\n",
    "default_control": "cubic\n",
    "governor": "powersave\n",
    "process": "Name:\tpython3\nCapEff:\t0000000000000000\nCapBnd:\t000001ffffffffff\n",
    "load": "0.21 0.10 0.05 1/300 4242\n",
    "python": "3.11.2",
    "machine": "x86_64",
    "host": "node-1",
    "user": "me",
    "uid": 1000,
    "processors": 36,
    "links": json.dumps(
        [
            {"ifname": "lo", "mtu": 65536, "flags": ["LOOPBACK", "UP"], "addr_info": [{"local": "127.0.0.1"}]},
            {
                "ifname": "eno1",
                "mtu": 9000,
                "flags": ["BROADCAST", "MULTICAST", "UP", "LOWER_UP"],
                "qdisc": "mq",
                "addr_info": [{"family": "inet", "local": "172.16.0.5"}, {"family": "inet6", "local": "fe80::1"}],
            },
            {"ifname": "eno2", "mtu": 1500, "flags": ["BROADCAST"], "qdisc": "noop", "addr_info": []},
            {"ifname": "v0", "mtu": 1500, "flags": ["UP"], "linkinfo": {"info_kind": "veth"}, "addr_info": []},
        ]
    ),
    "qdiscs": json.dumps(
        [
            {"kind": "mq", "handle": "0:", "dev": "eno1", "root": True},
            {"kind": "fq_codel", "handle": "0:", "dev": "eno1", "parent": ":1"},
        ]
    ),
    "interfaces": {
        "eno1": {"speed_mbps": 25000, "driver": "i40e", "tso": 1, "gso": 1, "gro": 1, "lro": 0},
        "eno2": {"speed_mbps": None, "driver": "i40e", "tso": 0, "gso": 1, "gro": None, "lro": 0},
    },
    "ssh": "172.16.0.1 50000 172.16.0.5 22",
    "sudo": "Matching Defaults entries for me on node-1:\n    env_reset\n\nUser me may run the following commands on "
    "node-1:\n    (ALL : ALL) ALL\n    (root) NOPASSWD: /usr/sbin/tc, /usr/sbin/sysctl -w *, PASSWD: /usr/bin/apt\n"
    "    (postgres) NOPASSWD: ALL\n",
    "modules": ["sch_netem", "tcp_bbr", "tcp_vegas"],
    "btf": True,
    "writable": False,
    "disks": [{"path": "/tmp", "free_bytes": 5 * 10**10}, {"path": "/home/me", "free_bytes": 2 * 10**10}, None],
    "tools": {"ip": "/usr/sbin/ip", "tc": None},
    "routes": {"172.16.0.9": '[{"dst":"172.16.0.9","dev":"eno1"}]', "10.0.0.1": None},
    "programs": {"weir-agent": True},
    "synchronised": {"state": 0, "status": 0x2001, "maxerror_us": 1500},
    "ahead_ns": 1_700_000_000 * 10**9,
}


def test_a_server() -> None:
    facts = parse(SERVER, -1_700_000_000 * 10**9 + 2_000_000, 100_000)
    assert (facts.host, facts.user, facts.system) == ("node-1", "me", "Debian GNU/Linux 12 (bookworm)")
    assert (facts.kernel, facts.python, facts.machine) == ("6.1.0-18-amd64", "3.11.2", "x86_64")
    assert facts.processor == "Intel(R) Xeon(R) Gold 5220 CPU @ 2.20GHz"
    assert (facts.processors, facts.governor, facts.load) == (36, "powersave", 0.21)
    assert (facts.memory_free_bytes, facts.memory_bytes) == (90000000 * 1024, 98765432 * 1024)
    assert facts.disk_free_bytes == 2 * 10**10
    assert facts.controls == ("reno", "cubic")
    assert facts.loadable_controls == ("bbr", "vegas")
    assert facts.netem
    assert facts.btf
    assert facts.tools == {"ip": "/usr/sbin/ip", "tc": None}
    assert facts.routes == {"172.16.0.9": "eno1"}
    assert facts.programs == {"weir-agent": True}
    assert (facts.synchronised, facts.clock_error_s) == (True, 0.0015)
    assert facts.clock_offset_s == pytest.approx(0.002)
    assert facts.asked_error_s == pytest.approx(0.0001)


def test_a_recorded_answer() -> None:
    """Of a network namespace of a virtual machine, Debian 12, with ``ip -j`` and ``tc -j`` of iproute2 6.1."""
    raw = json.loads((Path(__file__).parent / "recorded" / "namespace.json").read_text(encoding="utf-8"))
    facts = parse(raw)
    assert facts.interface(None, None) == Interface(
        name="x0",
        up=True,
        mtu_bytes=1400,
        addresses=("192.0.2.5", "fe80::1860:5ff:fed3:ce93"),
        virtual=True,
        driver="veth",
        offloads=("tso", "gso"),
        qdisc="noqueue",
    )
    assert facts.routes == {"192.0.2.77": "x0"}
    assert facts.kernel == "6.18.44-fc-v669"
    assert facts.processor == "Intel(R) Xeon(R) Processor"
    assert facts.rights.root
    assert facts.rights.capabilities >= {"bpf", "net_admin", "perfmon", "sys_admin"}
    assert facts.synchronised is False
    assert facts.tools == {"ip": "/usr/sbin/ip", "iperf3": "/usr/bin/iperf3", "nothing": None}
    assert facts.server_address == "192.0.2.5"


def test_interfaces() -> None:
    facts = parse(SERVER)
    assert facts.interfaces == (
        Interface(
            name="eno1",
            up=True,
            mtu_bytes=9000,
            addresses=("172.16.0.5", "fe80::1"),
            speed_bps=25 * 10**9,
            driver="i40e",
            offloads=("tso", "gso", "gro"),
            qdisc="mq",
        ),
        Interface(name="eno2", mtu_bytes=1500, driver="i40e", offloads=("gso",), qdisc="noop"),
        Interface(name="v0", up=True, mtu_bytes=1500, virtual=True, driver="veth"),
    )
    assert facts.interface("v0", None) == facts.interfaces[2]
    assert facts.interface(None, "fe80::1") == facts.interfaces[0]
    assert facts.interface(None, None) == facts.interfaces[0], "that of the connection"
    assert facts.interface("eth9", None) is None


def test_what_a_user_may_do() -> None:
    rights = parse(SERVER).rights
    assert rights == Rights(sudo=("/usr/sbin/tc", "/usr/sbin/sysctl -w *"))
    assert not any((rights.everything, rights.bpf, rights.network))
    some = parse({**SERVER, "process": "CapEff:\t000000c000001000\n", "sudo": None}).rights
    assert some.capabilities == {"net_admin", "perfmon", "bpf"}
    assert some.bpf
    assert some.network
    assert not some.everything
    anything = parse({**SERVER, "sudo": "    (ALL : ALL) NOPASSWD: ALL\n"}).rights
    assert anything.everything
    assert anything.bpf
    assert parse({**SERVER, "uid": 0}).rights.root


def test_processors_of_other_kinds() -> None:
    arm = "processor\t: 0\nBogoMIPS\t: 108.00\nCPU part\t: 0xd08\n\nModel\t\t: Raspberry Pi 4 Model B Rev 1.4\n"
    assert parse({"cpu": arm}).processor == "Raspberry Pi 4 Model B Rev 1.4"
    assert (
        parse({"cpu": "processor\t: 0\ncpu\t\t: POWER9, altivec supported\n"}).processor == "POWER9, altivec supported"
    )


def test_a_node_that_says_nothing() -> None:
    facts = parse({})
    assert (facts.kernel, facts.processors, facts.interfaces, facts.load) == ("", 0, (), None)
    assert facts.synchronised is None
    assert facts.rights == Rights()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("[[1], {}]") | st.just("[{}]"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*SERVER, "dev", "ifname"]), inner),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from([*SERVER]), JSON))
def test_a_node_may_say_anything(raw: dict[str, Any]) -> None:
    facts = parse({**SERVER, **raw})
    assert isinstance(facts, Facts)
    assert isinstance(facts.processors, int)
    assert all(isinstance(each.name, str) for each in facts.interfaces)


def test_this_machine() -> None:
    with Local() as place:
        facts = gather(
            place,
            tools=["sh", "no-such-program"],
            programs={"weir-agent": "0" * 64},
            parameters=["net.ipv4.tcp_sack", "net.nobodys"],
        )
    assert facts.kernel == Path("/proc/sys/kernel/osrelease").read_text(encoding="utf-8").strip()
    assert facts.tools["sh"] is not None
    assert facts.tools["no-such-program"] is None
    sack = Path("/proc/sys/net/ipv4/tcp_sack").read_text(encoding="ascii").strip()
    assert facts.parameters == {"net.ipv4.tcp_sack": sack}
    assert facts.programs == {"weir-agent": False}
    assert facts.processors >= 1
    assert facts.processor
    assert facts.memory_bytes
    assert "reno" in facts.controls
    assert abs(facts.clock_offset_s) < 1


def test_an_answer_that_is_none(tmp_path: Path) -> None:
    liar = tmp_path / "python3"
    liar.write_text("#!/bin/sh\necho nonsense\n", encoding="utf-8")
    liar.chmod(0o700)
    with Local() as place, pytest.raises(PlaceError, match="is not understood"):
        gather(place, str(liar))


INVENTORY = """\
sets:
  A:
    nodes: [a1, {address: a2, experiment_address: 172.16.0.5}]
    rate: 40Gbps
  B: {nodes: [b1, b2], interface: eno2}
  C: {reserve: {by: slurm, nodes: 3, time: 1h}}
connections:
  - {between: [A, B], rate: 50Mbps, rtt: 50ms}
roles: {sources: A, sinks: B}
"""
SCENARIO = """\
title: t
transport: {cc: "linux:vegas"}
topology:
  dumbbell: {pairs: 2, access: {rate: 30Gbps}, bottleneck: {rate: 100Mbps, queue: 100packets}, rtt: 20ms, mtu: 9500B}
workload:
  - {name: bulk, kind: bulk, between: pairs}
duration: 5s
"""
FACTS = parse(SERVER)


def general(facts: dict[str, Facts], failed: dict[str, PlaceError] | None = None) -> list[Finding]:
    return [*in_general(parse_inventory(INVENTORY), facts, failed or {})]


def missing(findings: list[Finding]) -> list[str]:
    return [str(finding) for finding in findings if finding.severity == "missing"]


def notes(findings: list[Finding]) -> list[str]:
    return [str(finding) for finding in findings if finding.severity == "note"]


def test_findings_in_general() -> None:
    other = replace(FACTS, kernel="5.10", synchronised=False, clock_offset_s=-7.0, load=99.0, governor=None)
    found = general({"a1": FACTS, "a2": FACTS, "b1": other}, {"b2": PlaceError("b2: no answer in 60 s")})
    assert missing(found) == [
        "a1: eno1 runs at 25Gbps; the inventory says 40Gbps",
        "a1: it has no tc: install iproute2 there",
        "a2: eno1 runs at 25Gbps; the inventory says 40Gbps",
        "a2: it has no tc: install iproute2 there",
        "b1: its interface eno2 is down",
        "b1: it has no tc: install iproute2 there",
        "b2: no answer in 60 s",
    ]
    said = notes(found)
    assert said[0] == "set C is not reserved: its 3 nodes are not known yet"
    assert "a1: its processors run at changing speeds (governor powersave)" in said
    assert "b1: its wall clock is -7.0 s from this machine's, and so are its logs" in said
    assert "b1: others use it: load 99 on 36 processors" in said
    assert any(text.startswith("b1: nothing keeps its clock in time") for text in said)
    assert "nodes differ in MTU: most have 9000, not b1 (1500)" in said
    assert "nodes differ in kernel: most have 6.1.0-18-amd64, not b1 (5.10)" in said
    assert (
        "a1: user me is not root: without `sudo -n` no change of disciplines, offloads and routes, kernel parameters, "
        "weir's congestion controls (BPF), modules; `sudo -n` is allowed for /usr/sbin/tc, /usr/sbin/sysctl -w *"
        in said
    )


def test_interfaces_that_the_inventory_names() -> None:
    inventory = parse_inventory(
        "sets:\n  A: {nodes: [{address: x, interface: eth7}, {address: y, experiment_address: 10.9.9.9}, "
        "{address: z, interface: eno1, experiment_address: 10.9.9.8}]}"
    )
    root = replace(FACTS, rights=Rights(root=True), tools={})
    assert missing([*in_general(inventory, {"x": root, "y": root, "z": root}, {})]) == [
        "x: it has no interface eth7, which the inventory names",
        "y: none of its interfaces has the address 10.9.9.9",
        "z: eno1 has not the address 10.9.9.8, but 172.16.0.5, fe80::1",
    ]


def judged(text: str, facts: dict[str, Facts], inventory: str = INVENTORY, **changes: Any) -> list[Finding]:
    plan = typed(scenario.parse(text, overrides=changes).cells()[0].plan())
    return [*for_scenario(parse_inventory(inventory), plan, facts)]


def test_what_nodes_lack_for_a_scenario() -> None:
    found = judged(SCENARIO, dict.fromkeys(("a1", "a2", "b1", "b2"), FACTS))
    assert missing(found) == [
        "a1: its link has 25Gbps; the scenario's host has 30Gbps",
        "a1: the MTU of eno1 is 9000; the scenario's is 9500",
        "a1: congestion control vegas is not loaded: `sudo -n modprobe tcp_vegas` is needed",
        "b1: the MTU of eno2 is 1500; the scenario's is 9500",
        "a2: its link has 25Gbps; the scenario's host has 30Gbps",
        "a2: the MTU of eno1 is 9000; the scenario's is 9500",
        "a2: congestion control vegas is not loaded: `sudo -n modprobe tcp_vegas` is needed",
        "b2: the MTU of eno2 is 1500; the scenario's is 9500",
        "A - B has 50Mbps; the scenario's bottleneck has 100Mbps",
    ]
    assert notes(found)[-1].startswith("A - B has an RTT of 50ms; the scenario's flows have 20.")


def test_congestion_controls() -> None:
    def of(cc: str, facts: Facts) -> list[str]:
        changes = {"transport": f"{{cc: {cc}}}", "topology.dumbbell.mtu": "1500B"}
        return [
            text for text in missing(judged(SCENARIO, {"a1": facts}, **changes)) if "control" in text or "weir" in text
        ]

    assert of("linux:cubic", FACTS) == []
    assert of("linux:cubic", replace(FACTS, allowed_controls=("reno",))) == [
        "a1: congestion control cubic is not allowed for user me: add it to net.ipv4.tcp_allowed_congestion_control"
    ]
    assert of("linux:dctcp", FACTS) == ["a1: its kernel has no congestion control dctcp; it has reno, cubic"]
    assert of("linux:vegas", replace(FACTS, rights=Rights(root=True))) == []
    assert of("cubic", FACTS) == ["a1: congestion control cubic needs root, or CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN"]
    assert of("cubic", replace(FACTS, rights=Rights(root=True), btf=False)) == [
        "a1: congestion control cubic needs a kernel with BTF (/sys/kernel/btf/vmlinux)"
    ]


def test_an_existing_network_that_is_faster_than_the_scenario() -> None:
    found = judged(SCENARIO, {}, INVENTORY.replace("rate: 50Mbps, rtt: 50ms", "rate: 10Gbps, rtt: 20ms"))
    assert notes(found)[-1] == (
        "A - B has 10Gbps, the scenario's bottleneck only 100Mbps; an existing network is taken as it is"
    )


def test_what_an_experiment_changes_on_a_node() -> None:
    """A node that is as it shall be needs no privilege for it; of others, each command is named."""
    plan = typed(scenario.parse(SCENARIO).cells()[0].plan())
    host = plan.flows[0].from_
    wishes = {
        host: (
            Wish("sysctl -w net.ipv4.tcp_sack='0'", "net.ipv4.tcp_sack", "0"),
            Wish("sysctl -w net.ipv4.tcp_ecn='2'", "net.ipv4.tcp_ecn", "2"),
            Wish("ip route replace dst0/32 initcwnd 4"),
        )
    }

    def of(rights: Rights) -> list[Finding]:
        facts = replace(FACTS, parameters={"net.ipv4.tcp_sack": "1", "net.ipv4.tcp_ecn": "2"}, rights=rights)
        found = [*for_scenario(parse_inventory(INVENTORY), plan, {"a1": facts}, wishes)]
        return [finding for finding in found if "sysctl" in finding.text or "ip route" in finding.text]

    needed = "sysctl -w net.ipv4.tcp_sack='0'; ip route replace dst0/32 initcwnd 4"
    assert of(Rights()) == [Finding("missing", f"this needs root, or `sudo -n`: {needed}", "a1")]
    assert of(Rights(sudo=("ALL",))) == [Finding("note", f"`sudo -n` is used for: {needed}", "a1")]
    assert of(Rights(writes_parameters=True)) == [
        Finding("missing", "this needs root, or `sudo -n`: ip route replace dst0/32 initcwnd 4", "a1")
    ]
    assert of(Rights(root=True)) == []


def test_an_emulated_network() -> None:
    found = judged(SCENARIO, {"a1": FACTS}, INVENTORY + "network: emulated\n")
    assert "a1: `network: emulated` needs root, CAP_NET_ADMIN, or `sudo -n`" in missing(found)
    assert any(text.startswith("A - B has an RTT of 50ms; nothing emulated can make it 20.") for text in missing(found))


def test_too_few_nodes_also_of_those_that_are_not_reserved() -> None:
    inventory = INVENTORY.replace("sinks: B", "sinks: C")
    assert not any("hosts in this scenario" in text for text in missing(judged(SCENARIO, {}, inventory)))
    found = judged(SCENARIO, {}, inventory, **{"topology.dumbbell.pairs": 4})
    assert missing(found) == [
        "<text>:9:18: `sources` has 4 hosts in this scenario, but 2 nodes",
        "<text>:9:28: `sinks` has 4 hosts in this scenario, but 3 nodes",
    ]


def test_programs_of_a_scenario() -> None:
    text = SCENARIO.replace("{name: bulk, kind: bulk, between: pairs}", "{name: bulk, kind: iperf3, between: pairs}")
    plan: Plan = typed(scenario.parse(text).cells()[0].plan())
    assert tools_of(plan) == {"iperf3"}
    without = replace(FACTS, tools={"iperf3": None})
    assert "b1: it has no program iperf3, which the scenario executes" in missing(judged(text, {"b1": without}))

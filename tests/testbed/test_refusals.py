"""What a test bed cannot be, and what a machine lacks for one: one message that says so, exit code 2, nothing made."""

from __future__ import annotations

import ipaddress
import itertools
import os
import shutil
from pathlib import Path

import pytest

from shared import Weir
from weir.testbed import LinkOptions, TestbedError
from weir.testbed._links import compile_links
from weir.testbed._network import choose_control
from weir.testbed._shape import Shape, check_name


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--sites", "0"), "--sites: 0 sites; expected 1 to 26"),
        (("--sites", "27"), "--sites: 27 sites; expected 1 to 26"),
        (("--nodes", "255"), "--nodes: 255 nodes at each site; expected 1 to 254"),
        (("--nodes", "129"), "--nodes: 2 x 129 nodes; expected 2 to 256 nodes"),
        (("--sites", "1", "--nodes", "1"), "--nodes: 1 x 1 nodes"),
        (("--name", "../up"), "--name: '../up' cannot name a test bed"),
        (("--name", "Bed"), "--name: 'Bed' cannot name a test bed"),
        (("--rtt", "18"), "--rtt: `18` needs a unit"),
        (("--rate", "fast"), "--rate: `fast` is not a rate"),
        (("--loss", "2"), "--loss: `2` is not a probability"),
        (("--queue", "long"), "--queue: "),
        (("--access", "1"), "--access: `1` needs a unit"),
        (("--mtu", "big"), "--mtu: "),
        (("--disk", "5"), "--disk: '5': expected a size"),
        (("--disk", "5B"), "--disk: 5 B are too few"),
        (("--time-limit", "soon"), "--time-limit"),
        (("--emulator", "--rtt", "5ms"), "--rtt: with --emulator, the links between nodes are those of each scenario"),
        (("--emulator", "--links", "x.yaml"), "--links: with --emulator"),
        (("--emulator", "--one-network"), "--one-network: with --emulator, SSH needs a network of its own"),
        (("--emulator", "--slurm"), "--slurm: not with --emulator"),
    ],
)
def test_what_cannot_be(weir: Weir, options: tuple[str, ...], words: str) -> None:
    ran = weir("testbed", "up", *options)
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err
    assert "internal error" not in ran.err


def test_without_root(weir: Weir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    ran = weir("testbed", "up")
    assert ran.code == 2
    assert "weir testbed cannot run here: it needs root" in ran.err


def test_without_a_server(weir: Weir, monkeypatch: pytest.MonkeyPatch) -> None:
    found = shutil.which
    monkeypatch.setattr(
        shutil, "which", lambda name, **more: None if name == "sshd" else found(name, **more) or f"/sbin/{name}"
    )
    ran = weir("testbed", "up")
    assert ran.code == 2
    assert "sshd is missing: install openssh-server" in ran.err


def test_nothing_is_there(weir: Weir) -> None:
    assert (weir("testbed", "status").code, weir("testbed", "down").code) == (1, 0)
    ran = weir("testbed", "exec", "a1", "--", "true")
    assert ran.code == 2
    assert "there is no test bed 'bed'; `weir testbed up` makes one" in ran.err


def test_a_network_of_control_is_free() -> None:
    assert str(choose_control([])) == "10.128.0.0/16"
    assert str(choose_control(["default", "0.0.0.0/0"])) == "10.128.0.0/16", "a way to everything takes nothing"
    assert str(choose_control(["10.128.3.0/24", "10.129.0.1"])) == "10.130.0.0/16"
    assert str(choose_control(["10.0.0.0/8"])) == "172.16.0.0/16"
    assert str(choose_control(["10.0.0.0/8"], "192.168.0.0/16")) == "192.168.0.0/16"
    with pytest.raises(TestbedError, match="--control chooses another"):
        choose_control(["10.0.0.0/8", "172.16.0.0/12"])
    with pytest.raises(TestbedError, match=r"is taken: this machine has a route to 192.168.7.0/24"):
        choose_control(["192.168.7.0/24"], "192.168.0.0/16")
    for wrong in ("10.200.0.0/24", "10.0.0.0/16", "10.200.0.1/16", "fd00::/16", "mine"):
        with pytest.raises(TestbedError, match="--control: "):
            choose_control([], wrong)


def test_addresses_tell_site_and_node() -> None:
    layout = Shape(3, 2).lay_out(ipaddress.IPv4Network("10.128.0.0/16"))
    assert [(n.name, n.set, n.control, n.experiment) for n in layout[2:4]] == [
        ("b1", "B", "10.128.2.1", "10.0.2.1"),
        ("b2", "B", "10.128.2.2", "10.0.2.2"),
    ]
    assert check_name("my-bed-2") == "my-bed-2"


def test_the_emulators_node_is_of_no_site() -> None:
    shape = Shape(26, 1, emulator=True)
    layout = shape.lay_out(ipaddress.IPv4Network("10.128.0.0/16"))
    assert shape.count == len(layout) == 27
    assert (layout[-1].name, layout[-1].set) == ("between", "Between")
    assert (layout[-1].control, layout[-1].experiment) == ("10.128.255.1", "10.0.255.1")


def test_links_join_all_nodes() -> None:
    links = compile_links(Shape(3, 2), LinkOptions(rtt="20ms", rate="50Mbps", loss="1%"))
    plan = links.plan
    assert [(t.between, t.rtt_ns, t.rate_bps) for t in links.trunks] == [
        ((one, other), 20_000_000, 50_000_000) for one, other in (("A", "B"), ("A", "C"), ("B", "C"))
    ]
    assert links.access_bps == 1_000_000_000
    assert len(plan["flows"]) == 6 * 5 // 2
    for flow in plan["flows"]:
        for path, begin, end in ((flow["path"], "from", "to"), (flow["reverse_path"], "to", "from")):
            way = [plan["links"][link] for link in path]
            assert (way[0]["from"], way[-1]["to"]) == (flow[begin], flow[end])
            assert all(a["to"] == b["from"] for a, b in itertools.pairwise(way))
            same_site = flow["from"] // 2 == flow["to"] // 2
            assert sum(link["delay"]["delay_ns"] for link in way) == (0 if same_site else 10_000_000)
            assert [link["loss"] for link in way if link["loss"]] == (
                [] if same_site else [{"kind": "bernoulli", "p": 0.01}]
            )


def test_this_machine_is_a_host_of_the_only_network() -> None:
    plan = compile_links(Shape(2, 2), LinkOptions(), controller=True).plan
    assert [node["name"] for node in plan["nodes"][:5]] == ["a1", "a2", "b1", "b2", "controller"]
    assert len(plan["flows"]) == 5 * 4 // 2
    (to_b2,) = [flow for flow in plan["flows"] if (flow["from"], flow["to"]) == (3, 4)]
    assert [plan["links"][link]["delay"]["delay_ns"] for link in to_b2["path"]] == [0, 9_000_000, 0]


_LINKS = """
connections:
  - {between: [A, B], rtt: 9.5ms, rate: 100Mbps}
  - between: [C, A]
    queue: {fq_codel: {ecn: true}}
    loss: 0.1%
"""


def test_links_of_single_pairs(tmp_path: Path) -> None:
    file = tmp_path / "links.yaml"
    file.write_text(_LINKS)
    links = compile_links(Shape(3, 1), LinkOptions(rtt="20ms"), file)
    assert [(t.between, t.rtt_ns, t.rate_bps) for t in links.trunks] == [
        (("A", "B"), 9_500_000, 100_000_000),
        (("A", "C"), 20_000_000, 1_000_000_000),
        (("B", "C"), 20_000_000, 1_000_000_000),
    ]
    queues = [(t.there["queue"]["kind"], t.back["queue"]["kind"], t.back["loss"]) for t in links.trunks]
    plain, fair = "droptail", "fq_codel"
    assert queues == [(plain, plain, None), (fair, fair, {"kind": "bernoulli", "p": 0.001}), (plain, plain, None)]
    assert links.trunks[0].there["queue"]["limit"]["bytes"] == 100_000_000 * 0.0095 / 8, "one product of its own"


_WRONG = """
connections:
  - {between: [A, D], rtt: 9.5}
  - {between: [A, A], rate: fast}
  - {between: [A, B], loss: [1, 2]}
  - {between: [B, A]}
"""


def test_mistakes_in_a_file_have_places(weir: Weir, tmp_path: Path) -> None:
    file = tmp_path / "links.yaml"
    file.write_text(_WRONG)
    ran = weir("testbed", "up", "--links", file)
    assert ran.code == 2
    expected = (
        "3:15: `D` is not a site of this test bed",
        "3:28: `9.5` needs a unit",
        "4:15: `A` and `A` are one site",
        "4:29: `fast` is not a rate",
        "5:29: expected a loss model",
        "6:15: the link between `A` and `B` is there twice",
    )
    assert all(f"{file}:{words}" in ran.err for words in expected), ran.err
    file.write_text("connections:\n  - {between: [A, B], speed: 1}\n")
    assert f"{file}:2:23: unknown key `speed`" in weir("testbed", "up", "--links", file).err
    gone = weir("testbed", "up", "--links", tmp_path / "gone")
    assert (gone.code, gone.err) == (2, f"weir: --links: {tmp_path / 'gone'}: No such file or directory\n")

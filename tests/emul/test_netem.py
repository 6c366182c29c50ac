"""Links built from the kernel's disciplines: the commands, their limits, and messages where netem is missing."""

from __future__ import annotations

import copy
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from emul_support import needs_emul, remains_of, text, weir

from shared import plan_of
from weir.hosts.netem import Links, obstacle, queues_job, wire_netem
from weir.hosts.wiring import WiringError
from weir.methods import MethodError
from weir.methods.emul import _support
from weir.plan import Plan, typed


@pytest.fixture(scope="module")
def plan() -> dict[str, Any]:
    """Two pairs; link 0 is the bottleneck, with losses, link 1 its reverse."""
    return plan_of(text(pairs=2, loss="1%"))


def disciplines(links: Links, device: str) -> list[str]:
    """The disciplines added to a device, in the order of the commands."""
    lines = (" ".join(command) for command in links.wiring.up if command[0] == "tc")
    return [line.partition(f" dev {device} ")[2] for line in lines if f" dev {device} " in line]


def with_link(plan: dict[str, Any], number: int, **values: object) -> Plan:
    """``plan`` with another property of one link."""
    other = copy.deepcopy(plan)
    other["links"][number] |= values
    return typed(other)


def namespaces(links: Links) -> set[str]:
    return {command[3] for command in links.wiring.up if command[:3] == ("ip", "netns", "add")}


def test_losses_queue_and_rate_are_where_a_link_begins_and_the_delay_where_it_ends(plan: dict[str, Any]) -> None:
    links = wire_netem(typed(plan), "t", 0)
    left, right = (f"weir-t-r{plan['links'][0][side]}" for side in ("from", "to"))
    losses, bucket, queue = disciplines(links, "weir0")[:3]
    assert losses.startswith("root handle 1: stab overhead 24 linklayer ethernet netem limit ")  # 38 with the header
    assert losses.endswith("loss random 1.0000000%")
    assert bucket == "parent 1:1 handle 2: tbf rate 20000000bit burst 1538 limit 1538"
    size = plan["links"][0]["queue"]["limit"]["bytes"]
    assert queue == f"parent 2:1 handle 3: bfifo limit {size}"
    assert any("redirect dev delay0" in line for line in disciplines(links, "weir1"))
    (delay,) = disciplines(links, "delay0")
    # The bucket releases a full packet 615 us before a transmitter would have sent it.
    assert delay.split()[-2:] == ["delay", f"{round(plan['links'][0]['delay']['delay_ns'] / 1000 + 615.2)}us"]
    where = {" ".join(c): c[2] for c in links.wiring.up if c[0] == "tc"}
    assert {ns for line, ns in where.items() if "dev weir0 parent" in line} == {left}
    assert {ns for line, ns in where.items() if "dev delay0 root" in line} == {right}


def test_the_delay_line_has_room_for_what_the_rate_puts_into_it(plan: dict[str, Any]) -> None:
    delay = {"kind": "fixed", "delay_ns": 100_000_000}
    (line,) = disciplines(wire_netem(with_link(plan, 0, rate_bps=10**9, delay=delay), "t", 0), "delay0")
    words = line.split()
    assert int(words[words.index("limit") + 1]) > 10**9 * 0.1 / 8 / (40 + 38)


def test_a_bucket_holds_what_a_late_timer_needs(plan: dict[str, Any]) -> None:
    (_, bucket, *_) = disciplines(wire_netem(with_link(plan, 0, rate_bps=10**9), "t", 250_000), "weir0")
    assert " burst 31250 " in bucket  # 250 us of a gigabit


@pytest.mark.parametrize(
    ("queue", "said"),
    [
        ({"kind": "droptail", "limit": {"bytes": None, "packets": 50}}, "pfifo limit 50"),
        (
            {
                "kind": "codel",
                "limit": {"bytes": None, "packets": 900},
                "codel": {"target_ns": 5_000_000, "interval_ns": 100_000_000, "mark": "ecn"},
            },
            "codel limit 900 target 5000us interval 100000us ecn",
        ),
    ],
)
def test_queues_are_the_kernels(plan: dict[str, Any], queue: dict[str, Any], said: str) -> None:
    assert disciplines(wire_netem(with_link(plan, 0, queue=queue), "t", 0), "weir0")[2].endswith(said)


def test_red_learns_that_it_is_empty_and_drops_above_its_upper_threshold(plan: dict[str, Any]) -> None:
    curve = {"dscp_from": 0, "dscp_to": 63, "min_bytes": 15_000, "max_bytes": 45_000, "max_p": 0.1}
    limit = {"bytes": 150_000, "packets": None}
    red = {"kind": "red", "limit": limit, "curves": [curve], "weight": 0.002, "gentle": False, "mark": "ecn"}
    _, _, band, queue = disciplines(wire_netem(with_link(plan, 0, queue=red), "t", 0), "weir0")[:4]
    assert band == "parent 2:1 handle 4: ets bands 1 strict 1"
    assert queue.startswith("parent 4:1 handle 3: red limit 150000 min 15000 max 45000 ")
    assert queue.endswith(" ecn harddrop")


def test_burst_losses_are_the_two_states_of_netem(plan: dict[str, Any]) -> None:
    loss = {"kind": "gilbert_elliott", "p": 0.01, "r": 0.2, "good": 0.0, "bad": 0.5}
    losses = disciplines(wire_netem(with_link(plan, 0, loss=loss), "t", 0), "weir0")[0]
    assert losses.endswith("loss gemodel 1.0000000% 20.0000000% 50.0000000% 0.0000000%")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"loss": {"kind": "list", "packets": [3]}}, "loss: a list of packets"),
        (
            {"delay": {"kind": "reorder", "delay_ns": 1, "extra_ns": 1, "probability": 0.1}},
            "reordering of single packets",
        ),
        (
            {"delay": {"kind": "jitter", "delay_ns": 1, "jitter_ns": 1, "normal": True, "reorder": False}},
            "jitter that keeps the order",
        ),
    ],
)
def test_what_netem_lacks_is_told_with_the_link(plan: dict[str, Any], values: dict[str, Any], message: str) -> None:
    with pytest.raises(WiringError, match=f"link bottleneck: .*{message}") as caught:
        wire_netem(with_link(plan, 0, **values), "t", 0)
    assert "`links: emulator` has it" in str(caught.value)


def test_changes_and_traces_are_refused(plan: dict[str, Any]) -> None:
    change = {"at_ns": 1, "link": 0, "change": {"kind": "rate", "rate_bps": 1}}
    changing = typed({**plan, "changes": [change]})
    assert obstacle(changing) == "link bottleneck: changes while the plan runs"
    trace = {"from_ns": 0, "to_ns": 1, "max_packets": 1}
    traced = typed({**plan, "measure": {**plan["measure"], "trace": trace}})
    assert "measure.trace" in (obstacle(traced) or "")
    assert obstacle(typed(plan)) is None


def parted(plan: dict[str, Any]) -> dict[str, Any]:
    """Both flows between the same two hosts, the second by a link of its own beside the bottleneck."""
    other = copy.deepcopy(plan)
    for key in ("from", "to", "path", "reverse_path"):
        other["flows"][1][key] = copy.deepcopy(other["flows"][0][key])
    other["links"].append({**other["links"][0], "name": "detour"})
    path = other["flows"][1]["path"]
    path[path.index(0)] = len(other["links"]) - 1
    return other


def test_flows_of_the_same_hosts_that_part_have_rules_with_their_port(plan: dict[str, Any]) -> None:
    made = parted(plan)
    detour = len(made["links"]) - 1
    links = wire_netem(typed(made), "t", 0)
    (rule,) = (" ".join(command) for command in links.wiring.up if "rule" in command)
    assert f"dport {links.wiring.first_port + 1} lookup {1000 + detour}" in rule
    assert f"-n weir-t-r{made['links'][0]['from']} " in rule
    routes = [" ".join(command) for command in links.wiring.up if "route" in command]
    assert any(f"dev weir{detour} table {1000 + detour}" in line for line in routes)
    assert not any("rule" in command for command in wire_netem(typed(plan), "t", 0).wiring.up)


def test_every_node_on_a_path_is_a_namespace_that_is_removed(plan: dict[str, Any]) -> None:
    links = wire_netem(typed(plan), "t", 0)
    made = namespaces(links)
    assert {c[3] for c in links.wiring.down} == made
    assert len(made) == len(plan["nodes"])
    assert all(name.startswith("weir-t-") for name in made)


def test_every_used_device_is_made_before_it_is_used(plan: dict[str, Any]) -> None:
    """In each namespace: no route, queue or redirection names a device that no earlier command made."""
    made: set[tuple[str, str]] = set()
    for command in wire_netem(typed(plan), "t", 0).wiring.up:
        words = list(command)
        if words[3:5] == ["link", "add"]:
            made.add((words[2], words[5]))
            made.add((words[-1], words[words.index("peer") + 2]))
        elif "dev" in words:
            for place in (n for n, word in enumerate(words) if word == "dev"):
                assert (words[2], words[place + 1]) in made, command


def test_the_flow_whose_packets_a_link_loses_is_known_where_it_is_alone(plan: dict[str, Any]) -> None:
    both = wire_netem(typed(plan), "t", 0)
    assert [b["flow"] for b in queues_job(typed(plan), both)["queues"]] == [None, None]
    assert any("bottleneck" in text and "lost_packets" in text for text in both.wiring.warnings)
    alone = plan_of(text(pairs=1))
    links = wire_netem(typed(alone), "t", 0)
    assert [b["flow"] for b in queues_job(typed(alone), links)["queues"]] == [0, None]
    assert links.wiring.warnings == ()


# Kernels without netem -----------------------------------------------------------------------------------------------


@pytest.fixture
def kernel_without(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A kernel that refuses the modules in the list."""
    lacking: list[str] = []

    def run(command: tuple[str, ...], *, input: str, **_: object) -> subprocess.CompletedProcess[str]:  # noqa: A002
        refused = any(word in input for word in lacking)
        return subprocess.CompletedProcess(command, int(refused), "", "Error: Specified qdisc kind is unknown.\n")

    monkeypatch.setattr(_support.subprocess, "run", run)
    _support._missing.cache_clear()
    yield lacking
    _support._missing.cache_clear()


def test_a_kernel_that_lacks_something_is_named_with_the_ways_out(kernel_without: list[str]) -> None:
    kernel_without += ["netem", "mirred"]
    with pytest.raises(MethodError) as caught:
        _support.needs_netem()
    message = str(caught.value)
    assert "lacks netem (Specified qdisc kind is unknown); redirection" in message
    assert "tbf" not in message
    for way in ("modprobe sch_netem", "methods.emul.links", "--method lab --set methods.lab.links=netem"):
        assert way in message


def test_a_kernel_that_has_it_all_is_fine(kernel_without: list[str]) -> None:
    _support.needs_netem()


@needs_emul()
def test_a_run_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    if not _support._missing():
        pytest.skip("this kernel has netem")
    (tmp_path / "s.yaml").write_text(text())
    run = weir(
        *("run", str(tmp_path / "s.yaml"), "--method", "emul", "--set", "methods.emul.links=netem"),
        *("--out", str(tmp_path / "run")),
    )
    _, err = run.communicate(timeout=60)
    assert run.returncode != 0
    assert "links: netem is not possible here" in err
    assert "Traceback" not in err
    assert remains_of({run.pid}) == []

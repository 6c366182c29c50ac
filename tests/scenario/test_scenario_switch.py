"""Switches in scenarios: what becomes of them in a plan, and the messages about mistakes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from scenario_support import plan_of

from weir.methods import get as method
from weir.methods.lab import _wire
from weir.plan import typed
from weir.scenario import ScenarioError, check, load, parse
from weir.scenario._switch_presets import PRESETS

_FLOWS = "[{name: a, kind: cbr, between: [h0, h2], wire_rate: 1Gbps, until: 1s}]"


def star(switch: str, more: str = "", flows: str = _FLOWS) -> str:
    """Three hosts around a switch."""
    head = f"title: t\ntopology:\n  star: {{hosts: 3, access: {{rate: 1Gbps}}, switch: {switch}{more}}}\n"
    return f"{head}workload: {flows}\n"


def graph(switch: str, links: str) -> str:
    """Two hosts, a router and a switch."""
    head = (
        f"title: t\ntopology:\n  graph: {{hosts: [a, b], routers: [r], switches: {{s: {switch}}}, links: [{links}]}}\n"
    )
    return f"{head}transport: {{cc: cubic}}\nworkload: [{{name: f, kind: bulk, between: [a, b], until: 1s}}]\n"


_LINKS = "{between: [a, s], rate: 1Gbps}, {between: [s, r], rate: 1Gbps, queue: 10ms}, {between: [r, b], rate: 1Gbps}"


def switch_of(text: str) -> dict[str, Any]:
    """The only switch of the plan."""
    (found,) = [node["switch"] for node in plan_of(text)["nodes"] if "switch" in node]
    return dict(found)


def problem(text: str) -> str:
    """The only problem of a scenario."""
    with pytest.raises(ScenarioError) as caught:
        parse(text)
    return str(next(iter(caught.value.problems)))


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_a_switch_that_the_simulator_takes(name: str) -> None:
    plan = plan_of(star(name))
    assert method("sim").obstacle(plan) is None
    assert switch_of(star(name))["memory"] == dict(PRESETS[name].memory)


@pytest.mark.parametrize(
    "text",
    [
        graph("fair", _LINKS.replace("10ms", "SIZE")),
        graph("fair", _LINKS.replace("10ms", "{drr: {classes: {all: {quantum: 2kB, queue: SIZE}}}}")),
        star("{memory: SIZE}"),
    ],
    ids=["link", "class", "memory"],
)
def test_queues_and_memories_need_room_for_a_full_packet(text: str) -> None:
    parse(text.replace("SIZE", "1538B"))
    assert "holds 1537 bytes, less than one full packet (1538 bytes on the wire)" in problem(
        text.replace("SIZE", "1537B")
    )


def test_keys_replace_those_of_the_preset() -> None:
    made = switch_of(star("{preset: huawei-s5648, arbiter: pim}"))
    assert made["arbiter"] == {"kind": "pim", "iterations": 4}
    assert (made["memory"]["bytes"], made["resume_bytes"]) == (1_000_000, 64 * 1538)


def test_every_word_reaches_the_plan() -> None:
    text = """{memory: {mixed: {reserved: 16KiB, shared: 256KiB, alpha: 2}}, resume: 10kB, forwarding: cut_through,
        arbiter: {bursty: {hold: {pareto: {mean: 100ms}}}}, jitter: 3us, pause: {high: 64KiB, low: 32KiB}}"""
    assert switch_of(star(text)) == {
        "memory": {"kind": "mixed", "reserved_bytes": 16384, "shared_bytes": 262144, "alpha": 2.0},
        "arbiter": {"kind": "bursty", "hold": {"kind": "pareto", "mean_ns": 100_000_000, "shape": 1.5}},
        "resume_bytes": 10_000,
        "forwarding": "cut_through",
        "jitter_ns": 3000,
        "pause": {"high_bytes": 65536, "low_bytes": 32768},
    }
    weighted = switch_of(star("{memory: {partitioned: {size: 9kB}}, arbiter: {weighted: {weights: {h1: 3}}}}"))
    (weight,) = weighted["arbiter"]["weights"]
    assert plan_of(star("fair"))["links"][weight["link"]]["name"] == "h1->hub"
    assert weight["weight"] == 3


def test_a_switch_of_a_graph_has_its_memory_instead_of_queues() -> None:
    plan = plan_of(graph("fair", _LINKS))
    limits = {link["name"]: link["queue"]["limit"] for link in plan["links"]}
    assert limits["s->r"] == limits["s->a"] == {"bytes": None, "packets": 4}
    assert limits["r->s"]["bytes"] == 1_250_000, "the router's own queue"


def test_wire_rates_are_exact() -> None:
    # Table 1 of LIP 2006-38, in frames without preamble and gap: 18 bytes more than the IP packet, 38 on the wire.
    for wire, size, frames in [(1000, 1500, 987), (950, 1500, 938), (900, 1500, 888), (1000, 64, 804), (900, 64, 724)]:
        entry = f"[{{name: a, kind: cbr, between: [h0, h2], wire_rate: {wire}Mbps, packet: {size}B, until: 1s}}]"
        rate = plan_of(star("fair", flows=entry))["flows"][0]["source"]["rate_bps"]
        assert rate == wire * 1_000_000 * size // (size + 38)
        assert round(rate / 1e6 * (size + 18) / size) == frames


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (star("{arbiter: fifo}"), "`memory` is missing: the memory of the switch; or give a `preset`"),
        (star("fare"), "did you mean `fair`?"),
        (star("{memory: 1kB}"), "holds 1000 bytes, less than one full packet (1538 bytes on the wire)"),
        (star("{memory: 9kB, resume: 8kB}"), "it would drop everything after its first loss"),
        (star("{memory: 9kB, arbiter: {weighted: {weights: {h7: 2}}}}"), "`h7` has no link to switch `hub`"),
        (star("{memory: 9kB, arbiter: {bursty: {hold: 0}}}"), "expected more than 0"),
        (star("{memory: 9kB, arbiter: {bursty: {hold: {pareto: {mean: 1s, shape: 1}}}}}"), "expected a number above 1"),
        (star("{memory: 9kB, pause: {high: 4kB, low: 4kB}}"), "`low` must be below `high`"),
        (star("fair", ", port: {queue: 9kB}"), "the memory of `switch` holds the packets of a port"),
        (star("{preset: fair, forwarding: cut_through}", ", port: {rate: 2Gbps}"), "would run dry"),
        (
            graph("fair", "{between: [a, s], rate: 1Gbps, queue: 9kB}, {between: [s, b], rate: 1Gbps}"),
            "leave out `queue`",
        ),
        (
            graph(
                "{preset: fair, pause: {high: 9kB, low: 8kB}}",
                f"{{between: [b, s], rate: 1Gbps, oneway: true}}, {_LINKS}",
            ),
            "no link leads back over `b->s`",
        ),
        (
            star("{preset: fair, pause: {high: 9kB, low: 8kB}}") + "changes: [{at: 1ms, link: h0->hub, rate: 1Mbps}]\n",
            "the switch after `h0->hub` pauses it",
        ),
        (
            star("{preset: fair, forwarding: cut_through}") + "changes: [{at: 1ms, link: h0->hub, delay: 1ms}]\n",
            "the switch after `h0->hub` cuts its packets through",
        ),
        (
            star("fair", flows="[{name: a, kind: cbr, between: [h0, h2], wire_rate: 2Gbps, until: 1s}]"),
            "exceed the 1Gbps",
        ),
        (
            star("fair", flows="[{name: a, kind: cbr, between: [h0, h2], rate: 1Mbps, wire_rate: 2Gbps, until: 1s}]"),
            "`wire_rate` and `rate` both give the rate; give one",
        ),
    ],
)
def test_a_mistake_is_reported_where_it_is(text: str, expected: str) -> None:
    told = problem(text)
    assert expected in told
    assert int(told.split(":")[1]) >= 2, "line and column"


@pytest.mark.parametrize("name", ["emul", "lab"])
def test_links_without_a_memory_and_an_arbiter_refuse_a_switch_by_its_name(name: str) -> None:
    netem = star("fair", flows=_FLOWS + f"\nmethods: {{{name}: {{links: netem}}}}")
    told = str(method(name).obstacle(plan_of(netem)))
    assert "links: netem lacks this: switch `hub`: a memory and an arbiter" in told or "sch_netem" in told


def test_the_links_of_the_lab_leave_a_switch_to_the_emulator() -> None:
    assert _wire.obstacle(typed(plan_of(star("fair")))) == "switch `hub`: a memory and an arbiter"


def test_a_switch_comes_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "switch.yaml").write_text("memory: {shared: {size: 100kB, alpha: 2}}\narbiter: round_robin\n")
    for words in ("./switch.yaml", "switch.yaml", "{file: switch.yaml}"):
        scenario = tmp_path / "scenario.yaml"
        scenario.write_text(star(words))
        (cell,) = load(scenario).cells()
        (made,) = [node["switch"] for node in cell.plan()["nodes"] if "switch" in node]
        assert (made["memory"]["bytes"], made["arbiter"]["kind"]) == (100_000, "round_robin")
    scenario.write_text(star("{file: switch.yaml, arbiter: fifo, jitter: 1us}"))
    (cell,) = load(scenario).cells()
    (made,) = [node["switch"] for node in cell.plan()["nodes"] if "switch" in node]
    assert (made["memory"]["alpha"], made["arbiter"]["kind"], made["jitter_ns"]) == (2.0, "fifo", 1000)


@pytest.mark.parametrize(
    ("content", "words", "said"),
    [
        (None, "./switch.yaml", "there is no file"),
        ("memory: {shared: {size: 9kB}}\n", "{file: switch.yaml, preset: fair}", "both say which switch it is"),
        ("memory: {shared: {size: 9kB}}\nbuffer: 3\n", "./switch.yaml", "switch.yaml:2:1: unknown key `buffer`"),
        (
            "arbiter: {weighted: {weights: {h9: 2}}}\nmemory: 9kB\n",
            "./switch.yaml",
            "switch.yaml:1:31: `h9` has no link",
        ),
        ("file: other.yaml\n", "./switch.yaml", "names no other file"),
    ],
)
def test_a_bad_file_is_named_with_the_place_in_it(tmp_path: Path, content: str | None, words: str, said: str) -> None:
    if content is not None:
        (tmp_path / "switch.yaml").write_text(content)
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(star(words))
    with pytest.raises(ScenarioError, match=re.escape(said)):
        load(scenario)


def test_weights_in_a_file_may_be_of_ports_that_are_not_used(tmp_path: Path) -> None:
    (tmp_path / "switch.yaml").write_text("arbiter: {weighted: {weights: {h0: 3, h3: 2}}}\nmemory: 9kB\n")
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(star("./switch.yaml"))
    (cell,) = load(scenario).cells()
    (made,) = [node["switch"] for node in cell.plan()["nodes"] if "switch" in node]
    assert [weight["weight"] for weight in made["arbiter"]["weights"]] == [3]


def test_a_pause_that_never_comes_is_told(tmp_path: Path) -> None:
    def told(switch: str) -> list[str]:
        path = tmp_path / "scenario.yaml"
        path.write_text(star(switch))
        return [one.message for one in check(path) if one.severity == "warning" and "pauses" in one.message]

    (found,) = told("{memory: 9kB, pause: {high: 10kB, low: 8kB}}")
    assert found.startswith("`high` is 10000 B, but the memory has 9000 B")
    assert not told("{preset: fair, pause: {high: 10kB, low: 8kB}}")
    assert not told("{memory: {partitioned: {size: 9kB}}, pause: {high: 10kB, low: 8kB}}")


def test_a_switch_may_be_what_makes_repeats_differ(tmp_path: Path) -> None:
    def told(switch: str) -> bool:
        path = tmp_path / "scenario.yaml"
        path.write_text(star(switch) + "repeat: 3\n")
        return any("nothing is random here" in one.message for one in check(path))

    assert told("fair")
    assert told("{memory: 90kB, arbiter: islip}")
    for switch in ("bursty", "{memory: 90kB, arbiter: pim}", "{memory: 90kB, jitter: 1us}"):
        assert not told(switch)


_TWO = """[{name: one, kind: cbr, between: [h0, h2], wire_rate: 200Mbps, until: 200ms},
    {name: two, kind: cbr, between: [h1, h2], wire_rate: 1Gbps, start: 3us, until: 200ms}]"""


@pytest.mark.parametrize(
    ("switch", "way"),
    [
        ("{memory: 200kB}", "`resume` from 24608B on, or `jitter` from 24.6us on, lets the rates decide"),
        ("{memory: {shared: {size: 200kB, alpha: 1}}}", "`resume`"),
        ("{memory: {partitioned: {size: 200kB}}}", "`resume`"),
        ("{memory: 200kB, jitter: 1us}", "`resume`"),
        ("{memory: 200kB, resume: 12kB}", "`resume`"),
        (
            "{memory: 200kB, arbiter: round_robin}",
            "`alpha`, or memory of each queue's own, lets the arbiter decide, `jitter` from 24.6us on the rates",
        ),
        ("{memory: 200kB, arbiter: round_robin, resume: 98kB}", "`alpha`"),
        ("{memory: {shared: {size: 200kB, alpha: 128}}, arbiter: round_robin}", "`alpha`"),
        ("{memory: 200kB, arbiter: islip}", "`alpha`"),
        ("{memory: 200kB, resume: 25kB}", None),
        ("{memory: 200kB, jitter: 25us}", None),
        ("{memory: 200kB, pause: {high: 64KiB, low: 32KiB}}", None),
        ("{memory: {shared: {size: 200kB, alpha: 64}}, arbiter: round_robin}", None),
        ("{memory: {partitioned: {size: 200kB}}, arbiter: round_robin}", None),
        ("{memory: {mixed: {reserved: 20kB, shared: 200kB}}, arbiter: round_robin}", None),
        ("fair", None),
    ],
)
def test_phases_that_decide_are_told_with_what_lets_something_else_decide(switch: str, way: str | None) -> None:
    found = phases(star(switch, flows=_TWO))
    if way is None:
        assert not found
        return
    (told,) = found
    assert told.startswith("`one` and `two` send up to 1200 Mb/s at constant rates to the 1000 Mb/s of `hub->h2`")
    assert way in told


def phases(text: str) -> list[str]:
    """The notes about phases."""
    return [one.message for one in parse(text).problems if "phases decide" in one.message and one.severity == "info"]


@pytest.mark.parametrize(
    ("change", "to"),
    [
        ("wire_rate: 1Gbps", "wire_rate: 700Mbps"),
        ("[h1, h2]", "[h0, h2]"),
        ("[h1, h2]", "[h1, h0]"),
        ("start: 3us, until: 200ms", "start: 200ms, until: 400ms"),
        ("start: 3us, until: 200ms", "start: 3us, until: 4ms"),
        (
            "name: two, kind: cbr",
            "name: two, periods: [1ms, 1ms], kind: cbr",
        ),
    ],
    ids=["room for both", "one input", "two outputs", "one after the other", "too short to fill", "not constant"],
)
def test_no_phases_decide_where_no_two_constant_rates_fill_a_memory(change: str, to: str) -> None:
    text = star("{memory: 200kB}", flows=_TWO)
    assert phases(text)
    assert change in text
    assert not phases(text.replace(change, to))


def test_jitter_before_the_switch_decides_instead_of_phases() -> None:
    text = f"""title: t
topology:
  graph:
    hosts: [h0, h1, h2]
    switches: {{s: {{memory: 200kB}}}}
    links:
      - {{between: [h0, s], rate: 1Gbps, delay: 1ms}}
      - {{between: [h1, s], rate: 1Gbps}}
      - {{between: [s, h2], rate: 1Gbps}}
workload: {_TWO}
"""
    assert phases(text)
    assert not phases(text.replace("delay: 1ms", "delay: 1ms, jitter: {deviation: 50us}"))

"""The language of inventories: what is read, and what is refused where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from weir.inventory import InventoryError, Node, load, parse, schema

ALL = """\
sets:
  ClusterA:
    nodes:
      - a[1..12].example.org
      - {address: 10.0.0.2, port: 2222, name: extra, user: me, rate: 10Gbps}
    user: root
    key: keys/id
    known_hosts: hosts
    jump: [me@gate.example.org, "inner:2200"]
    rate: 1Gbps
    interface: eth1
  ClusterB:
    reserve: {by: slurm, nodes: 5, time: 1h, partition: p, exclude: b7}
  ClusterC:
    nodes: "c[09..11]"
    experiment_address: 10.1.0.[1..3]
connections:
  - {between: [ClusterA, ClusterB], rate: 10Gbps, rtt: 18ms}
roles:
  sources: ClusterA[1..5]
  sinks: ["ClusterB[1..4]", "ClusterC[2]"]
  src[5..6]: ClusterC[1]
network: emulated
"""


def problems(text: str) -> list[str]:
    with pytest.raises(InventoryError) as error:
        parse(text, "it.yaml")
    return [str(problem) for problem in error.value.problems]


def test_a_set_of_given_nodes(tmp_path: Path) -> None:
    file = tmp_path / "inventory.yaml"
    file.write_text(ALL, encoding="utf-8")
    found = load(file)
    nodes = found.sets["ClusterA"].nodes
    assert [node.address for node in nodes] == [*(f"a{n}.example.org" for n in range(1, 13)), "10.0.0.2"]
    assert nodes[0] == Node(
        name="a1.example.org",
        set="ClusterA",
        address="a1.example.org",
        user="root",
        key=str(tmp_path / "keys/id"),
        known_hosts=str(tmp_path / "hosts"),
        jump=("me@gate.example.org", "inner:2200"),
        interface="eth1",
        rate_bps=1_000_000_000,
    )
    extra = nodes[12]
    assert (extra.name, extra.port, extra.user, extra.rate_bps) == ("extra", 2222, "me", 10_000_000_000)
    assert extra.key == nodes[0].key
    assert found.file == str(file)


def test_a_set_to_be_reserved_gets_its_nodes_later() -> None:
    found = parse(ALL)
    one = found.sets["ClusterB"]
    assert one.reserve is not None
    assert (one.reserve.by, one.reserve.nodes, one.reserve.time_s) == ("slurm", 5, 3600)
    assert (one.reserve.partition, one.reserve.text("exclude")) == ("p", "b7")
    assert (one.nodes, one.size, found.unreserved) == ((), 5, (one,))
    full = found.with_nodes("ClusterB", [one.node(f"10.2.0.{n}", f"b{n}") for n in range(5)])
    assert [node.name for node in full.sets["ClusterB"].nodes] == ["b0", "b1", "b2", "b3", "b4"]
    assert full.unreserved == ()
    assert found.sets["ClusterB"].nodes == ()
    with pytest.raises(InventoryError, match=r"^<text>:13:5: node `c10` \(10.2.0.9\), .* is in the inventory twice"):
        found.with_nodes("ClusterB", [one.node("10.2.0.9", "c10")])


def test_ranges_addresses_connections_and_roles() -> None:
    found = parse(ALL)
    assert [(n.name, n.experiment_address) for n in found.sets["ClusterC"].nodes] == [
        ("c09", "10.1.0.1"),
        ("c10", "10.1.0.2"),
        ("c11", "10.1.0.3"),
    ]
    between = found.connection("ClusterB", "ClusterA")
    assert between is not None
    assert (between.rate_bps, between.rtt_ns) == (10_000_000_000, 18_000_000)
    assert found.connection("ClusterA", "ClusterC") is None
    assert {role.name: [str(part) for part in role.parts] for role in found.roles} == {
        "sources": ["ClusterA[1..5]"],
        "sinks": ["ClusterB[1..4]", "ClusterC[2]"],
        "src[5..6]": ["ClusterC[1]"],
    }
    assert found.network == "emulated"
    assert (found.emulator, found.between) == (None, None)
    assert parse("sets: {A: {nodes: x}}").network == "existing"


def test_the_node_between_the_others() -> None:
    found = parse("{sets: {A: {nodes: [x, y]}}, network: emulated, emulator: 'A[2]'}")
    assert found.between == found.nodes[1]
    more = "{sets: {A: {nodes: x}, E: {reserve: {by: slurm, nodes: 1, time: 1h}}}, network: emulated, emulator: "
    later = parse(f"{more}{{node: E, interfaces: {{A: eth1}}}}}}")
    assert later.between is None, "it is not reserved"
    assert later.emulator is not None
    assert later.emulator.interfaces == {"A": "eth1"}
    held = later.with_nodes("E", [later.sets["E"].node("e9")])
    assert held.between is not None
    assert held.between.name == "e9"


NODES = "sets:\n  A: {nodes: [x, y]}\n"
BAD: dict[str, tuple[str, list[str]]] = {
    "an emulator of an existing network": (
        f"{NODES}emulator: A[1]",
        ["3:11: an existing network has no emulator; expected `network: emulated` with it"],
    ),
    "several emulators": (
        f"{NODES}network: emulated\nemulator: A",
        ["4:11: `A` are 2 nodes; expected one, such as `A[1]`"],
    ),
    "an unknown emulator": (
        f"{NODES}network: emulated\nemulator: {{node: C, interfaces: {{D: eth0}}}}",
        ["4:18: `C` is not a set; expected `A`", "4:33: `D` is not a set; expected `A`"],
    ),
    "nothing": ("", ["1:1: there is nothing here; expected `sets`"]),
    "a list": ("[a]", ["1:1: expected a mapping with `sets`, found a list"]),
    "no set": ("sets: {}", ["1:7: there is no set; expected `ALIAS: {nodes: [...]}`"]),
    "no nodes": ("sets:\n  A: {user: me}", ["2:6: set `A` has no nodes; expected `nodes: [...]` or `reserve: {...}`"]),
    "both": (
        "sets:\n  A: {nodes: x, reserve: {by: slurm, nodes: 1, time: 1h}}",
        ["2:26: give `nodes` or `reserve`, not both"],
    ),
    "an unknown key": ("sets:\n  A: {node: [x]}", ["2:7: unknown key `node`; did you mean `nodes`?"]),
    "a node twice": (
        "sets:\n  A: {nodes: [x]}\n  B: {nodes: [{address: x, name: z}, z]}",
        [
            "3:15: two nodes have the address `x`; the first is at line 2",
            "3:38: two nodes have the name `z`; the first is at line 3",
        ],
    ),
    "a range backwards": ('sets:\n  A: {nodes: ["a[5..2]"]}', ["2:15: `[5..2]` ends before it begins"]),
    "too many": ('sets:\n  A: {nodes: ["a[1..999999]-[1..999999]"]}', ["2:15: more than 10000 nodes"]),
    "too many in all": (
        'sets:\n  A: {nodes: ["a[1..9000]"]}\n  B:\n    reserve: {by: slurm, nodes: 1001, time: 1h}',
        ["4:14: more than 10000 nodes"],
    ),
    "an option as address": (
        "sets:\n  A: {nodes: [-oProxyCommand=touch]}",
        [
            "2:15: expected an address, such as `a1.example.org`, `10.0.0.2` or `a[1..12].example.org`, found "
            "`-oProxyCommand=touch`"
        ],
    ),
    "a variable in a path": (
        "sets:\n  A: {nodes: x, key: $HOME/id}",
        ['2:22: expected a path of a file, without `"`, `$`, `%` and `\\`, found `$HOME/id`'],
    ),
    "addresses of the experiment": (
        'sets:\n  A: {nodes: [x, y], experiment_address: "10.0.0.[1..3]"}',
        ["2:42: 3 addresses for 2 nodes; expected one for each"],
    ),
    "a connection to nowhere": (
        NODES + "connections:\n  - {between: [A, B]}",
        ["4:15: `B` is not a set; expected `A`"],
    ),
    "a role of no set": (NODES + "roles: {sources: AA}", ["3:18: `AA` is not a set; did you mean `A`?"]),
    "a part of no nodes": (NODES + 'roles: {sources: "A[2..3]"}', ["3:18: `A[2..3]`: set `A` has the nodes 1 to 2"]),
    "a part from zero": (NODES + 'roles: {sources: "A[0]"}', ["3:18: `A[0]`: set `A` has the nodes 1 to 2"]),
    "a reservation without time": (
        "sets:\n  A: {reserve: {by: slurm, nodes: 1}}",
        ["2:16: `time` is missing: how long the nodes are reserved at most, such as 1h"],
    ),
    "a reservation of too few": (
        "sets:\n  A: {reserve: {by: slurm, nodes: 0, time: 1h}}",
        ["2:35: `nodes`: 0: expected a whole number from 1 to 100000"],
    ),
    "a tag": (
        "sets: !!python/object/apply:os.system [x]",
        ["1:7: tags such as `!!python/object/apply:os.system` are not allowed in an inventory"],
    ),
    "two documents": ("a: 1\n---\nb: 2", ["2:1: a second YAML document begins here; an inventory is one"]),
}


@pytest.mark.parametrize("name", BAD)
def test_mistakes_have_their_place(name: str) -> None:
    text, expected = BAD[name]
    assert problems(text) == [f"it.yaml:{line}" for line in expected]


@pytest.mark.parametrize("secret", ["password", "Passphrase", "passwd", "secret", "token", "private-key", "pass"])
def test_secrets_are_refused_with_the_reason(secret: str) -> None:
    (found,) = problems(f"sets:\n  A: {{nodes: [{{address: x, {secret}: hunter2}}]}}")
    assert found.startswith(f"it.yaml:2:28: `{secret}` is not allowed: an inventory has no secrets")
    assert "`key`" in found
    assert "hunter2" not in found


MISTAKES = """\
sets:
  A: {nodes: [{address: x, password: hunter2}], rate: fast}
  B: {nodes: 'b[1..2]', experiment_address: 'c[1..3]'}
  token: {nodes: t1}
connections:
  - {between: [A, D], rate: 1Gbps}
roles:
  sources: [A, E]
  sinks: B
  hosts: token
emulator: {node: F}
"""


def test_all_mistakes_are_told_at_once() -> None:
    found = problems(MISTAKES)
    assert [(line.split(":")[1], line.partition(": ")[2][:24]) for line in found] == [
        ("2", "`password` is not allowe"),
        ("2", "`fast` is not a rate; ex"),
        ("4", "`token` is not allowed: "),
        ("6", "`D` is not a set; expect"),
        ("8", "`E` is not a set; expect"),
        ("11", "`F` is not a set; expect"),
    ], found
    assert "hunter2" not in "".join(found)
    found = problems(MISTAKES.replace("fast", "1Gbps"))
    assert [line.split(":")[1] for line in found] == ["2", "3", "4", "6", "8", "11"]
    assert "3 addresses for 2 nodes" in found[1]


def test_a_secret_is_in_no_problem() -> None:
    for text in ("connections: {password: {is: hunter2}}", "network: {password: hunter2}", "A: [{token: [hunter2]}]"):
        found = problems(f"sets: {{A: {{nodes: x}}}}\n{text}")
        assert len(found) >= 2
        assert "hunter2" not in "".join(found)


def test_an_alias_bomb_ends_with_an_error() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    (found,) = problems("\n".join(lines))
    assert "more than 50000 values" in found


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(InventoryError, match=r"nowhere/it\.yaml:1:1: cannot be read: No such file"):
        load("nowhere/it.yaml")


def data(text: str) -> Any:
    return json.loads(json.dumps(YAML(typ="safe", pure=True).load(text)))


def test_the_schema_takes_what_is_read_and_refuses_unknown_keys() -> None:
    validator = jsonschema.Draft202012Validator(schema())
    validator.check_schema(schema())
    assert not [*validator.iter_errors(data(ALL))]
    for name in ("a list", "an unknown key", "an option as address", "a variable in a path"):
        assert [*validator.iter_errors(data(BAD[name][0]))], name

"""Links from the kernel's disciplines, in the lab's kernel: close to its own links; and method ``emul`` with them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from lab_support import plan

from shared import Memory, execute
from weir.lab import Kernel
from weir.methods import MethodError
from weir.methods.lab import LabMethod
from weir.run.tables import TABLES

RECORDED = [name for name, table in TABLES.items() if not table.optional]
"""The tables that every cell has."""
_LINKS = ("kernel", "netem")
_SHORT = ("duration=4s", "workload.a.until=4s")


def by(links: str, folder: Path, *changes: str) -> Memory:
    """The tables of a plan in the lab over these links."""
    return execute("lab", plan(folder, f"methods.lab.links={links}", *_SHORT, *changes))[0]


def delivered(sink: Memory) -> list[int]:
    return [int(value) for value in sink.columns("flows")["delivered_bytes"]]


def bottleneck(sink: Memory, column: str) -> list[int]:
    links = sink.columns("links")
    return [int(v) for v, link in zip(links[column], links["link"], strict=True) if link == 0 and v is not None]


@pytest.fixture(scope="module")
def two(kernel: Kernel, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Memory]:
    folder = tmp_path_factory.mktemp("two")
    return {links: by(links, folder) for links in ("kernel", "netem")}


def test_two_flows_are_near_those_over_the_kernels_own_links(two: dict[str, Memory]) -> None:
    own, netem = two["kernel"], two["netem"]
    assert sum(delivered(netem)) == pytest.approx(sum(delivered(own)), rel=0.02)
    # Microseconds decide which flow loses the packet that does not fit.
    assert delivered(netem) == pytest.approx(delivered(own), rel=0.15)
    drops = [sum(bottleneck(sink, "drop_packets")) for sink in (netem, own)]
    assert 0.5 < drops[0] / drops[1] < 2
    delays = [sum(d) / len(d) for d in (bottleneck(sink, "queue_delay_ns") for sink in (netem, own))]
    assert delays[0] == pytest.approx(delays[1], rel=0.15)


@pytest.mark.parametrize("ecn", ["true", "false"])
def test_red_is_near_that_of_the_kernels_own_links_and_of_the_simulator(
    kernel: Kernel, tmp_path: Path, ecn: str
) -> None:
    """Its average decays on an idle link, or the flows would never recover from the overshoot of slow start."""
    queue = f"{{red: {{size: 200packets, min: 15kB, max: 45kB, gentle: false, weight: 0.002, ecn: {ecn}}}}}"
    changes = (f"topology.dumbbell.bottleneck.queue={queue}", f"transport.ecn={ecn}", "duration=12s")
    changes += ("workload.a.until=12s",)
    own, netem = (execute("lab", plan(tmp_path, *changes, f"methods.lab.links={links}"))[0] for links in _LINKS)
    simulated = execute("sim", plan(tmp_path, *changes, "transport.cc=reno"))[0]
    for sink in (own, netem):
        # Six seeds of the simulator deliver 21.1 to 24.3 MB; flows that never recover deliver 0.3 MB.
        assert sum(delivered(sink)) == pytest.approx(sum(delivered(simulated)), rel=0.2)
        late = [sum(bottleneck(sink, f"{what}_packets")[250:]) for what in ("mark", "drop")]
        expected = [sum(bottleneck(simulated, f"{what}_packets")[250:]) for what in ("mark", "drop")]
        assert late == pytest.approx(expected, rel=0.35)
        assert sum(bottleneck(sink, "drop_packets")) > 50, "slow start goes beyond the upper threshold"


def test_one_flow_is_near_that_over_the_kernels_own_links(kernel: Kernel, tmp_path: Path) -> None:
    own, netem = (by(links, tmp_path, "topology.dumbbell.pairs=1") for links in ("kernel", "netem"))
    assert delivered(netem) == pytest.approx(delivered(own), rel=0.02)
    lost = [int(sink.columns("flows")["lost_packets"][0]) for sink in (netem, own)]
    assert lost[0] == pytest.approx(lost[1], rel=0.25)
    assert lost[0] == sum(bottleneck(netem, "drop_packets"))  # there is no other flow


def test_every_table_has_rows_and_packets_are_conserved(two: dict[str, Memory]) -> None:
    sink = two["netem"]
    assert set(sink.batches) == set(RECORDED)
    facts = json.loads(sink.files["lab.json"].getvalue())
    assert (facts["links"], facts["because"]) == ("netem", "methods.lab.links asks for it")
    came, left, lost = (sum(bottleneck(sink, f"{name}_packets")) for name in ("in", "out", "drop"))
    assert came == left + lost + bottleneck(sink, "queue_packets")[-1]
    assert 0.8 * 50_000 < max(bottleneck(sink, "queue_max_bytes")) < 50_000  # 1 BDP of 20 Mb/s and 20 ms, in IP bytes


def test_twice_the_same_plan_gives_the_same_tables(two: dict[str, Memory], tmp_path: Path) -> None:
    again = by("netem", tmp_path)
    for name in RECORDED:
        assert again.table(name).equals(two["netem"].table(name)), name


@pytest.mark.parametrize("offload", ["trains", "device"])
def test_trains_are_refused(kernel: Kernel, tmp_path: Path, offload: str) -> None:
    with pytest.raises(MethodError, match="each packet alone"):
        by("netem", tmp_path, f"methods.lab.offload={offload}")


def test_what_is_foreseen_knows_the_links_and_the_congestion_controls(tmp_path: Path) -> None:
    """Estimates need no kernel: they are asked for before there is one."""
    lab = LabMethod()
    kinds = ("links=kernel", "links=netem", "links=emulator", "offload=trains")
    plans = {kind: plan(tmp_path, f"methods.lab.{kind}") for kind in kinds}
    seconds = {kind: lab.foreseen_s(made, 1_000_000) for kind, made in plans.items()}
    assert sorted(seconds, key=seconds.__getitem__) == [
        "offload=trains",
        "links=kernel",
        "links=netem",
        "links=emulator",
    ]
    assert [lab.obstacle(made) for made in plans.values()] == [None] * 4
    other = plan(tmp_path, "transport.cc=linux:lp")
    other["flows"][0]["transport"]["cc"] = "linux:none"
    assert "the lab kernel has no 'none'" in (lab.obstacle(other) or "")
    lossy = plan(tmp_path, "methods.lab.links=netem", "topology.dumbbell.bottleneck.loss={list: [9]}")
    assert "a list of packets" in (lab.obstacle(lossy) or "")


def test_what_the_disciplines_lack_is_told(kernel: Kernel, tmp_path: Path) -> None:
    with pytest.raises(MethodError, match="links: netem lacks this: link bottleneck: loss: a list of packets"):
        by("netem", tmp_path, "topology.dumbbell.bottleneck.loss={list: [9]}")


_EMUL = """
import json, pathlib, sys
sys.path.insert(0, sys.argv[1])
from shared import execute
plan, out = (pathlib.Path(word) for word in sys.argv[2:])
sink, outcome = execute("emul", json.loads(plan.read_text()))
for name, file in sink.files.items():
    (out / name).write_bytes(file.getvalue())
found = {"delivered": sum(sink.columns("flows")["delivered_bytes"]), "links": sum(sink.columns("links")["out_packets"])}
(out / "found.json").write_text(json.dumps(found))
"""


_TWICE = """
exec 2>&1
"$@" || exit
ip netns list
"$@" & killed=$!
until [ "$(ip netns list | wc -l)" -ge 6 ]; do sleep 0.01; done
sleep 1
kill -9 $killed
sleep 10
ip netns list
ps -e -o args | grep weir-agent | grep -v grep
exit 0
"""
"""Executes a run, then again and kills it; prints the remains each time."""


def test_emul_over_netem_in_a_kernel_that_has_it(kernel: Kernel, tmp_path: Path) -> None:
    """All of method ``emul`` as root in the lab: namespaces, disciplines, self-check, tables; and nothing is left."""
    made = plan(tmp_path, "duration=2s", "workload.a.until=2s", "methods.emul.links=netem")
    (tmp_path / "plan.json").write_text(json.dumps(made))
    out = tmp_path / "out"
    out.mkdir()
    emul = (sys.executable, "-c", _EMUL, str(Path(__file__).parent.parent), str(tmp_path / "plan.json"), str(out))
    inside = ("sh", "-c", _TWICE, "sh", *emul)
    lab = (
        sys.executable,
        "-m",
        "weir.cli",
        "lab",
        "exec",
        "--write",
        str(out),
        "--seed",
        "1",
        "--max-time",
        "300s",
        "--",
    )
    done = subprocess.run([*lab, *inside], capture_output=True, text=True, timeout=400, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
    checks = json.loads((out / "selfcheck.json").read_text())["checks"]
    assert {check["what"] for check in checks} == {"round-trip time", "losses", "rate", "queue"}
    (rate,) = (check for check in checks if check["what"] == "rate")
    assert rate["measured"] == pytest.approx(20.0, rel=1e-3)  # timers are exact there
    (queue,) = (check for check in checks if check["what"] == "queue")
    assert queue["measured"] == pytest.approx(queue["expected"], rel=0.01)
    assert "root netem limit" in (out / "commands.sh").read_text()
    found = json.loads((out / "found.json").read_text())
    assert found["delivered"] == pytest.approx(2 * 20e6 / 8 * 1448 / 1538, rel=0.1)
    assert found["links"] > found["delivered"] / 1448

"""The parts of a plan that a method with a real kernel refuses before it creates anything, and its remarks."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from emul_support import text

from shared import Weir, dumbbell, plan_of
from weir import methods
from weir.hosts import netem
from weir.methods import MethodError
from weir.methods._intervals import Finest, too_fine
from weir.methods.emul import _fit
from weir.methods.lab import _links, _wire
from weir.methods.lab._effort import memory_mb
from weir.methods.lab._script import Network
from weir.plan import typed

_GENTLE = "topology.dumbbell.bottleneck.queue={red: {size: 100kB, min: 10kB, max: 30kB, gentle: true}}"


@pytest.fixture(scope="module")
def plan() -> dict[str, Any]:
    return plan_of(text(pairs=2))


def measured(plan: dict[str, Any], **intervals: int) -> dict[str, Any]:
    return {**plan, "measure": {**plan["measure"], **intervals}}


def told(plan: dict[str, Any], method: str, **options: str) -> dict[str, Any]:
    other = copy.deepcopy(plan)
    other.setdefault("methods", {}).setdefault(method, {}).update(options)
    return other


# Intervals -----------------------------------------------------------------------------------------------------------


def test_an_interval_that_is_too_short_is_named_with_its_bound(plan: dict[str, Any]) -> None:
    finest = Finest(goodput_ns=2_000, tcp_ns=5_000, links_ns=7_500, because="a reason")
    exact = measured(plan, goodput_ns=2_000, tcp_ns=5_000, links_ns=7_500)
    assert too_fine(typed(exact), finest) is None
    assert too_fine(typed(measured(exact, tcp_ns=0, goodput_ns=0, links_ns=0)), finest) is None, "0 switches one off"
    for name, least in (("goodput", "2us"), ("tcp", "5us"), ("links", "7.5us")):
        short = measured(exact, **{f"{name}_ns": 1_999})
        assert (
            too_fine(typed(short), finest)
            == f"measure.{name} is 1.999us, and {least} is the shortest that it serves: a reason"
        )


def test_emul_serves_shorter_intervals_to_fewer_flows(plan: dict[str, Any]) -> None:
    few, many = plan, {**plan, "flows": plan["flows"] * 100}
    least = [_fit.finest(typed(plan)).tcp_ns for plan in (few, many)]
    assert least[0] < 100_000 < least[1]
    _fit.require_fit(typed(measured(few, tcp_ns=least[0])))
    with pytest.raises(MethodError, match=r"measure\.tcp is .*us, and .*us is the shortest"):
        _fit.require_fit(typed(measured(few, tcp_ns=least[0] - 1)))


@pytest.mark.parametrize("method", ["emul", "lab"])
def test_methods_say_so_beforehand(plan: dict[str, Any], method: str) -> None:
    executor: Any = methods.get(method)
    short = measured(plan, tcp_ns=1000)
    assert "measure.tcp is 1us" in executor.obstacle(short)
    assert any("measure.tcp is 1us" in text for text in executor.remarks(short, 1000))
    assert not [*executor.remarks(plan, 1000)]


def test_the_lab_has_room_for_the_rows_of_short_intervals(plan: dict[str, Any]) -> None:
    """The memory of a usual plan does not depend on them: it decides sizes of the kernel's tables."""
    usual = memory_mb(typed(plan))
    assert memory_mb(typed(measured(plan, tcp_ns=1_000_000, links_ns=1_000_000))) == usual
    assert memory_mb(typed(measured(plan, tcp_ns=10_000, goodput_ns=10_000, links_ns=1_000))) > usual + 100


# Queues of the kernel ------------------------------------------------------------------------------------------------

_LIMIT = {"bytes": None, "packets": 100}
_PIE = {
    "kind": "pie",
    "limit": _LIMIT,
    "target_ns": 15_000_000,
    "update_ns": 15_000_000,
    "alpha": 0.125,
    "beta": 1.25,
    "mark": "drop",
}
_CODEL = {"target_ns": 5_000_000, "interval_ns": 100_000_000, "mark": "drop"}
_CURVE = {"dscp_from": 0, "dscp_to": 63, "min_bytes": 30_000, "max_bytes": 90_000, "max_p": 0.1}
_RED = {"kind": "red", "limit": _LIMIT, "curves": [_CURVE], "weight": 1 / 512, "gentle": False, "mark": "drop"}


@pytest.mark.parametrize(
    ("queue", "lacking"),
    [
        (_PIE, None),
        ({**_PIE, "alpha": 0.1}, "PIE with alpha 0.1 (the kernel has multiples of 1/16 up to 2)"),
        ({**_PIE, "beta": 2.0625}, "PIE with beta 2.0625"),
        ({**_PIE, "update_ns": 500_000}, "PIE with an update that is no whole number of milliseconds"),
        ({**_PIE, "target_ns": 999}, "a target of less than a microsecond"),
        ({**_PIE, "limit": {"bytes": 1, "packets": 1}}, "a limit in bytes and one in packets at once"),
        ({"kind": "codel", "limit": _LIMIT, "codel": _CODEL}, None),
        ({"kind": "codel", "limit": _LIMIT, "codel": {**_CODEL, "interval_ns": 10}}, "an interval of less than"),
        (_RED, None),
        ({**_RED, "curves": [{**_CURVE, "dscp_to": 9}]}, "RED of some code points only"),
        ({**_RED, "curves": [{**_CURVE, "dscp_from": 1, "dscp_to": 0}]}, None),
        ({**_RED, "gentle": True}, "RED in a form that the kernel lacks"),
    ],
)
def test_a_queue_that_no_discipline_is_goes_to_the_emulator(
    plan: dict[str, Any], queue: dict[str, Any], lacking: str | None
) -> None:
    """Not to a similar discipline: a queue is either reproduced or refused."""
    asked = copy.deepcopy(plan)
    asked["links"][0]["queue"] = queue
    for why in (_wire.obstacle(typed(asked)), netem.obstacle(typed(asked))):
        assert (why is None) == (lacking is None), why
        assert lacking is None or lacking in (why or "")


def test_a_queue_with_both_limits_on_a_link_that_changes(plan: dict[str, Any]) -> None:
    both = copy.deepcopy(plan)
    both["links"][0]["queue"] = {"kind": "droptail", "limit": {"bytes": 15_000, "packets": 10}}
    assert _wire.obstacle(typed(both)) is None, "a link of the module has both"
    both["changes"] = [{"at_ns": 1, "link": 0, "change": {"kind": "rate", "rate_bps": 1_000_000}}]
    assert "a limit in bytes and one in packets at once" in (_wire.obstacle(typed(both)) or "")


def test_losses_that_netem_would_round_to_none(plan: dict[str, Any]) -> None:
    rare = copy.deepcopy(plan)
    rare["links"][0]["loss"] = {"kind": "bernoulli", "p": 1e-9}
    assert "loss: a probability of less than 1e-08" in (netem.obstacle(typed(rare)) or "")
    rare["links"][0]["loss"] = {"kind": "bernoulli", "p": 1e-7}
    assert netem.obstacle(typed(rare)) is None


# Options of methods --------------------------------------------------------------------------------------------------


def test_trains_over_netem_are_refused(plan: dict[str, Any]) -> None:
    for offload in ("auto", "packets"):
        _fit.require_fit(typed(told(plan, "emul", links="netem", offload=offload)))
    with pytest.raises(MethodError, match=r"methods\.emul\.offload is trains, and links: netem"):
        _fit.require_fit(typed(told(plan, "emul", links="netem", offload="trains")))


def test_a_device_that_takes_trains_apart_needs_the_kernels_links(plan: dict[str, Any]) -> None:
    assert _links.choose(typed(told(plan, "lab", offload="device")), None)[0] == Network(
        module=Path(), offload="device"
    )
    for links in ("emulator", "auto"):
        slow = told(plan, "lab", links=links, offload="device")
        slow["links"][0]["queue"] = {**_RED, "curves": [], "gentle": True}
        with pytest.raises(MethodError, match=r"methods\.lab\.offload is device, which only the kernel's links have"):
            _links.choose(typed(slow), None)


# Estimates -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "a.yaml"
    path.write_text(dumbbell(workload="name: a, between: pairs, kind: bulk, until: 100s"), encoding="utf-8")
    return str(path)


def test_plan_prints_the_time_of_the_method(weir: Weir, file: str) -> None:
    """As each method estimates it; without a method, the simulator's."""
    ran = {name: weir("plan", file, "--method", name, "--json") for name in ("sim", "lab")}
    seconds = {name: json.loads(one.out)[0]["seconds"] for name, one in ran.items()}
    assert seconds["lab"] > 2 * seconds["sim"]
    assert json.loads(weir("plan", file, "--json").out)[0]["seconds"] == seconds["sim"]
    shown = weir("plan", file, "--method", "lab")
    assert f"{round(seconds['lab'])} s" in shown.out
    assert "of method lab on one processor" in shown.out


def test_plan_says_what_a_method_cannot_execute(weir: Weir, file: str) -> None:
    ran = weir("plan", file, "--method", "lab", "--set", "transport.stack=linux-2.6")
    assert (ran.code, ran.out) == (2, "")
    assert "method 'lab' cannot execute this: stack: linux-2.6" in ran.err


def test_check_and_plan_say_what_makes_the_lab_slow(weir: Weir, tmp_path: Path, file: str) -> None:
    assert "method lab" not in weir("check", file).out
    slow = weir("plan", file, "--method", "lab", "--set", _GENTLE)
    assert "note: its links are the program weir-emu here, which takes about" in slow.out
    assert "link bottleneck: RED in a form that the kernel lacks" in slow.out
    gentle = tmp_path / "gentle.yaml"
    gentle.write_text(
        dumbbell(
            bottleneck="rate: 5Mbps, queue: {red: {size: 100kB, min: 10kB, max: 30kB, gentle: true}}",
            workload="name: a, between: pairs, kind: bulk, until: 100s",
        ),
        encoding="utf-8",
    )
    told = weir("check", str(gentle))
    assert told.code == 0
    assert "info: method lab: its links are the program weir-emu here" in told.out
    assert "RED in a form" not in weir("check", str(gentle), "-q").out


def test_progress_goes_by_what_the_method_foresees(plan: dict[str, Any]) -> None:
    from weir.engine._job import Job

    class Cell:
        id, factors, repeat = "0000-r0", {}, 0

        def plan(self) -> dict[str, Any]:
            return plan

    jobs = {name: Job.of(Cell(), name) for name in ("sim", "lab", "emul")}
    assert jobs["emul"].cost == pytest.approx(plan["end_ns"] / 1e9, abs=10)
    assert jobs["sim"].cost < jobs["lab"].cost


def test_delays_of_packets_need_links_that_see_them(plan: dict[str, Any]) -> None:
    timed = measured(plan, delay_ns=100_000_000)
    assert "measure.delay: the time that single packets take" in (netem.obstacle(typed(timed)) or "")
    assert netem.obstacle(typed(measured(plan, delay_ns=0))) is None

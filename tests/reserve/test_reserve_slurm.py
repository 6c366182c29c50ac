"""Nodes of a real Slurm: reserved, waited for, refused, and released whatever happens."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shared import Weir, environment
from slurm_support import Slurm, until
from weir import reserve
from weir.reserve import Phase, Request, ReserveError, State
from weir.reserve import slurm as provider

HOLDER = Path(__file__).with_name("holder.py")


def request(nodes: int = 2, **more: Any) -> Request:
    return reserve.parse({"by": "slurm", "nodes": nodes, "time": "5min", **more})


@contextlib.contextmanager
def holder(said: dict[str, Any]) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that has reserved nodes, and the process id of its guardian."""
    command = [sys.executable, str(HOLDER), json.dumps(said)]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        guardian, names = process.stdout.readline().split()
        assert names == "n1,n2"
        try:
            yield process, int(guardian)
        finally:
            process.kill()


def test_two_nodes_are_reserved_and_released(slurm: Slurm, state: Path) -> None:
    with reserve.reserved({"A": request()}) as nodes:
        assert [(node.name, node.address) for node in nodes["A"]] == [("n1", "127.0.1.1"), ("n2", "127.0.1.2")]
        (record,) = state.glob("*.json")
        assert slurm.jobs() == [record.stem], "the job has the record's name"
        assert slurm.said("squeue", "--noheader", "--format=%D %l") == "2 5:00", "and a time limit"
    assert slurm.jobs() == []
    assert not [*state.glob("*")]


def test_several_sets_are_reserved_at_once(slurm: Slurm) -> None:
    with reserve.reserved({"A": request(1, partition="small"), "B": request(2, exclude="n1")}) as nodes:
        assert [node.name for node in nodes["A"]] == ["n1"]
        assert [node.name for node in nodes["B"]] == ["n2", "n3"]
        assert len(slurm.jobs()) == 2
    assert slurm.jobs() == []


def test_nodes_are_released_after_an_error(slurm: Slurm, state: Path) -> None:
    with pytest.raises(ZeroDivisionError), reserve.reserved({"A": request()}):
        raise ZeroDivisionError
    assert slurm.jobs() == []
    assert not [*state.glob("*")]


def test_the_schedulers_refusal_is_shown_and_the_others_are_released(slurm: Slurm, state: Path) -> None:
    wrong = {"A": request(1), "B": request(1, partition="nowhere")}
    with pytest.raises(ReserveError, match=r"Slurm refuses: .*[iI]nvalid partition.*nowhere"), reserve.reserved(wrong):
        pytest.fail("there is no such partition")
    assert slurm.jobs() == []
    assert not [*state.glob("*")]


@pytest.mark.parametrize(
    ("more", "why"), [({"nodes": 9}, "PartitionConfig"), ({"time": "10h"}, "Partition(TimeLimit|Config)")]
)
def test_what_would_wait_for_ever_does_not_wait(slurm: Slurm, more: dict[str, Any], why: str) -> None:
    asked = request(**{"nodes": 1, **more})
    with pytest.raises(ReserveError, match=f"wait for ever: {why}"), reserve.reserved({"A": asked}):
        pytest.fail("Slurm has no such nodes")
    assert slurm.jobs() == []


def test_a_full_queue_is_waited_for_and_then_given_up(slurm: Slurm) -> None:
    told: list[State] = []
    with reserve.reserved({"A": request(2)}):
        with (
            pytest.raises(ReserveError, match=r"no nodes after 3 s: B: slurm \d+ \(Resources"),
            reserve.reserved({"B": request(2)}, patience_s=3, progress=lambda _, now: told.append(now)),
        ):
            pytest.fail("only one node is free")
        assert len(slurm.jobs()) == 1, "what waited is released, the other is not"
    assert {now.phase for now in told} == {Phase.WAITING}
    assert "Resources" in {now.why for now in told}


def test_a_waiting_reservation_gets_its_nodes_when_they_are_free(slurm: Slurm) -> None:
    first = reserve.reserve(request(3))
    reserve.wait([first], 30)
    second = reserve.reserve(request(3))
    with pytest.raises(ReserveError):
        reserve.wait([second], 1)
    reserve.release(first)
    (nodes,) = reserve.wait([second], 30)
    assert [node.name for node in nodes] == ["n1", "n2", "n3"]
    reserve.release(second)


def test_a_reservation_that_somebody_cancels_has_ended(slurm: Slurm) -> None:
    one = reserve.reserve(request())
    reserve.wait([one], 30)
    slurm.said("scancel", one.identity)
    until(lambda: reserve.state(one).phase is Phase.ENDED, "Slurm says that it ended")
    # While Slurm cleans the nodes it says COMPLETING.
    until(lambda: "CANCELLED" in reserve.state(one).why, "Slurm says why")
    reserve.release(one)


def test_release_may_be_repeated(slurm: Slurm) -> None:
    one = reserve.reserve(request())
    reserve.release(one)
    reserve.release(one)


def test_a_lost_answer_is_found_by_the_jobs_name(slurm: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    submit = provider.Slurm.submit

    def lost(self: provider.Slurm, asked: Request, name: str) -> str:
        submit(self, asked, name)
        raise ReserveError("Socket timed out on send/recv operation")

    monkeypatch.setattr(provider.Slurm, "submit", lost)
    one = reserve.reserve(request())
    assert one.identity.isdecimal()
    reserve.release(one)


def test_an_interrupt_while_nodes_are_asked_for_leaves_none(
    slurm: Slurm, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = provider.Slurm.submit

    def interrupted(self: provider.Slurm, asked: Request, name: str) -> str:
        submit(self, asked, name)
        raise KeyboardInterrupt

    monkeypatch.setattr(provider.Slurm, "submit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        reserve.reserve(request())
    assert slurm.jobs() == []
    assert not [*state.glob("*")]


def test_an_interrupted_process_releases(slurm: Slurm) -> None:
    with holder({"by": "slurm", "nodes": 2, "time": "5min"}) as (process, _):
        assert len(slurm.jobs()) == 1
        process.send_signal(signal.SIGINT)
        process.wait(30)
        assert slurm.jobs() == []


def test_the_guardian_releases_for_a_killed_process(slurm: Slurm, state: Path) -> None:
    with holder({"by": "slurm", "nodes": 2, "time": "5min"}) as (process, _):
        assert len(slurm.jobs()) == 1
        process.kill()
    until(lambda: not slurm.jobs() and not [*state.glob("*")], "the guardian releases")


def test_clean_releases_what_a_killed_process_and_its_guardian_left(slurm: Slurm, state: Path, weir: Weir) -> None:
    with holder({"by": "slurm", "nodes": 2, "time": "5min"}) as (process, guardian):
        in_use = weir("clean", "--json", "--dry-run").json
        assert not [one for one in in_use["removed"] if one["kind"] == "reservation"]
        assert in_use["in_use"] >= 1
        os.kill(guardian, signal.SIGKILL)
        process.kill()
    (name,) = slurm.jobs()
    number = slurm.said("squeue", "--noheader", "--format=%i")
    assert [path.stem for path in state.glob("*")] == [name]
    removed = {"kind": "reservation", "name": f"A: slurm {number}"}
    assert removed in weir("clean", "--json", "--dry-run").json["removed"]
    assert slurm.jobs() == [name]
    assert removed in weir("clean", "--json").json["removed"]
    assert slurm.jobs() == []
    assert not [*state.glob("*")]


def test_clean_says_so_if_the_scheduler_is_out_of_reach(
    slurm: Slurm, state: Path, weir: Weir, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with holder({"by": "slurm", "nodes": 2, "time": "5min"}) as (process, guardian):
        os.kill(guardian, signal.SIGKILL)
        process.kill()
    fake = tmp_path / "scancel"
    fake.write_text("#!/bin/sh\necho 'scancel: error: Unable to contact slurm controller' >&2; exit 1\n")
    fake.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        ran = weir("clean")
    assert ran.code == 1
    assert "could not remove reservation A: slurm" in ran.out
    assert "Unable to contact slurm controller" in ran.out
    assert [*state.glob("*.json")], "its record stays"
    assert weir("clean").code == 0
    assert slurm.jobs() == []


@pytest.mark.parametrize(
    ("left", "seconds"), [("0:58", 58), ("1:00:00", 3600), ("2-01:02:03", 176_523), ("UNLIMITED", None), ("", None)]
)
def test_times_of_slurm(left: str, seconds: int | None) -> None:
    assert provider._seconds(left) == seconds


@pytest.mark.parametrize(("seconds", "limit"), [(59, "0-00:00:59"), (90_061, "1-01:01:01")])
def test_time_limits(seconds: int, limit: str) -> None:
    assert provider._limit(seconds) == limit

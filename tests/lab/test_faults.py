"""Congestion controls that crash the lab's kernel: the cell names the control and the fault, and nothing remains."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab_support import plan

from shared import Weir, dumbbell, execute
from weir.lab import FaultError, HungError, Kernel, _stuck
from weir.lab._fault import Fault, fault
from weir.lab._modules import FILE, Loaded, Place, loaded
from weir.methods import MethodError
from weir.methods.lab._controls import Controls

_SOURCE = """\
// SPDX-License-Identifier: MIT OR GPL-2.0
/* A congestion control that breaks when it has been called two hundred times. */
#include "weir_cc.h"

#define NO_OPTIONS(OPTION)
WEIR_CC_OPTIONS(NO_OPTIONS)

struct NAME {
	u32 calls;
	u32 zero;
};

static void NAME_init(struct sock *sk)
{
	struct NAME *ca = inet_csk_ca(sk);

	ca->calls = 0;
	ca->zero = 0;
}

static void NAME_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct NAME *ca = inet_csk_ca(sk);

	(void)ack;
	if (++ca->calls > 200) {
		BODY
	}
	tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
}

#define NAME_OPS(OP) OP(init, NAME_init) OP(ssthresh, tcp_reno_ssthresh) OP(cong_avoid, NAME_cong_avoid) \\
	OP(undo_cwnd, tcp_reno_undo_cwnd)
WEIR_CC_ABOUT("Broken", 2026, "a test")
WEIR_CC_REGISTER(NAME, "NAME", TCP_CONG_NON_RESTRICTED, struct NAME, NAME_OPS)
"""
_LOOP = "while (*(volatile u32 *)&ca->calls) ca->zero++;"
_DIVISION = "tp->snd_cwnd = tp->snd_cwnd / ca->zero;"
_DIVISION_IN_LINUX = f"""#ifdef __KERNEL__
		{_DIVISION}
#endif"""
"""The simulator's trial of the control before the run does not find it."""
_NO_WINDOW = "tp->snd_cwnd = 0;\n\t\treturn;"

Broken = Callable[..., dict[str, Any]]


@pytest.fixture
def broken(tmp_path: Path) -> Broken:
    """``broken(BODY)``: the plan of a flow with such a congestion control."""

    def make(*bodies: str, name: str = "broken") -> dict[str, Any]:
        made = plan(tmp_path, f"topology.dumbbell.pairs={len(bodies)}", "workload[0].until=3s", "duration=3s")
        for number, (flow, body) in enumerate(zip(made["flows"], bodies, strict=True)):
            source = tmp_path / str(number) / f"{name}.c"
            source.parent.mkdir()
            source.write_text(_SOURCE.replace("NAME", name).replace("BODY", body), encoding="utf-8")
            flow["transport"]["cc"] = str(source)
        return made

    return make


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks for loops at once, and reports them earlier."""
    monkeypatch.setattr(_stuck, "QUIET_S", 1.0)
    monkeypatch.setattr(_stuck, "LOOKS", 5)


def labs() -> list[str]:
    """Lab processes of this process."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
            parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
        except (OSError, ValueError, IndexError):
            continue
        if parent == str(os.getpid()) and any("weir-lab-" in word for word in words):
            found.append(process.name)
    return found


def test_one_that_computes_without_end_is_named_with_its_function(kernel: Kernel, broken: Broken, soon: None) -> None:
    with pytest.raises(MethodError, match=r"^cc: .*/broken\.c: its function broken_cong_avoid computes without end"):
        execute("lab", broken(_LOOP))
    assert labs() == []


def test_one_that_divides_by_zero_is_named_with_its_function(kernel: Kernel, broken: Broken) -> None:
    with pytest.raises(MethodError, match=r"^cc: .*/broken\.c: its function broken_cong_avoid divides by zero"):
        execute("lab", broken(_DIVISION))
    assert labs() == []


def test_one_that_closes_its_window_is_named_with_flow_and_instant(kernel: Kernel, broken: Broken) -> None:
    with pytest.raises(MethodError, match=r"^cc: .*/broken\.c: the window of flow a\[0\] is 0 at \d\.\d+ s"):
        execute("lab", broken(_NO_WINDOW))
    assert labs() == []


def test_two_of_the_same_name_are_two(kernel: Kernel, broken: Broken) -> None:
    sink, outcome = execute("lab", broken("", "tp->snd_cwnd = 4;", name="mine"))
    names = json.loads(sink.files["lab.json"].getvalue())["congestion_controls"]
    assert sorted(names.values()) == ["w1_mine", "weir_mine"]
    assert outcome.warnings == ()
    samples = sink.columns("samples")
    largest = [max(c for c, f in zip(samples["cwnd"], samples["flow"], strict=True) if f == flow) for flow in (0, 1)]
    late = [
        cwnd
        for at, flow, cwnd in zip(samples["time_ns"], samples["flow"], samples["cwnd"], strict=True)
        if flow == 1 and at > 2_500_000_000
    ]
    assert largest[0] > 20
    assert set(late) <= {4, 5}, "the second keeps its window as its own source says"


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
def test_other_cells_of_the_run_go_on(
    kernel: Kernel, weir: Weir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.c").write_text(
        _SOURCE.replace("NAME", "broken").replace("BODY", _DIVISION_IN_LINUX), encoding="utf-8"
    )
    text = dumbbell("sweep:\n  transport.cc: [./broken.c, reno]\n", pairs=1)
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    ran = weir("run", "a.yaml", "--method", "lab", "-o", "out", "-q", "--no-report")
    assert ran.code == 1
    assert "its function broken_cong_avoid divides by zero" in ran.err
    assert [path.name for path in (tmp_path / "out" / "cells").iterdir()] == ["0001-r0"]


# Parsing of the console, and the resulting messages -------------------------------------------------------------------

_MODULES = [Loaded("weir_a", 0x1000, 0x100, None), Loaded("weir_b", 0x2000, 0x100, None)]


@pytest.mark.parametrize(
    ("console", "expected"),
    [
        ("all is well\nreboot: Power down\n", None),
        (
            "Kernel panic - not syncing: weir: weir_a: a_cong_avoid.cold [weir_a] divides by zero\n",
            Fault("divides by zero", Place("weir_a", "a_cong_avoid")),
        ),
        ("Kernel panic - not syncing: Kernel mode signal 8\n", Fault("divides by zero", None)),
        (
            "Kernel tried to access user memory at addr 0x8, ip 0x2010\nKernel panic - not syncing: Segfault\n",
            Fault("uses memory that is not its own", Place("weir_b", "")),
        ),
        ("Kernel panic - not syncing: Segfault with no mm\n", Fault("uses memory that is not its own", None)),
        ("Kernel panic - not syncing: nothing left\n", Fault("made the kernel panic (nothing left)", None)),
    ],
)
def test_a_console_tells_of_what_the_kernel_died(console: str, expected: Fault | None) -> None:
    assert fault(console, _MODULES) == expected


def test_without_a_place_those_of_users_are_suspected() -> None:
    held = Controls((), {}, {"weir_reno": "reno", "weir_a": "./a.so", "weir_b": "./b.so"})
    died = FaultError("the lab's kernel ended by itself", Fault("divides by zero", None))
    assert held.explain(died).startswith("cc: ./a.so or ./b.so: probably it divides by zero: the lab's kernel ended")
    assert held.explain(HungError("it hangs")) == "cc: ./a.so or ./b.so: probably it computes without end: it hangs"
    assert Controls((), {}, {"weir_reno": "reno"}).explain(HungError("it hangs")) == "it hangs"


def test_an_address_is_named_by_the_symbols_of_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    from weir.lab import _modules

    monkeypatch.setattr(_modules, "_functions", lambda _: ((0x10, "first"), (0x40, "second")))
    module = Loaded("weir_a", 0x1000, 0x100, Path("a.ko"))
    names = [module.place(address).function for address in (0x1000, 0x1010, 0x103F, 0x1040, 0x10FF)]
    assert names == ["", "first", "first", "second", "second"]
    assert [module.holds(address) for address in (0xFFF, 0x1000, 0x10FF, 0x1100)] == [False, True, True, False]


def test_lines_of_the_guest_that_are_no_modules_are_passed_over(tmp_path: Path) -> None:
    """The guest's root may write anything into its list."""
    wrong = (
        "a 4096 0 - Live 0xhello",
        "b \u0661\u0662 0 - Live 0x10",
        f"c {'9' * 5000} 0 - Live 0x10",
        "d 1 0 - Live",
        "",
    )
    lines = (*wrong, f"e 4096 0 - Live 0x{'f' * 5000}", "weir_a 4096 0 - Live 0x0000000060001000 (OE)")
    (tmp_path / FILE).write_text("\n".join(lines))
    assert loaded(tmp_path, [Path("weir_a.ko")]) == [Loaded("weir_a", 0x60001000, 4096, Path("weir_a.ko"))]


def test_work_that_takes_long_is_no_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the same module at every look, at its own instructions, counts as a loop."""
    a, b = Place("weir_a", "f"), Place("weir_b", "g")

    def looks(*places: tuple[Place, bool] | None) -> Place | None:
        monkeypatch.setattr(_stuck, "_descendants", lambda _: [7])
        monkeypatch.setattr(_stuck, "_EVERY_S", 0.0)
        ticks = iter(range(0, 100_000, 10))
        monkeypatch.setattr(_stuck, "_ticks", lambda _: next(ticks))
        found = iter(places)
        monkeypatch.setattr(_stuck.Watchdog, "_where", lambda *_: next(found))
        watchdog, verdict = _stuck.Watchdog(1, _MODULES), None
        for _ in range(len(places) + 1):
            verdict = watchdog.look() or verdict
        return verdict

    enough = _stuck.LOOKS
    assert looks(*[(a, True)] * enough) == a
    assert looks(*[(a, True)] * (enough - 1)) is None
    assert looks(*[(a, False)] * (2 * enough)) is None, "a word of the stack alone may be stale"
    assert looks(*[(a, False)] * (enough - 1), (a, True)) == a
    assert looks(*[(a, True), None] * enough) is None
    assert looks(*[(a, True), (b, True)] * enough) is None


@pytest.mark.parametrize("text", ["weir: a: " + "a" * 500_000, "weir: " * 100_000, "weir: a: b" + "." * 500_000])
def test_what_a_guest_writes_on_its_console_takes_no_time_to_read(text: str) -> None:
    """The square of it would be days."""
    assert fault(text, _MODULES) is None


_UNSTOPPABLE = """
#include <pthread.h>
#include <unistd.h>
static void *compute(void *nothing) { for (;;) ; return nothing; }
int main(void)
{
    pthread_t thread;
    pthread_create(&thread, 0, compute, 0);
    if (!vfork())
        for (;;)
            pause();
    return 0;
}
"""
"""It computes in one thread; the other has lent its memory to a child that never gives it back."""


def test_a_process_that_does_not_stop_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_stuck, "_EVERY_S", 0.0)
    monkeypatch.setattr(_stuck, "_STOP_S", 0.5)
    monkeypatch.setattr(_stuck, "_MIN_TICKS", 0)
    (tmp_path / "unstoppable.c").write_text(_UNSTOPPABLE, encoding="utf-8")
    program = tmp_path / "unstoppable"
    subprocess.run(["cc", "-w", "-pthread", "-o", program, f"{program}.c"], check=True)
    with subprocess.Popen([program]) as process:
        try:
            while not (children := _children(process.pid)):
                time.sleep(0.01)
            monkeypatch.setattr(_stuck, "_descendants", lambda _: [process.pid])
            watchdog = _stuck.Watchdog(process.pid, _MODULES)
            assert [watchdog.look() for _ in range(5)] == [None] * 5
            assert not watchdog.modules
        finally:
            process.kill()  # the thread that waits for it has its end, and then its parent
            for child in children:
                with contextlib.suppress(ProcessLookupError):  # one that has ended already
                    os.kill(child, signal.SIGKILL)


def _children(pid: int) -> list[int]:
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(word) for file in files for word in file.read_text(encoding="ascii").split()]

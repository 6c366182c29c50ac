"""A shared object is a program: only confined children execute it, and its death is an error that names it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from cc_support import EXAMPLE, at_load, foreign, variant

from shared import Weir, argv, dumbbell, environment
from weir import _group, cc
from weir.engine import _deliver, _process
from weir.engine._cell import CellWriter, place

AT_LOAD = {
    "traps": ("__builtin_trap();", "loading NAME runs into undefined behaviour of C"),
    "loops": ('for (;;) __asm__ volatile("");', "loading NAME does not return"),
    "waits": ("for (;;) pause();", "NAME"),
    "ends well": ("_exit(0);", "loading NAME ended the process, with status 0"),
    "aborts": ("abort();", "loading NAME aborts"),
    "kills itself": ("raise(9);", "loading NAME was killed"),
    "jumps": ("static unsigned long nowhere[64]; longjmp(nowhere, 1);", "all flows would share its variables: nowhere"),
    "uses up memory": (
        "for (;;) ((volatile char *)malloc(1 << 20))[0] = 1;",
        "loading NAME accesses invalid memory",
    ),
    "forges an answer": (
        'for (int fd = 3; fd < 64; fd++) write(fd, "{}", 2); _exit(0);',
        "NAME: its description of itself",
    ),
    "prints without end": (
        "static const char dots[65536]; for (;;) for (int fd = 3; fd < 64; fd++) write(fd, dots, sizeof(dots));",
        "NAME: its description of itself is too long",
    ),
}
"""Statements executed at loading, and the resulting errors."""

HARMLESS = {
    "prints": 'puts("harmless"); write(2, "\\033]0;evil\\007", 9);',
    "forks": "if (fork() == 0) { setsid(); for (;;) pause(); }",
    "writes": 'int fd = open("FOLDER/written", 65, 0666); if (fd >= 0) write(fd, "x", 1);',
    "executes": 'system("touch FOLDER/written");',
    "connects": "if (socket(2, 1, 0) >= 0 || socket(1, 1, 0) >= 0 || socket(16, 3, 0) >= 0) abort();",
    "traces": "if (ptrace(16, getppid(), 0, 0) == 0) abort();",
    "kills": "kill(getppid(), 9);",
    "starts threads": "long t; int n = 0; while (n < 400 && !pthread_create(&t, 0, (void *)pause, 0)) n++; "
    "if (n > 100) abort();",
    "holds memory in files": 'static const char zeros[1 << 20]; int n = 0, fd = syscall(319, "x", 0); '
    "while (n < 100 && write(fd, zeros, sizeof(zeros)) > 0) n++; if (n > 16) abort();",
    "opens without end": "int fds[1000], n = 0; while (n < 500 && !pipe(fds + 2 * n)) n++; if (n > 200) abort(); "
    "while (n--) { close(fds[2 * n]); close(fds[2 * n + 1]); }",
}
"""Attempts without effect."""


@pytest.mark.parametrize("what", AT_LOAD)
def test_an_object_that_misbehaves_when_it_is_loaded_is_named(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if what == "waits":  # the others end by themselves, or are ended for what they do, however slow the machine is
        monkeypatch.setattr("weir.cc._describe.LIMIT_S", 6.0)
    statement, expected = AT_LOAD[what]
    shared = foreign(tmp_path, at_load(statement))
    with pytest.raises(cc.ControlError) as raised:
        cc.control(str(shared))
    assert expected.replace("NAME", str(shared)) in str(raised.value)


@pytest.mark.parametrize("what", HARMLESS)
def test_what_an_object_may_not_do_it_does_not(tmp_path: Path, what: str) -> None:
    shared = foreign(tmp_path, at_load(HARMLESS[what].replace("FOLDER", str(tmp_path))))
    assert cc.control(str(shared)).about.name == "my_cc"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["evil.so"]
    deadline = time.monotonic() + 60  # against a process that stays; one that was killed takes a moment to go
    while left := processes_that_load(shared):
        assert time.monotonic() < deadline, f"{left} are left"
        time.sleep(0.02)


def processes_that_load(shared: Path) -> list[int]:
    """The processes of the child that loads ``shared``; those of other tests are none of them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"weir.cc._child" in words and os.fsencode(shared) in words:
            found.append(int(path.parent.name))
    return found


def test_what_watches_a_control_cannot_be_shortened_or_grown() -> None:
    with cc.Watch({}) as watch:
        for size in (0, 1 << 20):
            with pytest.raises(PermissionError):
                os.ftruncate(watch.fd, size)
        assert watch.stuck(os.getpid()) is None
        assert watch.death(0) is None


def test_a_worker_has_bounds_of_threads_and_memory(tmp_path: Path, weir: Weir) -> None:
    statement = (
        "long t; int n = 0; while (n < 600 && !pthread_create(&t, 0, (void *)pause, 0)) n++; if (n > 400) abort();"
    )
    foreign(tmp_path, at_load(statement))
    (tmp_path / "s.yaml").write_text(dumbbell(transport="cc: ./evil.so"), encoding="utf-8")
    process = _process.Process({"objects": {"./evil.so": str(tmp_path / "evil.so")}, "run": str(tmp_path / "run")})
    try:
        assert process._groups or os.geteuid() != 0 or not _group.group_places()
        for group in process._groups:
            end = time.monotonic() + 30.0
            while str(process._process.pid) not in (joined := (group / "cgroup.procs").read_text(encoding="ascii")):
                assert time.monotonic() < end, joined
                time.sleep(0.01)
    finally:
        process.stop()
    assert not [group for group in process._groups if group.exists()]
    ran = weir("run", tmp_path / "s.yaml", "--method", "sim", "--out", tmp_path / "out")
    assert ran.code == 0, ran.err


TABLES = {
    "another interface": ("const unsigned weir_cc_abi = 4711;", "interface version 4711"),
    "no symbols": ("const int other = 1;", "no symbol weir_cc_abi"),
    "no table": ('#include "weir_cc.h"\nconst u32 weir_cc_abi = WEIR_CC_ABI;', "no symbol weir_cc_entry"),
    "another size": ("TABLE(.abi = WEIR_CC_ABI, .sock_size = 1)", "struct sock has 1 bytes"),
    "no operations": ("TABLE(.abi = WEIR_CC_ABI, .sock_size = SOCK)", "it has no ssthresh operation"),
    "too much state": (
        "TABLE(.abi = WEIR_CC_ABI, .sock_size = SOCK, .priv_size = 105, OPS)",
        "its state has 105 bytes",
    ),
    "no name": ("TABLE(.abi = WEIR_CC_ABI, .sock_size = SOCK, OPS)", "a name has 1 to 15 characters"),
    "a long name": ("TABLE(.abi = WEIR_CC_ABI, .sock_size = SOCK, .name = LONG, OPS)", "a name has 1 to 15 characters"),
    "a long title": (
        'TABLE(.abi = WEIR_CC_ABI, .sock_size = SOCK, .name = "x", .title = LONG, OPS)',
        "title and source are",
    ),
    "no options": (
        'TABLE(.abi = WEIR_CC_ABI, .sock_size = SOCK, .name = "x", .option_count = 3, OPS)',
        "no table of them",
    ),
    "many options": (
        'TABLE(.abi = WEIR_CC_ABI, .sock_size = SOCK, .name = "x", .option_count = -1, OPS)',
        "at most 20",
    ),
    "an operation nowhere": (
        'TABLE(.abi = WEIR_CC_ABI, .sock_size = SOCK, .name = "x", OPS, .init = (void *)8)',
        "init of NAME accesses invalid memory (SIGSEGV)",
    ),
    "a name nowhere": (
        "TABLE(.abi = WEIR_CC_ABI, .sock_size = SOCK, .name = (void *)8, OPS)",
        "NAME: the process that loaded it ended with signal 11",
    ),
}


@pytest.mark.parametrize("what", TABLES)
def test_a_table_that_is_wrong_is_refused(tmp_path: Path, what: str) -> None:
    text, expected = TABLES[what]
    if text.startswith("TABLE("):
        text = (
            '#include "weir_cc.h"\n'
            "#define SOCK sizeof(struct sock)\n"
            "#define OPS .ssthresh = (void *)16, .undo_cwnd = (void *)16, .cong_avoid = (void *)16\n"
            f'#define LONG "{"x" * 1_000_000}"\n'
            '__attribute__((visibility("default"))) const u32 weir_cc_abi = WEIR_CC_ABI;\n'
            '#define TABLE(...) __attribute__((visibility("default"))) const struct tcp_congestion_ops weir_cc_entry '
            f"= {{__VA_ARGS__}};\n{text}\n"
        )
    shared = foreign(tmp_path, text)
    with pytest.raises(cc.ControlError) as raised:
        cc.control(str(shared))
    assert expected.replace("NAME", str(shared)) in str(raised.value)
    assert len(str(raised.value)) < 1000


@pytest.mark.parametrize("content", [b"", b"garbage", b"\x7fELF" + bytes(200), os.urandom(5000)])
def test_a_file_that_is_no_object_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.so").write_bytes(content)
    with pytest.raises(cc.ControlError, match="it is no shared object"):
        cc.control(str(tmp_path / "x.so"))


def test_neither_check_nor_plan_nor_a_run_executes_it_in_its_own_process(here: Path, weir: Weir) -> None:
    shared = foreign(here, at_load("__builtin_trap();"), "evil.so")
    (here / "s.yaml").write_text(dumbbell(transport=f"cc: ./{shared.name}"))
    for command in (["check", "s.yaml"], ["plan", "s.yaml"], ["run", "s.yaml"], ["cc", "list", "./evil.so"]):
        ran = weir(*command)
        assert ran.code == 2, command
        assert "loading ./evil.so runs into undefined behaviour of C" in ran.out + ran.err, ran
    assert sorted(path.name for path in here.iterdir()) == ["evil.so", "s.yaml"]


def test_an_object_that_waits_for_the_run_is_confined_there(here: Path, weir: Weir) -> None:
    """It recognises the describing child by its arguments, and attacks in the worker."""
    statement = f"""
        static char text[4096]; int fd = open("/proc/self/cmdline", 0); read(fd, text, 4095);
        for (int i = 0; i < 4000; i++) if (!__builtin_memcmp(text + i, "weir.engine.worker", 18)) {{
            int out = open("{here}/written", 65, 0666); if (out >= 0) abort();
            if (socket(2, 1, 0) >= 0 || fork() >= 0) abort();
            open("{here}/runs/s/cells/other", 65, 0666);
        }}"""
    # Static variables are refused; this source has them on the stack.
    source = at_load(statement.replace("static char text[4096];", "char text[4096] = {0};"))
    foreign(here, "extern long read(int, void *, unsigned long);\n" + source, "evil.so")
    (here / "s.yaml").write_text(dumbbell(transport="cc: ./evil.so"))
    ran = weir("run", "s.yaml", "--method", "sim", "--no-report")
    assert ran.code == 0, ran
    assert not (here / "written").exists()
    assert sorted(p.name for p in (here / "runs/s/cells").iterdir()) == ["0000-r0"]


_IN_ITS_FOLDER = """
    if (tp->delivered > 20 && tp->delivered < 40) {
        unsigned long found[64];
        if (glob("FOLDER/runs/s/.partial/worker-*/0000-r0", 0, 0, found) == 0) {
            char path[1024];
            snprintf(path, 1024, "%s/NAME", ((char **)found[1])[0]);
            int fd = open(path, 65, 0666);
            if (fd >= 0) { write(fd, "stolen", 6); close(fd); }
        }
    }"""
_FOR_IT = """
extern int glob(const char *, int, void *, void *), snprintf(char *, unsigned long, const char *, ...);
extern int open(const char *, int, ...), close(int);
extern long write(int, const void *, unsigned long);
"""


def test_a_file_that_an_object_leaves_in_its_cell_is_not_taken_along(
    here: Path, weir: Weir, monkeypatch: pytest.MonkeyPatch
) -> None:
    statement = _IN_ITS_FOLDER.replace("FOLDER", str(here)).replace("NAME", "env.txt")
    foreign(here, _FOR_IT + EXAMPLE.read_text().replace("(void)ack;", f"(void)ack; {statement}"), "evil.so")
    (here / "s.yaml").write_text(dumbbell(transport="cc: ./evil.so"))
    left: list[str] = []

    def placed(folder: Path, final: Path) -> None:
        left.extend(path.name for path in folder.iterdir())
        place(folder, final)

    monkeypatch.setattr(_deliver, "place", placed)
    ran = weir("run", "s.yaml", "--method", "sim", "--no-report")
    assert ran.code == 0, ran
    assert "env.txt" in left
    names = {path.name for path in (here / "runs/s/cells/0000-r0").iterdir()}
    assert {*left} - names == {"env.txt"}


@pytest.mark.parametrize(
    ("plan", "manifest", "said"),
    [
        ("{}", {}, "another cell than it was told to execute"),
        (None, {"key": "another"}, "another cell than it was told to execute"),
        (None, {"plan_hash": "another"}, "another cell than it was told to execute"),
        (None, None, "no cell: "),
    ],
)
def test_a_cell_that_an_object_made_up_is_not_taken(
    tmp_path: Path, plan: str | None, manifest: dict[str, str] | None, said: str
) -> None:
    told = {"id": "c0", "key": "key", "plan_hash": "hash", "factors": {}}
    job = {"id": "c0", "run": str(tmp_path), "plan": '{"title": "t"}', "manifest": told, "objects": {"./evil.so": ""}}
    with CellWriter(tmp_path, "c0", tmp_path / "inside") as cell:
        cell.complete(plan or str(job["plan"]), {**told, **(manifest or {})})
    if manifest is None:
        (tmp_path / "inside" / "c0" / "manifest.json").write_text("{")
    with pytest.raises(_deliver.DeliveryError, match=said):
        _deliver.deliver(tmp_path / "inside" / "c0", job)
    assert not (tmp_path / "cells").exists()


OPERATIONS = {
    "divides": (
        "if (LATE) { volatile u32 zero = 0; tp->snd_cwnd = 100 / zero; }",
        "cong_avoid of ./mine.c divides by zero at ./mine.c:L",
    ),
    "loops": ('while (LATE) __asm__ volatile("");', "cong_avoid of ./mine.c does not return: a loop without an end?"),
    "leaves its state": (
        "if (LATE) ((volatile u32 *)inet_csk_ca(sk))[26] = 7;",
        "cong_avoid of ./mine.c accesses memory 0 bytes after the end of its private state of 104 bytes at ./mine.c:L",
    ),
    "follows nothing": (
        "if (LATE) *(volatile u32 *)8 = 1;",
        "cong_avoid of ./mine.c accesses invalid memory",
    ),
    "closes its window": ("if (LATE) { tp->snd_cwnd = 0; return; }", "cong_avoid of ./mine.c set snd_cwnd to 0"),
}
"""Statements executed by an operation, only in a run of many seconds: the trial of a control is shorter."""


@pytest.mark.parametrize("what", OPERATIONS)
def test_an_operation_that_goes_wrong_in_a_run_is_named(here: Path, weir: Weir, what: str) -> None:
    statement, expected = OPERATIONS[what]
    # The trial never has exactly this threshold; the run's receiver keeps the window below it.
    late = "(tp->snd_cwnd_clamp == 0xffffffff && tp->mss_cache == 999 && tp->delivered > 500)"
    source = variant(here, statement.replace("LATE", late))
    line = next(n for n, text in enumerate(source.read_text().splitlines(), 1) if "(void)ack;" in text)
    (here / "s.yaml").write_text(dumbbell(transport="cc: ./mine.c, mss: 999B"))
    assert weir("check", "s.yaml").code == 0
    ran = weir("run", "s.yaml", "--method", "sim", "--no-report")
    assert ran.code == 1
    assert re.sub(r"(?<=mine\.c:)L", str(line), expected) in ran.err, ran.err
    assert not list((here / "runs/s").glob(".partial/*"))


TRIED = {
    "divides": ("tp->snd_cwnd += 100 / (tp->snd_ssthresh - tp->snd_cwnd);", "cong_avoid of ./mine.c divides by zero"),
    "loops": ('while (tp->snd_cwnd < 1000000) __asm__ volatile("");', "cong_avoid of ./mine.c does not return"),
    "leaves its state": (
        "u32 *s = inet_csk_ca(sk); for (int i = 0; i < 27; i++) s[i] = i;",
        "after the end of its private",
    ),
    "closes its window": ("tp->snd_cwnd = 0; return;", "set snd_cwnd to 0"),
}


@pytest.mark.parametrize("what", TRIED)
def test_what_goes_wrong_at_once_is_told_before_any_method_runs(here: Path, weir: Weir, what: str) -> None:
    statement, expected = TRIED[what]
    variant(here, statement)
    (here / "s.yaml").write_text(dumbbell(transport="cc: ./mine.c"))
    ran = weir("check", "s.yaml")
    assert ran.code == 2
    assert "s.yaml:10:17: " in ran.out, ran
    assert expected in ran.out, ran


def test_a_run_that_is_killed_leaves_no_worker(here: Path) -> None:
    variant(here, 'if (tp->mss_cache == 999) for (;;) __asm__ volatile("");')
    (here / "s.yaml").write_text(dumbbell(transport="cc: ./mine.c, mss: 999B"))
    command = argv("run", "s.yaml", "--method", "sim", "--no-report", "-v")
    with subprocess.Popen(command, cwd=here, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        while not list(here.glob("runs/s/.partial/worker-*/*")):
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    assert not [p for p in Path("/proc").glob("[0-9]*/cwd") if links_to(p, here)]
    assert not list(here.glob("runs/s/.partial/*"))


def links_to(path: Path, folder: Path) -> bool:
    try:
        return path.resolve(strict=True) == folder and int(path.parent.name) != os.getpid()
    except OSError:
        return False

"""Confined programs cannot escape: each attempt of ``attempts.py`` fails, and succeeds without confinement."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from attempts import ATTEMPTS

from weir import _programs, confine
from weir.confine import Policy

_SCRIPT = Path(__file__).with_name("attempts.py")
_REFUSALS = {"EPERM", "EACCES", "EXDEV", "ENOSYS", "ENOENT", "ENXIO", "EROFS", "ESRCH", "ECONNREFUSED"}
"""Errors of refused system calls; any other error means that an attempt was malformed."""

_TERMINAL = {"open_terminal_anew", "type_for_the_user", "type_for_the_user_with_more_bits", "change_line_discipline"}
_NEEDS_HOST = {
    *("read_memory_of_machine", "read_messages_of_kernel", "make_disk"),  # not in every container
    *("handle_faults", "ring", "count_events", "old_system_calls"),  # not in every kernel
    *("type_for_the_user", "type_for_the_user_with_more_bits"),  # a setting of Linux 6.2 and newer
    *("set_flags", "set_extended_attribute", "remove_extended_attribute"),  # not every file system
}
"""Attempts that may fail unconfined, because the host lacks their target; there they prove nothing."""

Results = dict[str, str]


@pytest.fixture
def arena(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """The folders of the attempts, and a process and two services outside."""
    (tmp_path / "inside").mkdir()
    for name in ATTEMPTS:
        place = tmp_path / "outside" / name
        (place / "folder").mkdir(parents=True)
        (place / "victim").write_text("kept")
        try:
            os.setxattr(place / "victim", "user.there", b"kept")
        except OSError:
            continue
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    (tmp_path / "home" / ".ssh" / "key").write_text("secret")
    (tmp_path / "home" / "notes").write_text("no secret")
    with (
        socket.socket(socket.AF_UNIX) as service,
        socket.socket(socket.AF_UNIX) as named,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams,
        subprocess.Popen(["sleep", "600"], cwd=tmp_path / "outside") as process,
    ):
        service.bind(str(tmp_path / "outside" / "service"))
        service.listen()
        named.bind(f"\0{tmp_path / 'outside'}")
        named.listen()
        datagrams.bind(str(tmp_path / "outside" / "datagrams"))
        yield tmp_path, process.pid
        process.kill()


def attempt(arena: tuple[Path, int], names: set[str], *, confined: bool) -> Results:
    """The result of each of the attempts ``names``."""
    root, pid = arena
    secret = root / "home" / ".ssh" / "key"
    arguments = [sys.executable, "-I", "-S", str(_SCRIPT), str(root), str(pid), str(secret), *sorted(names)]
    command = confine.command(arguments, Policy(write=[root / "inside"])) if confined else arguments
    environment = {**os.environ, "HOME": str(root / "home")}
    # A session of its own with a terminal, so that nobody receives the typed text.
    ours, theirs = os.openpty()
    with os.fdopen(ours, "rb"), os.fdopen(theirs, "rb") as terminal:
        done = subprocess.run(
            ["setsid", "--ctty", "--wait", *command],
            stdin=terminal,
            capture_output=True,
            text=True,
            env=environment,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    results: Results = json.loads(done.stdout)
    assert set(results) == names
    return results


def state_of(folder: Path) -> dict[str, tuple[object, ...]]:
    """Everything that an attempt could change in the files below ``folder``."""
    found = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        content = path.read_text() if path.is_file() else None
        kept = (about.st_mode, about.st_uid, about.st_gid, about.st_mtime_ns, about.st_ctime_ns, about.st_nlink)
        found[str(path.relative_to(folder))] = (content, *kept)
    return found


def test_every_way_out_is_closed(arena: tuple[Path, int]) -> None:
    before = state_of(arena[0] / "outside")
    results = attempt(arena, set(ATTEMPTS), confined=True)
    assert {name: result for name, result in results.items() if result not in _REFUSALS} == {}
    assert state_of(arena[0] / "outside") == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may do most of it")
def test_each_is_a_way_out_where_nothing_confines(arena: tuple[Path, int]) -> None:
    # Each alone: some would end the others.
    results: Results = {}
    for name in set(ATTEMPTS) - _NEEDS_HOST:
        results |= attempt(arena, {name}, confined=False)
    assert {name: result for name, result in results.items() if result != "done"} == {}


def test_what_a_program_needs_is_there(tmp_path: Path) -> None:
    code = """
import os, socket, subprocess, sys, threading, signal, tempfile
open("kept", "w").write("kept")
os.mkdir("folder"); os.rename("kept", "folder/kept"); os.link("folder/kept", "again"); os.symlink("again", "symbolic")
os.truncate("again", 2); assert open("symbolic").read() == "ke"
a, b = socket.socketpair(); a.send(b"x"); assert b.recv(1) == b"x"
thread = threading.Thread(target=lambda: None); thread.start(); thread.join()
assert subprocess.run(["sh", "-c", "echo $((6 * 7)) > /dev/null; head -1 /etc/passwd"], capture_output=True).stdout
child = subprocess.Popen(["sleep", "60"]); child.kill(); assert child.wait() == -signal.SIGKILL
assert len(os.urandom(4)) == 4 and open("/dev/urandom", "rb").read(4)
assert os.listdir("/") and os.listdir("/usr/bin")
sys.exit(7)
"""
    done = subprocess.run(
        confine.command([sys.executable, "-c", code], Policy(write=[tmp_path])),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (7, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "folder", "symbolic"]


def run(*arguments: str, policy: Policy | None = None, **options: object) -> subprocess.CompletedProcess[str]:
    command = confine.command(arguments, policy)
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload, no-any-return]


def test_results_are_plain_files(tmp_path: Path) -> None:
    policy = Policy(files=[tmp_path])
    tries = ("ln -s /etc/passwd link", "ln -s / root", "mkfifo pipe", "echo x > a; ln a b", "mkdir d; mv a d/a")
    for text in tries[:3]:
        assert run("sh", "-c", text, policy=policy, cwd=tmp_path).returncode != 0, text
    run("sh", "-c", tries[3], policy=policy, cwd=tmp_path)
    found = {path.name: path for path in tmp_path.iterdir()}
    assert set(found) <= {"a", "b"}
    assert all(path.is_file() and not path.is_symlink() for path in found.values())
    assert found["a"].read_text() == "x\n"


def test_a_view_can_be_opened_and_closed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for name in (".config/tool", "work/private"):
        (home / name).mkdir(parents=True)
    (home / ".config/tool/key").write_text("k")
    (home / "work/private/notes").write_text("n")
    environment = {**os.environ, "HOME": str(home)}
    reads = ("cat", str(home / ".config/tool/key"), str(home / "work/private/notes"))
    assert run(*reads, env=environment).stdout == "n"
    assert run(*reads, env=environment, policy=Policy(read=[home / ".config/tool"])).stdout == "kn"
    assert run(*reads, env=environment, policy=Policy(write=[home / ".config"])).stdout == "kn"


def test_children_of_children_are_confined(tmp_path: Path) -> None:
    text = f"(setsid sh -c 'sleep 0.2; echo x > {tmp_path}/file; echo $? > {tmp_path}/inside/code' &) ; sleep 1"
    (tmp_path / "inside").mkdir()
    run("sh", "-c", text, policy=Policy(write=[tmp_path / "inside"]))
    assert not (tmp_path / "file").exists()
    assert (tmp_path / "inside" / "code").read_text().strip() != "0"


def test_descriptors_are_closed_unless_they_are_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (tmp_path / "file").open("a") as file:
        text = f"echo x >&{file.fileno()}"
        assert run("bash", "-c", text, pass_fds=[file.fileno()]).returncode != 0
        assert (tmp_path / "file").read_text() == ""
        assert run("bash", "-c", text, policy=Policy(keep=[file.fileno()]), pass_fds=[file.fileno()]).returncode == 0
        assert (tmp_path / "file").read_text() == "x\n"


def test_it_has_no_privilege(tmp_path: Path) -> None:
    status = run("cat", "/proc/self/status").stdout
    facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert {facts[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
    assert facts["NoNewPrivs"] == "1"
    assert facts["Seccomp"] == "2"
    if os.geteuid() == 0:
        assert facts["CapBnd"] == "0" * 16


def test_limits_hold() -> None:
    eats = "bytearray(1 << 30)"
    assert run(sys.executable, "-c", eats).returncode == 0
    assert "MemoryError" in run(sys.executable, "-c", eats, policy=Policy(memory_bytes=1 << 29)).stderr
    assert run("sh", "-c", "while :; do :; done", policy=Policy(cpu_s=1)).returncode in {-9, -24}


def test_tracing_reaches_its_own_children_only(arena: tuple[Path, int]) -> None:
    code = """
import ctypes, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
child = os.fork()
if child == 0:
    signal.pause()
own = libc.ptrace(0x4206, child, 0, 0)
other = libc.ptrace(0x4206, int(sys.argv[1]), 0, 0)
os.kill(child, signal.SIGKILL)
print(own, other)
"""
    assert run(sys.executable, "-c", code, str(arena[1]), policy=Policy(trace=True)).stdout == "0 -1\n"
    assert run(sys.executable, "-c", code, str(arena[1])).stdout == "-1 -1\n"


def test_codes_and_messages() -> None:
    missing = run("no-such-program-of-weir")
    assert (missing.returncode, "no-such-program-of-weir" in missing.stderr) == (127, True)
    refused = run("true", policy=Policy(write=[Path("/no/such/folder")]))
    assert refused.returncode == confine.FAILED
    assert refused.stderr == "weir-confine: /no/such/folder: No such file or directory (os error 2)\n"


def test_a_host_that_cannot_refuses_unless_it_is_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEIR_BIN", str(tmp_path))
    with pytest.raises(confine.ConfineError, match=r"cannot be confined here: .*WEIR_UNCONFINED=1 runs them"):
        confine.command(["true"])
    monkeypatch.setenv(confine.UNCONFINED, "1")
    assert confine.command(["true"]) == ["true"]
    assert "were not confined" in (confine.state().warning or "")


def test_a_program_that_is_to_stay_alone_starts_threads_but_no_process() -> None:
    program = (
        "import os, threading\n"
        "thread = threading.Thread(target=print, args=('thread',)); thread.start(); thread.join()\n"
        "try:\n    print('process', os.fork())\nexcept OSError as error:\n    print(error.strerror)\n"
    )
    arguments = [sys.executable, "-I", "-S", "-c", program]

    def said(policy: Policy) -> list[str]:
        return subprocess.run(
            confine.command(arguments, policy), capture_output=True, text=True, check=True
        ).stdout.split()

    assert said(Policy(alone=True))[:2] == ["thread", "Function"]  # not implemented
    assert said(Policy(alone=False))[:2] == ["thread", "process"]


def test_nothing_is_left_of_one_that_is_killed(kind: str, tmp_path: Path) -> None:
    if kind == "landlock":
        pytest.skip("there, whoever starts it sees to its end: lab/host/guard, --alone")
    code = "import os, sys, time; os.fork() or os.setsid(); os.fork(); print(os.getpid(), flush=True); time.sleep(600)"
    command = confine.command([sys.executable, "-c", code, str(tmp_path)])
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(4):
            process.stdout.readline()
        process.kill()
        # The pipe ends when the last process has ended.
        assert process.stdout.read() == ""
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if _has(path, tmp_path)]


def _has(cmdline: Path, word: Path) -> bool:
    try:
        return str(word).encode() in cmdline.read_bytes().split(b"\0")
    except OSError:
        return False


def test_without_root_it_confines_as_well(kind: str, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("the other tests are without root")
    # A place that can be reached without passing through root's folders.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        program, inside = folder / "weir-confine", folder / "inside"
        shutil.copy2(_programs.find("weir-confine"), program)
        inside.mkdir()
        os.chown(inside, 65534, 65534)
        text = f"id -u; echo x > {inside}/file; echo x > /tmp/{folder.name}.out; kill -0 {os.getpid()}; exit 7"
        command = [str(program), f"--kind={kind}", f"--write={inside}", "--", "sh", "-c", text]
        done = subprocess.run(
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (7, "65534\n"), done.stderr
        assert (inside / "file").read_text() == "x\n"
        assert not Path(f"/tmp/{folder.name}.out").exists()

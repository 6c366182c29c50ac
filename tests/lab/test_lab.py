"""Programs of this machine in the lab: time, files, randomness, and complete removal."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from weir.lab import HungError, Kernel, Lab, LabError, Script, Settings

_LOST_S = 60.0
"""Maximum wait of a test for an immediate event."""


def run(
    kernel: Kernel, *command: str, settings: Settings | None = None, rw: Path | None = None
) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of ``command`` in a lab."""
    script = Script()
    if rw is not None:
        script.add("rw", str(rw))
    script.add("exec", *command)
    with Lab(kernel, script, settings) as lab:
        lab.wait()
        code = lab.exit_code()
        out, error = (lab.output(name).read().decode() for name in ("stdout", "stderr"))
    return code, out, error


def test_output_and_exit_code_come_out(kernel: Kernel) -> None:
    assert run(kernel, "sh", "-c", "echo out; echo error >&2; exit 7") == (7, "out\n", "error\n")


def test_much_output_comes_out_whole(kernel: Kernel) -> None:
    _, out, _ = run(kernel, "seq", "300000")
    assert out == "".join(f"{number}\n" for number in range(1, 300_001))


def test_what_a_served_process_leaves_in_its_pipe_comes_out_whole(kernel: Kernel) -> None:
    """More than is copied at once, written just before the end."""
    program = (
        "import fcntl, os\n"
        "fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20)\n"
        "os.write(1, b'ready\\n')\n"
        "os.read(0, 100)\n"
        "os.write(1, bytes(900000))\n"
    )
    script = Script()
    script.inputs["left.in"] = b""
    script.add("serve", "left", sys.executable, "-I", "-S", "-c", program)
    script.add("start", "1000000000")
    with Lab(kernel, script) as lab:
        lab.wait()
        assert lab.exit_code() == 0
        assert len(lab.output("left").read()) == len(b"ready\n") + 900_000


def test_a_program_that_is_not_there(kernel: Kernel) -> None:
    code, _, error = run(kernel, "/no/such/program")
    assert code == 127
    assert "/no/such/program" in error


def test_a_death_by_a_signal_is_told(kernel: Kernel) -> None:
    assert run(kernel, "sh", "-c", "kill -TERM $$")[0] == 128 + signal.SIGTERM


def test_waiting_costs_no_time(kernel: Kernel) -> None:
    begin = time.monotonic()
    code, out, _ = run(kernel, "sh", "-c", "cat /proc/uptime; sleep 1000; cat /proc/uptime")
    before, after = (float(line.split()[0]) for line in out.splitlines())
    assert code == 0
    assert 1000 <= after - before < 1000.1
    assert time.monotonic() - begin < 500


def test_files_of_the_host_cannot_be_changed(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept", encoding="utf-8")
    code, out, _ = run(kernel, "sh", "-c", f"cat {tmp_path}/file; echo x > {tmp_path}/file || exit 5")
    assert (code, out) == (5, "kept")
    assert (tmp_path / "file").read_text(encoding="utf-8") == "kept"


def test_one_folder_can_be_written_to(kernel: Kernel, tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    code, _, _ = run(kernel, "sh", "-c", f"echo yes > {inside}/file; echo no > {outside}/file || exit 5", rw=inside)
    assert code == 5
    assert (inside / "file").read_text(encoding="utf-8") == "yes\n"
    assert not list(outside.iterdir())


_RANDOM = ("sh", "-c", "od -An -tx8 -N32 /dev/urandom; cat /proc/sys/kernel/random/uuid; date +%s%N")


def test_a_seed_decides_what_is_random(kernel: Kernel) -> None:
    first, second, other = (run(kernel, *_RANDOM, settings=Settings(seed=seed))[1] for seed in (1, 1, 2))
    assert first == second
    assert first.splitlines()[0] != other.splitlines()[0]


def test_where_the_programs_of_a_lab_are_kept_decides_nothing(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = run(kernel, *_RANDOM, settings=Settings(seed=1))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert run(Kernel(kernel.folder, kernel.about), *_RANDOM, settings=Settings(seed=1)) == here


def test_without_a_seed_it_is_random(kernel: Kernel) -> None:
    assert run(kernel, *_RANDOM)[1] != run(kernel, *_RANDOM)[1]


def test_all_congestion_controls_are_there(kernel: Kernel) -> None:
    from weir.lab import BUILT_IN, Control, registered

    controls = [Control.of(source) for source in registered().values()]
    script = Script()
    for module in kernel.modules(controls).values():
        script.add("insmod", str(module), "")
    script.add("exec", "cat", "/proc/sys/net/ipv4/tcp_available_congestion_control")
    with Lab(kernel, script) as lab:
        lab.wait()
        found = set(lab.output("stdout").read().decode().split())
    assert found == {*BUILT_IN, *(control.kernel_name for control in controls)}


def test_one_that_computes_for_ever_is_ended_and_reported(kernel: Kernel) -> None:
    with pytest.raises(HungError, match=r"(?s)its clock stood at .* Its console:|its clock stood at") as caught:
        run(kernel, "sh", "-c", "while :; do :; done", settings=Settings(patience_s=2))
    assert "Run /" in str(caught.value)
    assert labs() == []


def test_one_that_waits_for_ever_is_ended_and_reported(kernel: Kernel) -> None:
    with pytest.raises(HungError, match=r"past the 100\.0 s"):
        run(kernel, "sleep", "1000000", settings=Settings(limit_ns=100_000_000_000))
    assert labs() == []


def test_a_script_that_fails_says_where(kernel: Kernel) -> None:
    script = Script()
    script.add("call", "sh", "-c", "echo it is raining >&2; exit 3")
    with Lab(kernel, script) as lab:
        lab.wait()
        with pytest.raises(LabError, match=r"(?s)sh ended with 3.*it is raining"):
            lab.exit_code()


def test_a_kernel_that_dies_says_what_it_said(kernel: Kernel) -> None:
    script = Script()
    script.add("exec", "sleep", "100000000")
    with Lab(kernel, script) as lab:
        deadline = time.monotonic() + _LOST_S
        while not (kernels_of(lab.folder) and lab.console()) and time.monotonic() < deadline:
            time.sleep(0.01)
        # A kernel that starts has children that live for an instant: one listed here may be gone.
        for pid in kernels_of(lab.folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        lab.wait()
        with pytest.raises(LabError, match=r"(?s)the lab was killed; the usual reason is memory.*Its console:\n.*"):
            lab.exit_code()


def test_nothing_is_left_when_its_owner_is_killed(kernel: Kernel) -> None:
    command = [sys.executable, "-m", "weir.cli", "lab", "exec", "--", "sleep", "100000000"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + _LOST_S
        while not (mine := [lab for lab in labs() if parent(lab) == process.pid]) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert mine
        folder = arguments(mine[0])[2]
        process.kill()
    deadline = time.monotonic() + _LOST_S
    while (kernels_of(Path(folder)) or Path(folder).exists()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert kernels_of(Path(folder)) == []
    assert not Path(folder).exists()


def arguments(pid: int) -> list[str]:
    try:
        return [part.decode() for part in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]
    except OSError:
        return []


def parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
    except OSError:
        return 0


def labs() -> list[int]:
    """Processes that watch over a lab of this process or its children."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    guards = [pid for pid in pids if any("weir-lab-" in text for text in arguments(pid)[2:3])]
    return [pid for pid in guards if os.getpid() in (parent(pid), parent(parent(pid)))]


def kernels_of(folder: Path) -> list[int]:
    """Processes of the lab in ``folder``, except its watcher."""
    found = []
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if process.name.isdigit() and (process / "cwd").readlink() == folder:
                found += [int(process.name)] if "--" not in arguments(int(process.name)) else []
    return found

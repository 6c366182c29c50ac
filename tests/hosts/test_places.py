"""What every place can do, wherever it is; and that nothing stays there."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hosts_support import AHEAD_S, Make

from weir.hosts._relay import HELLO
from weir.hosts.guest import Guest
from weir.hosts.local import PREFIX, Local
from weir.hosts.place import Clock, Place, PlaceError
from weir.hosts.relay import far_end, reach

_WAIT_S = 10.0


def _await_gone(*paths: Path) -> None:
    deadline = time.monotonic() + _WAIT_S
    while left := [path for path in paths if path.exists() and not _is_ended(path)]:
        assert time.monotonic() < deadline, f"still there: {left}"
        time.sleep(0.02)


def _await_name(pid: str, name: str) -> None:
    """Waits until a process that was just started bears the name that it gives itself."""
    deadline = time.monotonic() + _WAIT_S
    while (found := Path(f"/proc/{pid}/comm").read_text().strip()) != name:
        assert time.monotonic() < deadline, f"process {pid} is called {found}"
        time.sleep(0.02)


def _is_ended(path: Path) -> bool:
    """Whether ``path`` is what is left in ``/proc`` of a process that nobody has asked how it ended."""
    try:
        return (path / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False


def test_a_command_has_input_output_and_an_exit_code(place: Place) -> None:
    ran = place.run(["sh", "-c", "cat; echo trouble >&2; exit 3"], b"one\ntwo\n")
    assert (ran.code, ran.out, ran.err) == (3, b"one\ntwo\n", b"trouble\n")
    assert place.require(["printf", "%s|", "a b", "$HOME", ""]) == b"a b|$HOME||"
    with pytest.raises(PlaceError, match="`false` failed: status 1"):
        place.require(["false"])


def test_what_is_large_arrives_whole(place: Place) -> None:
    large = os.urandom(700_000)
    assert place.run(["cat"], large).out == large
    assert place.get(place.put("large", large)) == large


def test_what_cannot_be_started_is_said(place: Place) -> None:
    with pytest.raises(PlaceError, match="nothing-of-this-name"):
        place.run(["nothing-of-this-name"])
    with pytest.raises(PlaceError, match="nothing-of-this-name"):
        place.start(["nothing-of-this-name"])
    assert place.run(["true"]).code == 0


def test_a_command_that_takes_too_long_is_ended(place: Place) -> None:
    begin = time.monotonic()
    with pytest.raises(PlaceError, match=r"did not end in 0\.3 s"):
        place.run(["sh", "-c", "echo $$ > /dev/shm/weir-test-$$; sleep 60; rm /dev/shm/weir-test-$$"], timeout_s=0.3)
    assert time.monotonic() - begin < _WAIT_S
    assert place.run(["sh", "-c", "rm /dev/shm/weir-test-* && ls /dev/shm"]).out.count(b"weir-test-") == 0


def test_a_process_is_talked_with(place: Place) -> None:
    process = place.start(["sh", "-c", "while read word; do echo heard $word; echo $word >&2; done; exit 7"])
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    for word in (b"one", b"two"):
        process.stdin.write(word + b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"heard " + word + b"\n"
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.05)
    assert process.poll() is None
    process.stdin.close()
    assert process.wait(_WAIT_S) == 7
    assert (process.stdout.read(), process.stderr.read()) == (b"", b"one\ntwo\n")


def test_a_process_is_killed(place: Place) -> None:
    process = place.start(["sleep", "60"])
    process.kill()
    assert process.wait(_WAIT_S) == -signal.SIGKILL
    process.kill()


def test_several_processes_do_not_wait_for_each_other(place: Place) -> None:
    cats = [place.start(["cat"]) for _ in range(4)]
    for number, cat in enumerate(cats):
        assert cat.stdin is not None
        cat.stdin.write(f"{number}\n".encode())
        cat.stdin.flush()
    for number, cat in reversed([*enumerate(cats)]):
        assert cat.stdout is not None
        assert cat.stdout.readline() == f"{number}\n".encode()


def test_files_are_the_places_own(place: Place) -> None:
    path = place.put("program", b"#!/bin/sh\necho $1 from $0\n", executable=True)
    assert place.require([path, "hello"]) == f"hello from {path}\n".encode()
    assert place.get(place.put("data", b"\0\n\xff")) == b"\0\n\xff"
    assert place.require(["stat", "-c", "%a", place.put("secret", b"")]) == b"600\n"
    for name in ("../data", "/etc/data", "..", ""):
        with pytest.raises(PlaceError, match="is not a plain name"):
            place.put(name, b"")
    with pytest.raises(PlaceError, match="nothing-there"):
        place.get("/proc/nothing-there")


def test_a_clock_runs_as_ours_does(place: Place) -> None:
    before = place.clock()
    time.sleep(0.2)
    after = place.clock()
    drift_ns = abs(after.offset_ns - before.offset_ns)
    assert drift_ns <= before.error_ns + after.error_ns + 20_000_000  # a guest has its time from ours in steps
    assert after.reading_ns - before.reading_ns >= 150_000_000
    assert after.error_ns < 50_000_000


def test_clocks_are_told_apart(make: Make) -> None:
    assert make("machine").clock().offset_ns == 0
    if os.geteuid() == 0:
        assert make("elsewhere").clock().offset_ns == pytest.approx(AHEAD_S * 1e9, abs=50_000_000)


@pytest.mark.parametrize("at_ns", [1_000, 5_000, 900])
def test_a_start_is_said_by_the_clock_of_the_place(at_ns: int) -> None:
    clock = Clock(here_ns=1_000, reading_ns=7_000)
    said = clock.start(at_ns)
    assert said["reading_ns"] + said["after_ns"] == at_ns + 6_000
    assert said["after_ns"] >= 0
    assert (said["command"], said["clock"]) == ("start", "monotonic")


def test_nothing_stays_at_a_place_that_is_closed(place: Place) -> None:
    path = Path(place.put("file", b"content"))
    process = place.start(["sh", "-c", "sleep 1000 & echo $$ $!; read x; sleep 1000"])
    assert process.stdout is not None
    pids = [int(word) for word in process.stdout.readline().split()]
    assert place.run(["kill", "-0", *map(str, pids)]).code == 0
    if isinstance(place, Guest):
        folder = place._lab.folder
        assert folder.is_dir()
        place.close()
        assert not folder.exists()
        with pytest.raises(PlaceError, match="is not there any more"):
            place.run(["true"])
        return
    assert path.read_bytes() == b"content"
    place.close()
    _await_gone(path, path.parent, *(Path(f"/proc/{pid}") for pid in pids))


_AWAY = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        time.sleep(1000)
    os._exit(0)
os.wait()
time.sleep(1000)
"""


def test_who_leaves_its_parent_does_not_get_away_from_a_place_elsewhere(make: Make) -> None:
    place = make("elsewhere")
    process = place.start([sys.executable, "-c", _AWAY])
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    assert Path(f"/proc/{pid}").exists()
    place.close()
    _await_gone(Path(f"/proc/{pid}"))


_HOLDER = """
import sys, time
from weir.hosts._relay import HELLO
from weir.hosts.relay import far_end, reach
place = reach("elsewhere", far_end(sys.argv[1], carried=True))
process = place.start(["sh", "-c", "sleep 1000 & echo $$ $!; wait"])
print(place.put("file", b""), process.stdout.readline().decode(), flush=True)
time.sleep(1000)
"""


def test_nothing_stays_where_the_way_is_cut(tmp_path: Path) -> None:
    """The process that had the place is killed: nobody is left to say what is to be ended."""
    with subprocess.Popen([sys.executable, "-c", _HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        path, *pids = holder.stdout.readline().split()
        assert Path(path).exists()
        assert len(pids) == 2
        holder.kill()
    _await_gone(Path(path).parent, *(Path(f"/proc/{pid}") for pid in pids))


def test_processes_of_a_place_that_is_cut_off_have_ended(tmp_path: Path) -> None:
    with reach("elsewhere", far_end(str(tmp_path))) as place:
        process = place.start(["sleep", "1000"])
        place._process.kill()  # type: ignore[attr-defined]
        assert process.wait(_WAIT_S) == -signal.SIGKILL
        with pytest.raises(PlaceError, match="elsewhere is not there any more"):
            place.clock()


@pytest.mark.parametrize(
    "said",
    [
        "no frame",
        '{"id": 0, "is": "clock", "bytes": -1}',
        '{"id": 0, "is": "clock", "bytes": 1e30}',
        '{"id": [], "is": "clock", "bytes": 0}',
        '{"id": 0}',
        "[" * 60_000,
        "x" * 70_000,
        '{"id": 0, "is": "clock", "bytes": 0}',
        '{"id": 0, "is": "clock", "bytes": 0, "monotonic_ns": "noon"}',
        '{"id": 0, "is": "file", "bytes": 1000}',
    ],
)
def test_a_far_end_that_says_what_it_likes_is_an_error(tmp_path: Path, said: str) -> None:
    """A guest's root can have its end of the stream say anything; it is refused at once, and nothing hangs."""
    hello = f'{HELLO.decode()}{{"folder": "/x", "window": 0}}'
    (tmp_path / "said").write_text(f"{said}\n")
    line = f"echo '{hello}'; read x; cat {tmp_path}/said; exec sleep 2"
    begin = time.monotonic()
    with reach("elsewhere", ["sh", "-c", line]) as place, pytest.raises(PlaceError, match="elsewhere"):
        place.clock()
    assert time.monotonic() - begin < _WAIT_S


def test_no_program_is_on_a_command_line(tmp_path: Path) -> None:
    """Command lines are read by every user of a machine."""
    with reach("elsewhere", far_end(str(tmp_path), carried=True)) as place:
        shown = place.require(["sh", "-c", "tr '\\0' '\\n' < /proc/$PPID/cmdline"]).decode().splitlines()
        assert shown[1:4] == ["-I", "-S", "-c"]
        assert len(shown[4]) < 200
        assert "class _Relay" not in shown[4]
        left = place.leave([sys.executable, "-", "x"], b"import time; time.sleep(1000)")
        shown_left = Path(f"/proc/{left}/cmdline")
        while not (words := shown_left.read_bytes()):  # exec(2) closes files before the arguments are in place
            time.sleep(0.001)
        assert words.split(b"\0")[1:] == [b"-", b"x", b""]
        os.kill(left, signal.SIGKILL)


def test_programs_in_python_are_executed_by_copies_of_the_far_end(tmp_path: Path) -> None:
    source = (
        "import os, sys\n"
        "assert __name__ == '__main__'\n"
        "print(sys.argv[1:], sys.stdin.read(), os.getcwd(), len(os.listdir('/proc/self/fd')), os.getpid())\n"
        "sys.stderr.write('said\\n')\n"
        "if sys.argv[1] == 'fails': raise ValueError('this')\n"
        "sys.exit(int(sys.argv[1]))\n"
    )
    with reach("elsewhere", far_end(str(tmp_path), carried=True)) as place:
        program = place.put("program.py", source.encode())
        held = place.start(["cat"])  # its streams are the far end's, and not the copies'
        runs = [place.run_python(program, code, "b c", given=b"given") for code in ("0", "3", "fails")]
        assert [ran.code for ran in runs] == [0, 3, 1]
        for ran, code in zip(runs, ("0", "3", "fails"), strict=True):
            words = ran.out.decode().split()
            assert ran.out.decode().startswith(f"['{code}', 'b c'] given {place.folder} 4 ")
            assert not Path("/proc", words[-1]).exists()
            assert ran.err.startswith(b"said\n")
        assert len({ran.out.split()[-1] for ran in runs}) == 3, "a process each"
        assert b"ValueError: this" in runs[2].err
        assert held.poll() is None
        place.put("program.py", b"print('another')")
        assert place.run_python(program).out == b"another\n", "what is there now"
        with pytest.raises(PlaceError, match="No such file"):
            place.run_python(f"{place.folder}/none.py")
        place.put("waits.py", b"import os, time; os.write(1, b'%d' % os.getpid()); time.sleep(1000)")
        waits = place.start_python(f"{place.folder}/waits.py")
        assert waits.stdout is not None
        pid = int(waits.stdout.read1(20))  # type: ignore[attr-defined]
        assert Path(f"/proc/{pid}/comm").read_text() == "waits\n"
    assert not Path(f"/proc/{pid}").exists()


def test_a_program_in_python_can_be_left_behind(tmp_path: Path) -> None:
    source = f"""
import os, sys, time
with open({str(tmp_path)!r} + "/pid.new", "w") as file:
    file.write(f"{{os.getpid()}} {{os.getcwd()}} {{sys.argv[1]}} {{sys.stdin.read()}}")
os.rename({str(tmp_path)!r} + "/pid.new", {str(tmp_path)!r} + "/pid")
time.sleep(1000)
"""
    with reach("elsewhere", far_end(str(tmp_path), carried=True)) as place:
        left = place.leave_python(place.put("stays.py", source.encode()), "x")
        deadline = time.monotonic() + _WAIT_S
        while not (tmp_path / "pid").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert (tmp_path / "pid").read_text() == f"{left} / x "
    try:
        assert Path(f"/proc/{left}/comm").read_text() == "stays\n"
    finally:
        os.kill(left, signal.SIGKILL)


def test_the_folder_of_a_far_end_that_was_killed_is_removed_by_the_next(tmp_path: Path) -> None:
    others = tmp_path / "weir-relay-mine.txt", tmp_path / "weir-somebodys"
    others[0].write_text("no folder")
    others[1].mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "weir-relay-link").symlink_to(tmp_path / "elsewhere")
    live = reach("elsewhere", far_end(str(tmp_path), carried=True))
    lost = reach("elsewhere", far_end(str(tmp_path), carried=True))
    lost.put("file", b"x")
    pid = lost.limit(0)
    (watcher,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for each in (int(watcher), pid):
        os.kill(each, signal.SIGKILL)
    lost.close()
    assert Path(lost.folder, "file").exists(), "nobody was there to remove it"
    with live, reach("elsewhere", far_end(str(tmp_path), carried=True)) as next_one:
        assert not Path(lost.folder).exists()
        assert Path(live.folder).is_dir(), "its far end lives"
        assert live.require(["pwd"]).decode().strip() == live.folder
        assert next_one.folder not in {live.folder, lost.folder}
    assert {path.name for path in tmp_path.iterdir()} == {
        *(path.name for path in others),
        "elsewhere",
        "weir-relay-link",
    }


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_far_end_that_was_killed_or_stopped_leaves_no_folder(tmp_path: Path, number: signal.Signals) -> None:
    place = reach("elsewhere", far_end(str(tmp_path), carried=True))
    process = place.start(["sleep", "1000"])
    place.put("file", b"x")
    pid = place.limit(1)
    watched, *started = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    _await_name(watched, "weir-watch")
    os.kill(pid, number)
    _await_gone(Path(place.folder), *(Path("/proc", each) for each in (watched, *started)))
    assert process.wait(_WAIT_S) == -signal.SIGKILL
    place.close()


def test_what_is_left_behind_reads_what_it_was_given(tmp_path: Path) -> None:
    with reach("elsewhere", far_end(str(tmp_path), carried=True)) as place:
        place.leave(
            ["sh", "-c", f"cat > {tmp_path}/heard.new && mv {tmp_path}/heard.new {tmp_path}/heard"], b"x" * 99_999
        )
    deadline = time.monotonic() + _WAIT_S
    while not (tmp_path / "heard").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (tmp_path / "heard").read_bytes() == b"x" * 99_999


@pytest.mark.parametrize("shell", ["sh", "bash", "csh", "fish"])
@pytest.mark.parametrize("start", ["timeout 0.3 cat > /dev/null", "echo Welcome; echo; printf 'no end of line'", ""])
def test_login_shells_and_their_start_files(tmp_path: Path, shell: str, start: str) -> None:
    """A shell that greets, or whose start file reads what nobody meant for it."""
    if (found := shutil.which(shell)) is None:
        pytest.skip(f"{shell} is not installed")
    line = shlex.join([found, "-c", shlex.join(far_end(str(tmp_path), carried=True))])
    with reach("elsewhere", ["bash", "-c", f"{start}\nexec {line}"]) as place:
        assert place.require(["echo", "there"]) == b"there\n"


def test_a_way_that_leads_nowhere_is_said() -> None:
    with pytest.raises(PlaceError, match="elsewhere cannot be reached: no such host"):
        reach("elsewhere", ["sh", "-c", "echo no such host >&2; exit 255"])
    with pytest.raises(PlaceError, match="elsewhere cannot be reached: nothing-of-this-name"):
        reach("elsewhere", ["nothing-of-this-name"])


def test_a_folder_of_a_killed_process_is_found_by_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from weir.hosts import remains

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code = "import os; from weir.hosts.local import Local; print(Local().put('a', b'')); os._exit(0)"
    made = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, check=True
    )
    folder = Path(made.stdout.decode().strip()).parent
    (tmp_path / f"{PREFIX}of-somebody-else").mkdir()
    with Local() as live:
        own = Path(live.put("a", b"")).parent
        found = {Path(remain.name): remain.alive for remain in remains.find() if remain.kind == "folder"}
    assert {path: alive for path, alive in found.items() if path.parent == tmp_path} == {folder: False, own: True}
    remains.remove(remains.Remain("folder", str(folder), alive=False))
    assert not folder.exists()

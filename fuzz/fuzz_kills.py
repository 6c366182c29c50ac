"""Kills runs at random instants: nothing may stay on the machine, and the next call must give the undisturbed result.

    python fuzz/fuzz_kills.py --kills 60

Each trial starts ``weir run``, waits for a random time, and sends a signal: to weir itself, to one of its descendants,
or SIGKILL to several at once. This process adopts orphans (``PR_SET_CHILD_SUBREAPER``), so that every descendant of the
run becomes its child in the end, even one that left its process group and session. After each trial no process of the
run, no namespace, interface or congestion control may be left within ``--seconds``. If several processes were killed at
once, including the one that cleans up, ``weir clean`` is called first. Then the same command runs again. It must end
with exit code 0, leave no temporary file, and give the tables of the undisturbed run, byte by byte for methods with
repeatable results (``sim``, ``lab``). Root does all of this in network and mount namespaces of its own, so that what
other programs make meanwhile does not look like remains. Failures are listed with the number that ``--only`` repeats,
and the exit code is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from weir import methods

ROOT = Path(__file__).parents[1]
METHODS = ("sim", "lab", "emul")
REPEATABLE = ("sim", "lab")
SCENARIO = """\
title: A run to kill
topology:
  dumbbell: {{pairs: 2, access: {{rate: 50Mbps}}, bottleneck: {{rate: 20Mbps, queue: 40packets}}, rtt: 20ms}}
transport: {{buffers: 2MB}}
workload:
  - {{name: bulk, between: pairs, kind: bulk, until: {until}}}
measure: {{goodput: 100ms, tcp: 50ms, links: 50ms}}
sweep:
  transport.cc: {controls}
"""
SETTINGS = {
    "sim": ("1000s", "[reno, ./mine.c, cubic]"),
    "lab": ("8s", '["linux:reno", ./mine.c]'),
    "emul": ("2s", '["linux:reno", ./mine.c]'),
}
INTERNAL = ("internal error", "Traceback", "panicked", "PanicException", "RecursionError", "MemoryError")
_PR_SET_CHILD_SUBREAPER = 36
_CLONE_NEWNS, _CLONE_NEWNET = 0x00020000, 0x40000000


@dataclass(frozen=True)
class Trial:
    """One kill: its kind, instant and random draws."""

    number: int
    seed: int
    method: str

    @property
    def random(self) -> random.Random:
        """The random numbers of this trial, independent of other trials."""
        return random.Random(f"{self.seed} {self.number}")


@dataclass
class Ended:
    """How a run ended, and what was killed."""

    code: int
    said: str
    done: str
    by_clean: bool = False
    """Whether the process that removes things may be among the victims."""


@dataclass
class Bench:
    """The runs of one method: the duration and the result without a kill."""

    folder: Path
    method: str
    seconds: float
    whole: dict[str, bytes] = field(default_factory=dict)
    lasts_s: float = 0.0

    def prepare(self) -> None:
        """Executes the run undisturbed, twice: the first may build what it needs.

        Raises:
            SystemExit: it fails.
        """
        self.folder.mkdir()
        shutil.copy(ROOT / "examples" / "my_cc" / "my_cc.c", self.folder / "mine.c")
        until, controls = SETTINGS[self.method]
        (self.folder / "s.yaml").write_text(SCENARIO.format(until=until, controls=controls), encoding="utf-8")
        for name in ("built", "whole"):
            begin = time.monotonic()
            code, said = self._finish(self._start(name))
            self.lasts_s = time.monotonic() - begin
            if code != 0:
                raise SystemExit(f"the run by {self.method} fails undisturbed: {said}")
        self.whole = _tables(self.folder / "whole")

    def judge(self, trial: Trial) -> tuple[list[str], str]:
        """Executes a trial.

        Returns:
            The failures, and a description of the kill.
        """
        before = _things()
        ended = self._disturb(trial)
        wrong = []
        if any(word in ended.said for word in INTERNAL):
            wrong.append(f"an internal error is printed: {ended.said[-300:]}")
        if ended.by_clean:
            wrong += self._clean()
        wrong += self._await_nothing(before)
        code, said = self._finish(self._start("r"))
        if code != 0:
            wrong.append(f"the next call ends with {code}: {said[-300:]}")
        elif set(now := _tables(self.folder / "r")) != set(self.whole):
            wrong.append(f"the next call leaves other files: {sorted(set(now) ^ set(self.whole))[:5]}")
        elif self.method in REPEATABLE and now != self.whole:
            wrong.append(f"other tables: {[name for name in now if now[name] != self.whole[name]][:5]}")
        wrong += self._await_nothing(before)
        unfinished = [str(path) for path in (self.folder / "r" / ".partial").rglob("*") if path.name != "owner"]
        wrong += [f"the next call leaves unfinished cells: {unfinished}"] * bool(unfinished)
        wrong += [f"temporary file left: {path.name}" for path in (self.folder / "tmp").iterdir()]
        shutil.rmtree(self.folder / "r", ignore_errors=True)
        shutil.rmtree(self.folder / "tmp")
        return wrong, ended.done

    def _disturb(self, trial: Trial) -> Ended:
        draws = trial.random
        after_s = draws.uniform(0.0, 1.05 * self.lasts_s)
        kind = draws.choice(("weir", "weir", "one", "one", "several"))
        run = self._start("r")
        with contextlib.suppress(subprocess.TimeoutExpired):
            run.wait(after_s)
        alive = {run.pid, *descendants(os.getpid())} if run.poll() is None else set()
        name = "SIGKILL"
        if not alive:
            kind, victims = "none", []
        elif kind == "weir":
            name, victims = draws.choice(("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP")), [run.pid]
        elif kind == "one":
            victims = [draws.choice(sorted(alive))]
        else:
            victims = draws.sample(sorted(alive), draws.randint(1, len(alive)))
        told = ", ".join(_command(pid) for pid in victims)
        for pid in victims:
            try:
                os.kill(pid, getattr(signal, name))
            except ProcessLookupError:
                continue
        code, said = self._finish(run)
        return Ended(code, said, f"{name} after {after_s:.2f} s to {told or 'nobody'}: exit {code}", kind == "several")

    def _start(self, name: str) -> subprocess.Popen[str]:
        (self.folder / "tmp").mkdir(exist_ok=True)
        arguments = ("run", "s.yaml", "--method", self.method, "--out", name, "-j", "2", "--no-report", "--quiet")
        return subprocess.Popen(
            [sys.executable, "-m", "weir.cli", *arguments],
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / "said").open("w"),
            text=True,
        )

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT / "python"), "TMPDIR": str(self.folder / "tmp")}

    def _finish(self, run: subprocess.Popen[str]) -> tuple[int, str]:
        try:
            run.wait(self.lasts_s + 10 * self.seconds)
        except subprocess.TimeoutExpired:
            run.kill()
            run.wait()
            return run.returncode, f"it did not end within {self.lasts_s + 10 * self.seconds:.0f} s"
        return run.returncode, (self.folder / "said").read_text(encoding="utf-8", errors="replace")

    def _clean(self) -> list[str]:
        command = [sys.executable, "-m", "weir.cli", "clean", "r"]
        (self.folder / "r").mkdir(exist_ok=True)
        here = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "TMPDIR": str(self.folder / "tmp")}
        done = subprocess.run(
            command, cwd=self.folder, env=here, capture_output=True, text=True, timeout=120, check=False
        )
        return [] if done.returncode == 0 else [f"weir clean ends with {done.returncode}: {done.stderr[-300:]}"]

    def _await_nothing(self, before: set[str]) -> list[str]:
        """Waits for all remains to disappear; returns those that stay, and ends their processes."""
        deadline = time.monotonic() + self.seconds
        while True:
            reap()
            left = {f"process {pid} ({_command(pid)})": pid for pid in descendants(os.getpid())}
            things = _things() - before
            if not left and not things:
                return []
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        for pid in left.values():
            os.kill(pid, signal.SIGKILL)
        return [f"left: {what}" for what in (*left, *sorted(things))]


def _tables(run: Path) -> dict[str, bytes]:
    files = (f for f in (run / "cells").rglob("*") if f.is_file() and f.suffix in (".parquet", ".json"))
    return {str(f.relative_to(run)): f.read_bytes() for f in files if f.name != "manifest.json"}


def _things() -> set[str]:
    """Namespaces, interfaces and congestion controls of this machine."""
    found = set()
    for command in (("ip", "netns", "list"), ("ip", "-o", "link")):
        listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
        found |= {f"{command[-1]} {line.split()[0 if 'netns' in command else 1]}" for line in listed}
    known = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text(encoding="utf-8").split()
    found |= {f"congestion control {name}" for name in known}
    groups = Path("/sys/fs/cgroup")
    return found | {f"control group {path.name}" for path in groups.glob("weir*")}


def descendants(pid: int) -> list[int]:
    """The living descendants of process ``pid``."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            children = [int(word) for word in (task / "children").read_text(encoding="utf-8").split()]
        except OSError:
            continue
        for child in children:
            try:
                state = Path(f"/proc/{child}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
                found += [child] * (state != "Z") + descendants(child)
            except OSError:
                continue
    return found


def reap() -> None:
    """Collects the exit codes of orphans that have ended."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return
        except ChildProcessError:
            return


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return "?"
    return " ".join(Path(word).name for word in words[:4] if word)[:60]


def _move_apart() -> None:
    """Moves this process into namespaces of its own, where the named network namespaces of others do not exist.

    Raises:
        SystemExit: the system refuses.
    """
    named = Path("/run/netns")
    named.mkdir(exist_ok=True)
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNS | _CLONE_NEWNET) != 0:
        raise SystemExit(f"there are no namespaces for this program: {os.strerror(ctypes.get_errno())}")
    for command in (
        ("mount", "--make-rprivate", "/"),
        ("mount", "-t", "tmpfs", "tmpfs", str(named)),
        ("ip", "link", "set", "lo", "up"),
    ):
        subprocess.run(command, check=True)


def trials(given: argparse.Namespace, present: list[str]) -> list[Trial]:
    """The requested kills, of each method in turn."""
    found = [Trial(number, given.seed, present[number % len(present)]) for number in range(given.kills)]
    return [trial for trial in found if given.only in (None, trial.number)]


def fuzz(given: argparse.Namespace) -> int:
    """Executes the trials; returns the exit code."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise SystemExit(f"orphans cannot be adopted: {os.strerror(ctypes.get_errno())}")
    if os.geteuid() == 0:
        _move_apart()
    asked = given.methods.split(",") if given.methods else METHODS
    missing = {name: why for name in asked if (why := methods.get(name).available()) is not None}
    for name, why in missing.items():
        print(f"not by {name}: {why}", file=sys.stderr)
    present = [name for name in asked if name not in missing]
    begin, counts, failed = time.monotonic(), Counter[str](), 0
    with tempfile.TemporaryDirectory(prefix="weir-kills-") as folder:
        benches = {name: Bench(Path(folder) / name, name, given.seconds) for name in present}
        chosen = trials(given, present)
        for name in sorted({trial.method for trial in chosen}):
            benches[name].prepare()
        for trial in chosen:
            wrong, done = benches[trial.method].judge(trial)
            counts[trial.method] += 1
            failed += bool(wrong)
            if wrong or given.verbose:
                print(f"{trial.number} {trial.method}: {done}", *wrong, sep="\n    ", flush=True)
    told = ", ".join(f"{count} by {name}" for name, count in counts.items())
    took = time.monotonic() - begin
    print(f"{len(chosen)} killed runs ({told}), seed {given.seed}, {took:.0f} s: {failed} failed")
    return 1 if failed else 0


def main() -> int:
    """Runs the command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--kills", type=int, default=60, help="how many runs are killed (default 60)")
    options.add_argument("--methods", help="such as sim,emul (default: those that this machine has)")
    options.add_argument("--seed", type=int, default=1, help="seed of the kills (default 1)")
    options.add_argument("--seconds", type=float, default=30, help="time until all must be gone (default 30)")
    options.add_argument("--only", metavar="NUMBER", type=int, help="this trial alone")
    options.add_argument("-v", "--verbose", action="store_true", help="print every trial")
    return fuzz(options.parse_args())


if __name__ == "__main__":
    sys.exit(main())

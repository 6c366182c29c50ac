"""Fuzzes the readers of runs: a damaged run must give its old figures, be reported as damaged, or be executed again.

    python fuzz/fuzz_run.py --folders 126 --fields 650 --bits 320

Two small runs are made first. Each trial copies one, damages it (``damages.py``) and gives it to a command: ``show``,
``compare``, ``report``, or ``run`` again. Permitted results are the figures of the undamaged run; an error of weir with
exit code 1 or 2; and for ``run``, the same bytes in every cell as before. Failures are other figures, an internal
error, a panic, more than ``--seconds`` or ``--megabytes``, and a change of the other run, to which links lead. They are
listed with their number, which ``--only`` repeats, and the exit code is 1.

A third of the changed fields get new checksums afterwards. Another third, and a third of the bits, are in runs of an
older version without checksums. Their figures may change; the other rules hold.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from damages import change_field, damage_folder, flip_bit, forget_checksums, seal_anew

ROOT = Path(__file__).parents[1]
SCENARIO = """\
title: A run to damage
source: fuzz/fuzz_run.py
seed: {seed}
repeat: 2
topology:
  dumbbell: {{pairs: 2, access: {{rate: 20Mbps}}, bottleneck: {{rate: 5Mbps, queue: 20packets}}, rtt: 10ms}}
workload:
  - {{name: bulk, between: pairs, kind: bulk, until: 2s}}
measure: {{goodput: 100ms, tcp: 50ms, links: 50ms}}
phases:
  late: {{from: 1s, to: 2s}}
sweep:
  transport.cc: [reno, cubic]
expect:
  - {{claim: The bottleneck is used, check: "goodput.aggregate.mean@late >= 1Mbps"}}
"""
COMMANDS = ("show", "show", "show", "compare", "compare", "run", "run", "report")
_SCRIPTS = re.compile(r"<script[^>]*>(.*?)</script>", re.DOTALL)
"""The data that a report draws."""
INTERNAL = ("internal error", "Traceback", "panicked", "PanicException", "RecursionError", "MemoryError")


@dataclass(frozen=True)
class Trial:
    """One damage, and the command that reads the damaged run."""

    kind: str
    number: int
    seed: int

    @property
    def name(self) -> str:
        """The trial's number for ``--only``."""
        return f"{self.kind}:{self.number}"

    @property
    def random(self) -> random.Random:
        """The random numbers of this trial, independent of other trials."""
        return random.Random(f"{self.seed} {self.name}")

    @property
    def command(self) -> str:
        """The command that reads the damaged run."""
        return COMMANDS[self.number % len(COMMANDS)]

    @property
    def mode(self) -> str:
        """Treatment of the checksums: ``kept``, ``new`` or ``none``."""
        third = self.number // len(COMMANDS) % 3
        if self.kind == "folders":
            return "kept"
        return ("kept", "none", "new" if self.kind == "fields" else "kept")[third]


@dataclass(frozen=True)
class Outcome:
    """The result of a command on a damaged run."""

    code: int | None
    out: str
    err: str
    seconds: float
    megabytes: float
    """Peak memory of its process."""


class Reader:
    """A process that executes commands of weir one after another, so that it imports modules only once."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._process: subprocess.Popen[str] | None = None

    def __call__(self, *arguments: str) -> Outcome:
        """Executes ``weir ARGUMENTS``; a process that takes too long is ended, and has no exit code."""
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        Path(f"/proc/{process.pid}/clear_refs").write_text("5")  # restarts the measurement of peak memory
        begin = time.monotonic()
        process.stdin.write(json.dumps(arguments) + "\n")
        process.stdin.flush()
        signal.setitimer(signal.ITIMER_REAL, self._seconds)
        try:
            answer = process.stdout.readline()
        except TimeoutError:
            answer = ""
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        seconds, megabytes = time.monotonic() - begin, _peak_megabytes(process.pid)
        if not answer:
            self.close()
            said = f"ended with status {process.returncode} after {seconds:.0f} s"
            return Outcome(None, "", said, seconds, megabytes)
        found = json.loads(answer)
        return Outcome(found["code"], found["out"], found["err"], seconds, megabytes)

    def close(self) -> None:
        """Ends the process and its workers."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, __file__, "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,
        )


def serve() -> None:
    """The main loop of a :class:`Reader`'s process."""
    sys.path.insert(0, str(ROOT / "tests"))
    from shared import called

    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for line in sys.stdin:
        ran = called(*json.loads(line))
        answers.write(json.dumps({"code": ran.code, "out": ran.out, "err": ran.err}) + "\n")


def _peak_megabytes(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1000 for line in status.splitlines() if line.startswith("VmHWM")), 0.0)


class Bench:
    """Two runs, the commands' results on them undamaged, and the trials."""

    def __init__(self, folder: Path, seconds: float, megabytes: float) -> None:
        self.folder = folder
        self.megabytes = megabytes
        self.reader = Reader(seconds)
        for name, seed in (("whole", 1), ("other", 2)):
            (folder / f"{name}.yaml").write_text(SCENARIO.format(seed=seed), encoding="utf-8")
            made = self._run(folder / name, f"{name}.yaml")
            if made.code != 0:
                raise SystemExit(f"the run to damage cannot be made: {made.err}")
        self.expected = {command: self._figures(command, folder / "whole") for command in ("show", "compare", "report")}
        self.bytes = _content(folder / "whole")
        self.outside = _state(folder / "other")

    def judge(self, trial: Trial) -> tuple[str, str]:
        """Executes a trial: returns a word for its outcome, and a description."""
        run = self.folder / "damaged"
        _remove(run)
        shutil.copytree(self.folder / "whole", run)
        if trial.mode == "none":
            forget_checksums(run)
        random_ = trial.random
        if trial.kind == "folders":
            done = damage_folder(run, random_, self.folder / "other")
        elif trial.kind == "bits":
            done = flip_bit(run, random_)
        else:
            done = change_field(run, random_)
        if trial.mode == "new":
            seal_anew(run)
        outcome = self._command(trial.command, run)
        word = self._word(trial, run, outcome)
        if (outside := _state(self.folder / "other")) != self.outside:
            word, self.outside = "FAILED: another run was changed", outside
        said = (outcome.err.strip() or outcome.out.strip())[:300]
        return word, f"{trial.name} {trial.command}, checksums {trial.mode}: {done}\n    {said}"

    def _word(self, trial: Trial, run: Path, outcome: Outcome) -> str:
        if outcome.code is None:
            return "FAILED: no answer"
        if outcome.megabytes > self.megabytes:
            return f"FAILED: {outcome.megabytes:.0f} MB"
        if any(word in outcome.err or word in outcome.out for word in INTERNAL):
            return "FAILED: internal error"
        if any(ord(c) < 32 and c != "\n" for c in outcome.err):
            return "FAILED: escapes printed"
        if outcome.code in (1, 2) and outcome.err.startswith(("weir: ", "Error: ", "Usage: ")):
            return "told"
        if trial.mode != "kept":
            return "other figures, as it may" if outcome.code in (0, 1) else f"FAILED: exit code {outcome.code}"
        return self._word_of_figures(trial, run, outcome)

    def _word_of_figures(self, trial: Trial, run: Path, outcome: Outcome) -> str:
        if trial.command == "run":
            now = _content(run)
            if outcome.code != 0 or any(now.get(name) != content for name, content in self.bytes.items()):
                return f"FAILED: a run that is not what it was, exit code {outcome.code}"
            return "executed anew" if json.loads(outcome.out)["executed"] else "kept"
        figures = self._answer(trial.command, run, outcome)
        if outcome.code == 0 and figures == self.expected[trial.command]:
            return "the same figures"
        if not (run / "manifest.json").is_file() and "incomplete" in outcome.err + outcome.out + json.dumps(figures):
            return "told"  # "told": weir cannot distinguish it from an interrupted run
        return "FAILED: other figures"

    def _command(self, command: str, run: Path) -> Outcome:
        match command:
            case "run":
                return self._run(run, "whole.yaml")
            case "compare":
                return self.reader("compare", f"a={run}", f"b={self.folder / 'other'}", "--json")
            case "report":
                return self.reader("report", str(run))
        return self.reader("show", str(run), "--json")

    def _run(self, run: Path, scenario: str) -> Outcome:
        file = str(self.folder / scenario)
        return self.reader("run", file, "--out", str(run), "--method", "sim", "-j", "2", "--no-report", "--json")

    def _figures(self, command: str, run: Path) -> Any:
        outcome = self._command(command, run)
        if outcome.code != 0:
            raise SystemExit(f"{command} fails on the undamaged run: {outcome.err}")
        return self._answer(command, run, outcome)

    def _answer(self, command: str, run: Path, outcome: Outcome) -> Any:
        """The figures in a command's output."""
        if command == "report":
            page = run / "report.html"
            return _SCRIPTS.findall(page.read_text(encoding="utf-8")) if page.is_file() else None
        try:
            return _without_remarks(json.loads(outcome.out.replace(str(run), "RUN")))
        except ValueError:
            return outcome.out


def _content(run: Path) -> dict[str, bytes]:
    files = (f for f in (run / "cells").rglob("*") if f.is_file() and f.name != "manifest.json")
    return {str(f.relative_to(run)): f.read_bytes() for f in files}


def _state(run: Path) -> dict[str, tuple[int, int]]:
    """All files in ``run`` with their change times: files that links of the damaged run lead to must not change."""
    found = {str(f.relative_to(run)): f.lstat() for f in (run, *run.rglob("*"))}
    return {name: (about.st_mtime_ns, about.st_size) for name, about in found.items()}


def _without_remarks(value: Any) -> Any:
    """Removes remarks: weir remarks on a copy of a cell that it leaves out, and no figure changes."""
    if isinstance(value, list):
        return [_without_remarks(item) for item in value]
    if isinstance(value, dict):
        return {k: _without_remarks(v) for k, v in value.items() if k not in ("warnings", "notes")}
    return value


def _remove(run: Path) -> None:
    if run.exists():
        shutil.rmtree(run)


def trials(given: argparse.Namespace) -> Iterator[Trial]:
    """The requested trials."""
    if given.only is not None:
        kind, _, number = given.only.partition(":")
        yield Trial(kind, int(number), given.seed)
        return
    for kind in ("folders", "fields", "bits"):
        for number in range(getattr(given, kind)):
            yield Trial(kind, number, given.seed)


def fuzz(given: argparse.Namespace) -> int:
    """Executes the trials; returns the exit code."""

    def stop(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    chosen = [*trials(given)]
    begin, counts, failed = time.monotonic(), Counter[str](), []
    with tempfile.TemporaryDirectory(prefix="weir-fuzz-") as folder:
        bench = Bench(Path(folder), given.seconds, given.megabytes)
        try:
            for trial in chosen:
                word, said = bench.judge(trial)
                counts[word if not word.startswith("FAILED") else "FAILED"] += 1
                if word.startswith("FAILED"):
                    failed.append(f"{word}: {said}")
                    print(failed[-1], file=sys.stderr, flush=True)
                elif given.verbose:
                    print(f"{word}: {said}", flush=True)
        finally:
            bench.reader.close()
    told = ", ".join(f"{count} {word}" for word, count in counts.most_common())
    print(f"{len(chosen)} damaged runs, seed {given.seed}, {time.monotonic() - begin:.0f} s: {told}")
    return 1 if failed else 0


def main() -> int:
    """Runs the command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--folders", type=int, default=126, help="damages of files and folders (default 126)")
    options.add_argument("--fields", type=int, default=650, help="changes of a field of JSON (default 650)")
    options.add_argument("--bits", type=int, default=320, help="flipped bits (default 320)")
    options.add_argument("--seed", type=int, default=1, help="seed of the damages (default 1)")
    options.add_argument("--seconds", type=float, default=120, help="longest time of one command (default 120)")
    options.add_argument("--megabytes", type=float, default=2000, help="most memory of one command (default 2000)")
    options.add_argument("--only", metavar="KIND:NUMBER", help="this trial alone")
    options.add_argument("-v", "--verbose", action="store_true", help="print every outcome")
    options.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.only is not None and not re.fullmatch(r"(folders|fields|bits):[0-9]+", given.only):
        options.error(f"--only {given.only}: expected folders, fields or bits, a colon and a number")
    if given.serve:
        serve()
        return 0
    return fuzz(given)


if __name__ == "__main__":
    sys.exit(main())

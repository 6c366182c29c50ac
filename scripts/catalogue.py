"""Runs the quick version of every scenario of the catalogue, builds its report, and prints which claims hold.

Exits with 1 if a scenario could not be executed or its report not be built, or if a claim fails that is not known to
fail. Arguments are the names of the scenarios to run; default: all.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir import report
from weir.cli._scenarios import catalogue_files
from weir.run import open_run


@dataclass(frozen=True)
class Outcome:
    """The result of one scenario."""

    name: str
    code: int
    """Exit code of ``weir run``, and 1 if there is no report."""
    seconds: float
    verdicts: tuple[dict[str, Any], ...]

    def __str__(self) -> str:
        count = Counter(verdict["outcome"] for verdict in self.verdicts)
        known = sum(v["outcome"] == v["expected"] == "fails" for v in self.verdicts)
        text = f"{count['holds']} of {len(self.verdicts)} claims hold"
        text += f", {known} known to fail" if known else ""
        return f"{self.name:<24} {self.seconds:5.0f} s  {text}{'' if self.code == 0 else '  FAILED'}"

    @property
    def details(self) -> list[str]:
        """One line for each claim with an unexpected outcome."""
        found = []
        for verdict in self.verdicts:
            if verdict["outcome"] != verdict["expected"]:
                word = "now holds" if verdict["outcome"] == "holds" else verdict["outcome"]
                found.append(f"{'':<24} {word}: {verdict['claim']}")
                found += [f"{'':<26} {m['shown']}" for m in verdict["measured"] if m["outcome"] == verdict["outcome"]]
        return found


def run(name: str, folder: Path) -> Outcome:
    """Executes one quick version in ``folder`` on one processor, and builds its report."""
    begin = time.monotonic()
    weir = [sys.executable, "-m", "weir.cli", "run", name, "--method", "sim"]
    command = [*weir, "--quick", "--json", "--quiet", "--workers", "1", "--no-report", "--out", str(folder)]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    verdicts = json.loads(done.stdout)["verdicts"] if done.stdout.strip() else []
    code = done.returncode or reported(folder)
    return Outcome(name, code, time.monotonic() - begin, tuple(verdicts))


def reported(folder: Path) -> int:
    """1 if the report of a run cannot be built; here, because a process takes seconds until it can build its first."""
    try:
        report.build(open_run(folder))
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def main(arguments: list[str]) -> int:
    """Runs as many at once as there are processors."""
    known = catalogue_files()
    unknown = [name for name in arguments if name not in known]
    if unknown:
        print(f"no scenario {unknown[0]!r}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    failed = []
    with (
        tempfile.TemporaryDirectory() as temporary,
        ProcessPoolExecutor(len(os.sched_getaffinity(0)), multiprocessing.get_context("spawn")) as pool,
    ):
        folders = {name: Path(temporary) / name.replace("/", "-") for name in arguments or known}
        for outcome in pool.map(run, folders, folders.values()):
            print(outcome, flush=True)
            for line in outcome.details:
                print(line, flush=True)
            if outcome.code != 0:
                failed.append(outcome.name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

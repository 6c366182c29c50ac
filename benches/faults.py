"""Random faults during runs on test beds: nothing complete may be lost, nothing may be left on a node.

``sudo .venv/bin/python benches/faults.py --trials 20 --seed 1`` makes test beds of four nodes. Each trial starts a run
of three cells, causes one fault at a random moment of it, and then executes the same command again. It checks that

- the first command ends by itself: the fault costs at most ``WITHIN_S`` beyond the length of a run at the present load,
- what it kept of the cell of the fault is marked as partial, and names the node,
- every node is as before, after each of the commands: parameters, addresses, routes, queueing disciplines, processes,
  files,
- cells that were complete before the fault are the same files afterwards, and the run becomes complete.

The kinds of faults (``fault_kinds.py``) come in turn, in an order drawn from the seed, each some time after a drawn
event of the run: so the load of the machine does not decide what is hit. Trial N of a seed is the same whatever the
number of trials (``--first N --trials 1``). Each test bed executes a trial at a time (``--beds``). A fault that comes
too late hits nothing, and is counted so.

A test bed's node cannot set its clock, which is this machine's: where a clock steps, the programs of weir there are
told so by a preloaded library (``clock_step.c``). The agent has no library, and counts by the monotonic clock.

It needs root, a server of OpenSSH and a C compiler; without, it says so and ends with 2. It prints one line a trial and
a summary as JSON, and ends with 1 if a check failed. Its last line says what holds.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import queue
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fault_kinds import CELLS, FAULTS, OF_A_NODE, Bed, Moment, Trial, planned, reached

from weir.testbed import BedError

HERE = Path(__file__).parent.absolute()
SCENARIO = """\
title: Faults
source: benches/faults.py
seed: 1
topology:
  dumbbell:
    pairs: 2
    access: {rate: 1Gbps}
    bottleneck: {rate: 100Mbps, queue: 1000packets}
    rtt: 18ms
transport: {cc: "linux:reno", stack: linux, buffers: 1MB, ecn: true, initial_window: 4}
workload:
  - {name: flow, between: pairs, kind: bulk, until: 1s}
measure: {goodput: 200ms, tcp: 50ms, links: 0}
sweep: {transport.buffers: [1MB, 2MB, 3MB]}
"""
END_S = 240.0
WITHIN_S = 45.0
"""A hanging node is given up after 6 s, an agent that says nothing 20 s after the plan's end."""
CLEAN_S = 45.0
"""A node that has lost its controller restores itself after 20 s at the latest."""
WEIR = (sys.executable, "-m", "weir")


def weir(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*WEIR, *arguments], capture_output=True, text=True, check=False)


# Trials --------------------------------------------------------------------------------------------------------------


def digests(run: Path) -> dict[str, str]:
    """The complete cells of a run, by id, with a digest of their manifests, which have those of their files."""
    found = {}
    for manifest in sorted(run.glob("cells/*/manifest.json")):
        if "partial" not in json.loads(manifest.read_text()):
            found[manifest.parent.name] = hashlib.sha256(manifest.read_bytes()).hexdigest()
    return found


def partials(run: Path) -> dict[str, str]:
    """The partial cells of a run, with what they say."""
    read = {file.parent.name: json.loads(file.read_text()) for file in run.glob("cells/*/manifest.json")}
    return {name: str(facts["partial"]) for name, facts in read.items() if "partial" in facts}


@contextlib.contextmanager
def small_disk() -> Iterator[Path]:
    """A folder on a file system of its own."""
    with tempfile.TemporaryDirectory(prefix="weir-faults-") as name:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", name], check=True)
        try:
            yield Path(name)
        finally:
            subprocess.run(["umount", "--lazy", name], check=True)


@dataclass
class Lane:
    """A test bed with its trials, one after another."""

    bed: Bed
    seed: int
    library: Path

    def command(self, folder: Path) -> list[str]:
        (folder / "faults.yaml").write_text(SCENARIO)
        where = ("--on", str(self.bed.inventory), "--out", str(folder / "run"), "--no-report")
        return [*WEIR, "run", str(folder / "faults.yaml"), *where]

    def trial(self, number: int) -> dict[str, object]:
        """What happened; ``wrong`` are the checks that failed."""
        kind, node, moment, draw = planned(self.seed, number)
        with small_disk() as folder:
            return {"kind": kind, "node": node, **self._executed(kind, node, moment, draw, folder)}

    def _executed(self, kind: str, node: str, moment: Moment, draw: random.Random, folder: Path) -> dict[str, object]:
        (folder / "ahead").write_bytes(struct.pack("q", 0))
        stepped = {"CLOCK_STEP": str(folder / "ahead"), "LD_PRELOAD": str(self.library)}
        command, begun = self.command(folder), time.monotonic()
        with (folder / "said").open("wb") as said:
            process = subprocess.Popen(command, stdout=said, stderr=said, env={**os.environ, **stepped})
        trial = Trial(self.bed, node, draw, folder, process)
        _await(moment, trial)
        before, at_s = digests(folder / "run"), time.monotonic() - begun
        hit = trial.runs and FAULTS[kind](trial)
        wrong = _end(process)
        ended_s = time.monotonic() - begun
        words = (folder / "said").read_text(errors="replace")
        left = self._left(trial)
        wrong += [f"{name}: {'; '.join(lines[:8])}" for name, lines in left.items()]
        clean_s = time.monotonic() - begun - ended_s
        kept = partials(folder / "run")
        if kind in OF_A_NODE:
            wrong += [f"partial {cell} names no {node}: {text}" for cell, text in kept.items() if node not in text]
        for mend in trial.mends:
            mend()
        if left:
            weir("clean", "--on", str(self.bed.inventory), "--all")
        again_begun = time.monotonic()
        again = subprocess.run(command, capture_output=True, text=True, check=False)
        length_s = time.monotonic() - again_begun  # without a fault, at the load of now
        if ended_s > max(at_s, length_s) + WITHIN_S:
            wrong.append(f"the run ended after {ended_s:.0f} s; allowed are {max(at_s, length_s) + WITHIN_S:.0f} s")
        after = digests(folder / "run")
        wrong += [f"cell {cell} was lost or changed" for cell, digest in before.items() if after.get(cell) != digest]
        if again.returncode or len(after) != CELLS:
            wrong.append(f"the run is not complete: {(again.stdout + again.stderr)[-600:]}")
        if not left:
            left = self._left(Trial(self.bed, node, draw, folder, process))
            wrong += [f"{name}, after a run without a fault: {'; '.join(lines[:8])}" for name, lines in left.items()]
        if wrong:
            wrong.append(f"the command said: {words[-600:]}")
        if left:
            self.bed.renew()
        spent = {"at_s": at_s, "ended_s": ended_s - at_s, "clean_s": clean_s, "load": os.getloadavg()[0]}
        return {"moment": str(moment), "stage": moment.stage, "hit": hit, **spent, "kept": kept, "wrong": wrong}

    def _left(self, trial: Trial) -> dict[str, list[str]]:
        """What is not as before when the nodes have had time to restore themselves; faults of the trial are undone."""
        deadline = time.monotonic() + CLEAN_S
        while True:
            try:
                left = self.bed.changed(trial.gone)
            except BedError as error:
                return {trial.node: [str(error)]}
            expected = "+ qdisc bfifo", "- qdisc", "+ local", "- local", "- 10.", "- broadcast"
            if trial.mends and trial.node in left:  # the fault itself is there
                left[trial.node] = [line for line in left[trial.node] if not line.startswith(expected)]
                left = {node: lines for node, lines in left.items() if lines}
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.5)


def _await(moment: Moment, trial: Trial) -> None:
    """Waits until the run is there, or has ended."""
    while trial.runs and reached(trial.folder / "run") < moment.order:
        time.sleep(0.01)
    with contextlib.suppress(subprocess.TimeoutExpired):
        trial.process.wait(moment.after_s)


def _end(process: subprocess.Popen[bytes]) -> list[str]:
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return ["the run did not end"]
    return []


def main() -> None:
    options = _arguments()
    _in_own_mounts()
    numbers: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(options.first, options.first + options.trials):
        numbers.put(number)
    results: dict[int, dict[str, object]] = {}
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="weir-faults-") as folder:
        library = Path(folder) / "step.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O", "-o", library, HERE / "clock_step.c"], check=True)

        def work(place: int) -> None:
            bed = Bed(f"faults{os.getpid():x}-{place}", library)
            try:
                lane = Lane(bed, options.seed, library)
                while not numbers.empty():
                    with contextlib.suppress(queue.Empty):
                        number = numbers.get_nowait()
                        results[number] = lane.trial(number)
                        _tell(number, results[number])
            finally:
                bed.down()

        threads = [threading.Thread(target=work, args=(place,)) for place in range(min(options.beds, options.trials))]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except KeyboardInterrupt:
            while not numbers.empty():
                numbers.get()
            raise
    told = _summary(results, options, time.monotonic() - begun)
    sys.stdout.write(json.dumps(told, indent=2) + "\n" + _closing(told) + "\n")
    sys.exit(1 if told["failed"] or len(results) < options.trials else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, metavar="N", help="begin with this trial")
    parser.add_argument("--beds", type=int, default=4, help="test beds beside one another")
    options = parser.parse_args()
    lacking = [name for name in ("cc", "unshare", "sshd") if not shutil.which(name, path=_PATH)]
    if os.geteuid() or lacking:
        why = f"it lacks {', '.join(lacking)}" if lacking else "it needs root"
        parser.exit(2, f"no faults can be tried on this machine: {why}\n")
    return options


_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
_MARK = "WEIR_FAULTS_MOUNTS"


def _in_own_mounts() -> None:
    """Executes this program anew in a mount namespace: what it mounts goes with it, however it ends."""
    if _MARK not in os.environ:
        os.environ[_MARK] = "1"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv])


def _tell(number: int, found: dict[str, object]) -> None:
    when = f"{found['kind']} ({found['node']}, {found['moment']}, at {found['at_s']:.1f} s)"
    hit = "" if found["hit"] else "no hit; "
    spent = f"{hit}ended {found['ended_s']:.1f} s later, clean after {found['clean_s']:.1f} s"
    wrong = "; ".join(found["wrong"]) if isinstance(found["wrong"], list) else ""
    sys.stdout.write(f"{number:4} {when}: {spent}: {wrong or 'good'}\n")
    sys.stdout.flush()


def _summary(results: dict[int, dict[str, object]], options: argparse.Namespace, seconds: float) -> dict[str, object]:
    kinds: dict[str, list[dict[str, object]]] = defaultdict(list)
    for found in results.values():
        kinds[str(found["kind"])].append(found)

    def about(several: list[dict[str, object]]) -> dict[str, object]:
        hits = [one for one in several if one["hit"]]
        found: dict[str, object] = {"trials": len(several), "hits": len(hits)}
        for name in ("ended_s", "clean_s") if hits else ():
            values = [float(str(one[name])) for one in hits]
            found[name] = {"median": round(statistics.median(values), 1), "max": round(max(values), 1)}
        return found

    stages = sorted({str(found["stage"]) for found in results.values()})
    return {
        "trials": len(results),
        "hits": sum(bool(found["hit"]) for found in results.values()),
        "seed": options.seed,
        "first": options.first,
        "failed": {number: found for number, found in sorted(results.items()) if found["wrong"]},
        "partial_cells": sum(len(found["kept"]) for found in results.values() if isinstance(found["kept"], dict)),
        "kinds": {kind: about(several) for kind, several in sorted(kinds.items())},
        "stages": {stage: about([one for one in results.values() if one["stage"] == stage]) for stage in stages},
        "load_median": round(statistics.median(float(str(found["load"])) for found in results.values()), 1),
        "seconds": round(seconds),
    }


def _closing(told: dict[str, object]) -> str:
    failed = told["failed"]
    assert isinstance(failed, dict)
    counts = (
        f"{told['trials']} trials of seed {told['seed']}, {told['hits']} of them hit the run, in {told['seconds']} s"
    )
    return f"{counts}: {f'{len(failed)} failed' if failed else 'nothing lost that was complete, nothing left'}"


if __name__ == "__main__":
    main()

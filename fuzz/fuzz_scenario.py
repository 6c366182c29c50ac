"""Fuzzes the scenario parser and compiler: whatever the bytes, there is a scenario or a list of problems, and soon.

    python fuzz/fuzz_scenario.py --runs 2000

Inputs are the examples and the bad scenarios of the tests, mutated. With atheris installed its coverage guides the
mutations; without, they are random from ``--seed``. An input that raises anything but ``ScenarioError``, gives a plan
that ``weir-plan`` refuses, or takes longer than ``--seconds`` is written to a file, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).parents[1]
SEEDS = ("examples/*.yaml", "scenarios/**/*.yaml", "tests/scenario/bad/*.yaml")
_LONGEST = 20_000

# Pieces of the language, and of YAML, that random bytes would take long to find.
_TOKENS = """\
0|1|-1|1e9|99999999999999999999|0.5|.inf|.nan|null|~|true|false|yes|''|""|[]|{}|[[]]|:|- |,|?|>|&a x
*a|!x |%|@|#|<<|---|...
0ms|1ns|10ms|1s|1e30s|3650d|0B|1B|64KiB|50MB|1000PB|0bps|1bps|1Gbps|1000Tbps|0packets|1packets|0.5bdp|0bdp|1%|100%|0%
reno|cubic|linux:bbr|./x.so|linux|linux-2.6|bulk|transfer|onoff|cbr|pairs|pairs[0]
"pairs[0..99999]"|cross|src0|dst0|left
{exponential: 1s}|{pareto: {shape: 0.1, scale: 1B}}|{weibull: {shape: 1000, mean: 1B}}
{uniform: [0s, 0s]}|{list: [1s]}
droptail|red|wred|codel|fq_codel|pie|{bernoulli: 1}|{list: [1, 2]}|none|{every: 0s}|{every: 1ns}
\u00e9|\u2028|\x00|\ufeff
""".replace("\n", "|").split("|")
_KEYS = """\
title seed repeat sweep quick expect zip case topology dumbbell hierarchical parking_lot star graph pairs
access rate delay queue loss jitter reorder mtu overhead rtt bottleneck capacity buffer aggregation
multiplexing levels branches link links routers hosts between from to transport cc stack buffers mss workload
name kind size count wait start until stop duration every first on off packet periods streams flows reverse
background congestion_level background_level reverse_level measure goodput tcp trace phases flow plus minus at
changes transport.cc workload[0].until topology.dumbbell.rtt
""".split()  # noqa: SIM905 - a list of a hundred quoted words is unreadable


def corpus() -> list[str]:
    """The texts that mutations begin with."""
    files = sorted({path for pattern in SEEDS for path in ROOT.glob(pattern)})
    return [path.read_bytes().decode("utf-8", errors="replace") for path in files]


def mutate(text: str, random_: random.Random, others: list[str]) -> str:
    """``text`` after a few changes."""
    for _ in range(random_.choice((1, 1, 2, 3, 8))):
        text = random_.choice(_MUTATIONS)(text, random_, others)[:_LONGEST]
    return text


def _words(text: str) -> list[tuple[int, int]]:
    """Where the words of a text begin and end."""
    found, start = [], None
    for i, c in enumerate(text + " "):
        if c.isalnum() or c in "._%-":
            start = i if start is None else start
        elif start is not None:
            found.append((start, i))
            start = None
    return found


def _replace_word(text: str, random_: random.Random, others: list[str]) -> str:
    words = _words(text)
    if not words:
        return random_.choice(_TOKENS)
    start, end = random_.choice(words)
    other = random_.choice(others)
    own = [other[a:b] for a, b in _words(other)] or [""]
    word = random_.choice((random_.choice(_TOKENS), random_.choice(_KEYS), random_.choice(own)))
    return text[:start] + word + text[end:]


def _change_number(text: str, random_: random.Random, _others: list[str]) -> str:
    digits = [i for i, c in enumerate(text) if c.isdigit()]
    if not digits:
        return text
    i = random_.choice(digits)
    return text[:i] + random_.choice("0123456789") * random_.choice((0, 1, 1, 1, 2, 6)) + text[i + 1 :]


def _change_line(text: str, random_: random.Random, others: list[str]) -> str:
    lines = text.split("\n")
    i = random_.randrange(len(lines))
    other = random_.choice(random_.choice(others).split("\n"))
    match random_.randrange(5):
        case 0:
            del lines[i]
        case 1:
            lines.insert(i, lines[random_.randrange(len(lines))])
        case 2:
            lines.insert(i, other)
        case 3:
            lines[i] = " " * random_.randrange(8) + lines[i].lstrip()
        case _:
            j = random_.randrange(len(lines))
            lines[i], lines[j] = lines[j], lines[i]
    return "\n".join(lines)


def _insert(text: str, random_: random.Random, _others: list[str]) -> str:
    i = random_.randrange(len(text) + 1)
    key = f"\n{' ' * random_.randrange(8)}{random_.choice(_KEYS)}: {random_.choice(_TOKENS)}\n"
    return text[:i] + random_.choice((random_.choice(_TOKENS), key, chr(random_.randrange(0x250)))) + text[i:]


def _cut(text: str, random_: random.Random, _others: list[str]) -> str:
    i = random_.randrange(len(text) + 1)
    return text[:i] + text[i + random_.choice((1, 3, 20, 200)) :]


_MUTATIONS: tuple[Callable[[str, random.Random, list[str]], str], ...] = (
    _replace_word,
    _replace_word,
    _change_number,
    _change_number,
    _change_line,
    _insert,
    _cut,
)


def run_one(data: str | bytes) -> None:
    """Checks one input; raises if the parser does anything but answer."""
    from weir import _weir
    from weir.scenario import ScenarioError, parse

    problems = []
    try:
        scenario = parse(data)
    except ScenarioError as e:
        problems = e.problems
    assert all(p.line >= 1 and p.column >= 1 and p.message for p in problems), "a problem without a place"
    if problems:
        assert any(p.severity == "error" for p in problems), "refused without a reason"
        return
    cells = scenario.cells()
    for cell in (cells[0], cells[-1]):
        with contextlib.suppress(ScenarioError):  # the check of a very large sweep is a selection
            _weir.check_plan(json.dumps(cell.plan()))


class TooSlow(Exception):  # noqa: N818 - not an error of the input
    """An input took longer than it may."""


@contextlib.contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raises ``TooSlow`` in what takes longer."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise TooSlow

    previous = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def fuzz_randomly(runs: int, seed: int, seconds: int) -> int:
    """Random mutations; returns the exit code."""
    random_ = random.Random(seed)
    texts = corpus()
    begin = time.monotonic()
    for i in range(runs):
        text = mutate(random_.choice(texts), random_, texts)
        try:
            with at_most(seconds):
                run_one(text)
        except BaseException:
            traceback.print_exc()
            path = Path(f"fuzz-scenario-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:12]}.yaml")
            path.write_bytes(text.encode("utf-8", "surrogatepass"))
            print(f"run {i} of seed {seed}: input written to {path}", file=sys.stderr)
            return 1
    print(
        f"{runs} inputs, seed {seed}: no crash, none over {seconds} s; {runs / (time.monotonic() - begin):.0f} a second"
    )
    return 0


def fuzz_with_atheris(runs: int, seed: int, seconds: int) -> None:
    """Mutations guided by coverage; does not return."""
    import atheris

    with atheris.instrument_imports(include=["weir.scenario"]):
        import weir.scenario  # noqa: F401
    texts = corpus()

    def mutator(data: bytes, max_size: int, seed_: int) -> bytes:
        random_ = random.Random(seed_)
        text = data.decode("utf-8", errors="replace") if random_.random() < 0.9 else random_.choice(texts)
        return mutate(text, random_, texts).encode("utf-8", errors="replace")[:max_size]

    folder = ROOT / "target" / "fuzz-scenario"  # inputs found in one run are where the next begins
    folder.mkdir(parents=True, exist_ok=True)
    for i, text in enumerate(texts):
        (folder / str(i)).write_bytes(text.encode("utf-8", errors="replace"))
    # libFuzzer writes an input that fails to the current folder, and exits with 77.
    limits = [f"-runs={runs}", f"-seed={seed}", f"-timeout={seconds}", f"-max_len={_LONGEST}"]
    atheris.Setup([sys.argv[0], *limits, "-verbosity=0", str(folder)], run_one, custom_mutator=mutator)
    atheris.Fuzz()


def main() -> int:
    """The command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=2000, help="number of inputs (default 2000)")
    options.add_argument("--seed", type=int, default=1, help="seed of the mutations (default 1)")
    options.add_argument("--seconds", type=int, default=30, help="longest time of one input (default 30)")
    options.add_argument("--engine", choices=("auto", "atheris", "random"), default="auto")
    given = options.parse_args()
    engine = given.engine
    if engine == "auto":
        try:
            import atheris  # noqa: F401
        except ImportError:
            engine = "random"
        else:
            engine = "atheris"
    if engine == "atheris":
        fuzz_with_atheris(given.runs, given.seed, given.seconds)
    return fuzz_randomly(given.runs, given.seed, given.seconds)


if __name__ == "__main__":
    sys.exit(main())

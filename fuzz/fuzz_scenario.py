"""Fuzzes the scenario parser and compiler: any bytes must give a scenario or a list of problems, in limited time.

    python fuzz/fuzz_scenario.py --runs 4000

Inputs are the examples and the bad scenarios of the tests, mutated, some with overrides of the command line. Mutations
change bytes, words and lines, and insert attacks (``_ATTACKS``): escapes, giant numbers, nests, aliases, crowds of
flows, networks with many paths, long sweeps and checks. Atheris, if installed, guides the mutations by coverage;
otherwise they are random from ``--seed``. An input fails if it raises anything but ``ScenarioError``, gives a plan that
``weir-plan`` refuses, prints control sequences of a terminal, takes more than ``--seconds`` of processor time or more
than ``--gigabytes``. It is written to a file, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import random
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import indent
from types import FrameType

ROOT = Path(__file__).parents[1]
SEEDS = ("examples/*.yaml", "scenarios/**/*.yaml", "tests/scenario/bad/*.yaml")
_MAX_LENGTH = 20_000

# Pieces of the language, and of YAML, that random bytes would take long to find.
_TOKENS = """\
0|1|-1|1e9|99999999999999999999|0.5|.inf|.nan|null|~|true|false|yes|''|""|[]|{}|[[]]|:|- |,|?|>|&a x
*a|!x |%|@|#|<<|---|...
0ms|1ns|10ms|1s|1e30s|3650d|0B|1B|64KiB|50MB|1000PB|0bps|1bps|1Gbps|1000Tbps|0packets|1packets|0.5bdp|0bdp|1%|100%|0%
reno|cubic|linux:bbr|./x.so|linux|linux-2.6|linux-2.4|bulk|transfer|onoff|cbr|pairs|pairs[0]
"pairs[0..99999]"|cross|src0|dst0|left
{exponential: 1s}|{pareto: {shape: 0.1, scale: 1B}}|{weibull: {shape: 1000, mean: 1B}}
{uniform: [0s, 0s]}|{list: [1s]}
{fq: {max_rate: 2Mbps, flow_limit: 3}}|fq
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
    """The texts from which mutations start."""
    files = sorted({path for pattern in SEEDS for path in ROOT.glob(pattern)})
    return [path.read_bytes().decode("utf-8", errors="replace") for path in files]


def mutate(text: str, random_: random.Random, others: list[str]) -> str:
    """``text`` after a few changes."""
    for _ in range(random_.choice((1, 1, 2, 3, 8))):
        text = random_.choice(_MUTATIONS)(text, random_, others)[:_MAX_LENGTH]
    for _ in range(random_.choice((0, 0, 1, 1, 2))):
        text = random_.choice(_ATTACKS)(text, random_, others)[: 5 * _MAX_LENGTH]
    return text


def overrides(random_: random.Random) -> dict[str, str]:
    """Overrides of the command line; mostly none."""
    paths = (
        "transport.cc",
        "sweep",
        "workload[0].until",
        "duration",
        "topology.dumbbell",
        "sweep.transport.cc",
        "title",
    )
    tokens = [*_TOKENS, *_GIANTS, "{}", "bic", *(f'"{escape}"' for escape in _ESCAPES)]
    return {random_.choice(paths): random_.choice(tokens) for _ in range(random_.choice((0, 0, 0, 1, 2)))}


def _words(text: str) -> list[tuple[int, int]]:
    """The beginnings and ends of the words in a text."""
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


# The most expensive content of a small file, and attacks on a terminal.
_ESCAPES = (r"\ud800", r"\e]0;x\a", r"\x9b31m", r"\0", r"\u202e", r"\L", r"\U0010ffff", r"\x", r"\u12")
_GIANTS = (
    *("1e400", "1e400s", "1e99999B", "99999999", "1000000000", "-1", "0", "1e-400", "3650d", "100d", "1h", "2000d"),
    *("1000PB", "1TB", "100Tbps", "1bps", "1ns", "1B", "1e9packets", "1000bdp", "0.01", "1000", "100000", "20000"),
    *("flows[99999999]", "pairs[0..99999]", "pairs[99999999]", "9" * 400, "1." + "0" * 300),
)


def _escape(text: str, random_: random.Random, _others: list[str]) -> str:
    words = _words(text)
    if not words:
        return text
    start, end = random_.choice(words)
    return f'{text[:start]}"{text[start:end]}{random_.choice(_ESCAPES)}"{text[end:]}'


def _giant(text: str, random_: random.Random, _others: list[str]) -> str:
    numbers = [(a, b) for a, b in _words(text) if text[a].isdigit()]
    if not numbers:
        return text
    start, end = random_.choice(numbers)
    return text[:start] + random_.choice(_GIANTS) + text[end:]


def _nest(text: str, random_: random.Random, _others: list[str]) -> str:
    words = _words(text)
    if not words:
        return text
    start, end = random_.choice(words)
    depth = random_.choice((3, 31, 33, 500))
    opened, closed = random_.choice((("[", "]"), ("{a: ", "}"), ("- ", "")))
    return text[:start] + opened * depth + text[start:end] + closed * depth + text[end:]


def _aliases(text: str, random_: random.Random, _others: list[str]) -> str:
    """Nested aliases, as a further key or in place of a word."""
    width, depth = random_.choice(((9, 4), (9, 6), (300, 2), (2, 20)))
    levels = ["&l0 [x]"] + [f"&l{i} [{', '.join([f'*l{i - 1}'] * width)}]" for i in range(1, depth)]
    return f"{random_.choice(('x', 'tags', 'changes', 'phases', 'expect'))}: [{', '.join(levels)}]\n{text}"


def _crowd(text: str, random_: random.Random, _others: list[str]) -> str:
    """A workload of many flows, transfers or periods."""
    many = random_.choice(("flows: 100000", "flows: 1000, streams: 100", "flows: 100001", "streams: 1000"))
    kind = random_.choice(
        (
            "kind: bulk",
            "kind: transfer, size: 1B, count: 1000000",
            "kind: transfer, size: {pareto: {shape: 0.01, scale: 1B}}, wait: {weibull: {shape: 0.01, scale: 1ns}}",
            "kind: transfer, total: 3B",
            "kind: cbr, rate: 1bps, periods: [1ns, 1ns]",
            "kind: onoff, rate: 1Mbps, on: 1ns, off: 1ns",
            "kind: onoff, on: 1B, off: {exponential: 1ns}",
        )
    )
    return _with(text, "workload", f"[{{name: crowd, between: pairs, {kind}, {many}, until: 9s}}]")


def _paths(text: str, random_: random.Random, _others: list[str]) -> str:
    """A graph with many paths between few hosts, or between many."""
    routers, degree, parallel = random_.choice(((2, 1, 60), (2, 1, 400), (60, 8, 1), (300, 3, 1), (12, 11, 4)))
    hosts = random_.choice((2, 40))
    core = [(f"r{i}", f"r{(i + k) % routers}") for i in range(routers) for k in range(1, degree + 1) if k % routers]
    ends = [(f"h{i}", f"r{random_.randrange(routers)}") for i in range(hosts)]
    links = [(a, b) for a, b in (*core, *ends) for _ in range(parallel)]
    written = ", ".join(f"{{between: [{a}, {b}], rate: 1Mbps, name: x{i}}}" for i, (a, b) in enumerate(links))
    names = ", ".join(f"h{i}" for i in range(hosts)), ", ".join(f"r{i}" for i in range(routers))
    graph = f"{{graph: {{hosts: [{names[0]}], routers: [{names[1]}], rtt: 10ms, links: [{written}]}}}}"
    last = hosts // 2 - 1
    between = f"{{from: 'h[0..{last}]', to: 'h[{last + 1}..{2 * last + 1}]'}}"
    flows = random_.choice(("", ", flows: 1000", ", flows: 100000"))
    text = _with(text, "workload", f"[{{name: far, kind: bulk, between: {between}{flows}, until: 9s}}]")
    return _with(text, "topology", graph)


def _sweep_wide(text: str, random_: random.Random, _others: list[str]) -> str:
    axes, values = random_.choice(((20, 2), (64, 1), (65, 1), (3, 40), (1, 2000)))
    paths = [f"phases.p{i}.to" for i in range(axes)]
    wide = ", ".join(f"{path}: [{', '.join(f'{n}ms' for n in range(1, values + 1))}]" for path in paths)
    return _with(text, "sweep", f"{{{wide}}}")


def _check_long(text: str, random_: random.Random, _others: list[str]) -> str:
    n = random_.choice((20, 99, 101, 240, 500))
    check = random_.choice(
        ("+".join(["1"] * n) + " > 1", "not " * n + "1 > 1", "(" * n + "1" + ")" * n + " > 1", "-" * n + "1 > 1")
    )
    claims = ", ".join(["*c"] * random_.choice((0, 3, 900)))
    return _with(text, "expect", f"[&c {{claim: c, check: '{check}'}}, {claims}]")


def _with(text: str, key: str, value: str) -> str:
    """``text`` with a top-level key of this value."""
    kept, skipping = [], False
    for line in text.split("\n"):
        if line[:1] not in ("", " ", "#", "-"):
            skipping = line.startswith(f"{key}:")
        if not skipping:
            kept.append(line)
    return "\n".join([*kept, f"{key}:", indent(value, "  "), ""])


_ATTACKS: tuple[Callable[[str, random.Random, list[str]], str], ...] = (
    *(_escape, _giant, _giant, _giant, _nest, _aliases),
    *(_crowd, _paths, _sweep_wide, _check_long),
)
_MUTATIONS: tuple[Callable[[str, random.Random, list[str]], str], ...] = (
    _replace_word,
    _replace_word,
    _change_number,
    _change_number,
    _change_line,
    _insert,
    _cut,
)


def run_one(data: str | bytes, changes: dict[str, str] | None = None) -> None:
    """Checks one input; raises if the parser does anything but answer."""
    from weir import _weir
    from weir._terminal import shown
    from weir.scenario import ScenarioError, parse

    problems = []
    try:
        scenario = parse(data, overrides=changes)
    except ScenarioError as e:
        problems = e.problems
    assert all(p.line >= 1 and p.column >= 1 and p.message for p in problems), "a problem without a place"
    assert not any("\n" in p.message for p in problems), "a problem of two lines"
    assert not any(c in shown(str(p)) for p in problems for c in "\x1b\x9b\x07\u202e"), "a problem that acts"
    if problems:
        assert any(p.severity == "error" for p in problems), "refused without a reason"
        return
    cells = scenario.cells()
    for cell in {id(cell): cell for cell in (cells[0], cells[-1])}.values():
        with contextlib.suppress(ScenarioError):  # the check of a very large sweep is a selection
            _weir.check_plan(json.dumps(cell.plan()))


class TooSlow(Exception):  # noqa: N818 - not an error of the input
    """An input exceeded its time limit."""


@contextlib.contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Raises ``TooSlow`` if the block takes more processor time, so that the load of the machine does not matter."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise TooSlow

    previous = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


def fuzz_randomly(runs: int, seed: int, seconds: int) -> int:
    """Applies random mutations; returns the exit code."""
    texts = corpus()
    begin = time.monotonic()
    slowest = 0.0
    for i in range(runs):
        random_ = random.Random(f"{seed}/{i}")  # each input can be reproduced alone
        text = mutate(random_.choice(texts), random_, texts)
        changes = overrides(random_)
        started = time.process_time()
        try:
            with at_most(seconds):
                run_one(text, changes)
            slowest = max(slowest, time.process_time() - started)
        except BaseException:
            traceback.print_exc()
            print(f"overrides: {changes}", file=sys.stderr)
            path = Path(f"fuzz-scenario-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:12]}.yaml")
            path.write_bytes(text.encode("utf-8", "surrogatepass"))
            print(f"run {i} of seed {seed}: input written to {path}", file=sys.stderr)
            return 1
    print(
        f"{runs} inputs, seed {seed}: no crash, none over {seconds} s (slowest {slowest:.1f} s), "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GiB at most; "
        f"{runs / (time.monotonic() - begin):.0f} a second"
    )
    return 0


def fuzz_with_atheris(runs: int, seed: int, seconds: int) -> None:
    """Applies mutations guided by coverage; does not return."""
    import atheris

    with atheris.instrument_imports(include=["weir.scenario"]):
        import weir.scenario  # noqa: F401
    texts = corpus()

    def mutator(data: bytes, max_size: int, seed_: int) -> bytes:
        random_ = random.Random(seed_)
        text = data.decode("utf-8", errors="replace") if random_.random() < 0.9 else random_.choice(texts)
        return mutate(text, random_, texts).encode("utf-8", errors="replace")[:max_size]

    folder = ROOT / "target" / "fuzz-scenario"  # the next run starts with the inputs found here
    folder.mkdir(parents=True, exist_ok=True)
    for i, text in enumerate(texts):
        (folder / str(i)).write_bytes(text.encode("utf-8", errors="replace"))
    # libFuzzer writes a failing input to the current folder, and exits with 77.
    limits = [f"-runs={runs}", f"-seed={seed}", f"-timeout={seconds}", f"-max_len={_MAX_LENGTH}"]
    atheris.Setup([sys.argv[0], *limits, "-verbosity=0", str(folder)], run_one, custom_mutator=mutator)
    atheris.Fuzz()


def main() -> int:
    """Runs the command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=4000, help="number of inputs (default 4000)")
    options.add_argument("--seed", type=int, default=1, help="seed of the mutations (default 1)")
    options.add_argument("--seconds", type=int, default=60, help="most processor time of one input (default 60)")
    options.add_argument("--gigabytes", type=int, default=8, help="most memory of all (default 8)")
    options.add_argument("--engine", choices=("auto", "atheris", "random"), default="auto")
    given = options.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (given.gigabytes << 30, given.gigabytes << 30))
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

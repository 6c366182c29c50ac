"""How well `weir switch characterise` knows switches: hidden models drawn from a seed, characterised and fitted.

    python benches/switches.py --seed 1 --trials 40
    python benches/switches.py --seed 1 --trials 40 --small    # memories of 1.6 to 40 kB

A trial draws an arbiter, a memory, and now and then hysteresis, jitter, cut-through and PAUSE. The characterisation
sees what testers at the ports see. The bench compares the fit with the hidden model: class, arbiter, memory scheme,
buffer, and the isolines of two rates.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from dataclasses import asdict

import numpy as np

from weir.study.switches import SMALL_MEMORIES, USUAL_MEMORIES, Verdict, hidden, judged


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="number of the first trial")
    parser.add_argument("--points", type=int, default=10, help="rates of either input for the isolines")
    parser.add_argument("--small", action="store_true", help="draw memories of 1.6 to 40 kB instead of 15 kB to 8 MB")
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each trial")
    asked = parser.parse_args()
    verdicts = []
    for number in range(asked.first, asked.first + asked.trials):
        draw = random.Random(f"{asked.seed}/{number}")
        words = hidden(draw, SMALL_MEMORIES if asked.small else USUAL_MEMORIES)
        verdict = judged(words, seed=draw.randrange(2**31), number=number, points=asked.points)
        verdicts.append(verdict)
        show(verdict, as_json=asked.json)
    summary(verdicts)
    return 0


def show(one: Verdict, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(asdict(one)), flush=True)
        return
    wrong = [
        word
        for word, right in (("class", one.right_class), ("arbiter", one.right_arbiter), ("memory", one.right_memory))
        if not right
    ]
    said = f"wrong: {', '.join(wrong)}" if wrong else "right"
    print(
        f"{one.number:4} {said:<22} buffer {one.buffer_error:+7.1%} size {one.size_error:+7.1%} "
        f"isolines {one.isoline_error:5.1%} {one.congested_error:5.1%} {one.seconds:5.1f} s", flush=True,
    )  # fmt: skip
    if not one.bound:
        print("     PAUSE let nothing be dropped: the memory is a lower bound and does not count", flush=True)
    if wrong or abs(one.buffer_error) > 0.1 or one.congested_error > 0.03:
        print(f"     hidden {one.hidden}\n     fitted {one.fitted}", flush=True)


def summary(verdicts: list[Verdict]) -> None:
    def share(values: list[bool]) -> str:
        return f"{sum(values)} of {len(values)} ({sum(values) / max(len(values), 1):.0%})"

    print(f"class right        {share([v.right_class for v in verdicts])}")
    print(f"arbiter right      {share([v.right_arbiter for v in verdicts])}")
    bound = [v for v in verdicts if v.bound]
    print(f"memory right       {share([v.right_memory for v in bound])}")
    for name, errors in (
        ("one queue", [v.buffer_error for v in bound]),
        ("whole", [v.size_error for v in bound]),
    ):
        within = share([abs(e) <= 0.1 for e in errors])
        print(f"buffer, {name:<10} within 10 % in {within}, median error {np.median(np.abs(errors)):.2%}")
    for name, errors in (
        ("all rates", [v.isoline_error for v in verdicts]),
        ("congested", [v.congested_error for v in verdicts]),
    ):
        within = share([e <= 0.03 for e in errors])
        print(f"isolines, {name}: median of medians {np.median(errors):.2%}; within 3 % in {within}")


if __name__ == "__main__":
    sys.exit(main())

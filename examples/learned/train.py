"""Trains the policy of `control.py` by the cross-entropy method, with NumPy and `weir.gym` only.

    pip install 'weir[gym]'
    python train.py                 # a minute; writes policy.json
    weir cc judge ./control.py

The method draws weights from a normal distribution, plays an episode on each path with all of them, and moves the
distribution to the best (Rubinstein and Kroese, "The Cross-Entropy Method", Springer 2004).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from control import FEATURES, exponent

from weir.gym import WeirEnv

HERE = Path(__file__).parent
PATHS = (
    {"topology.dumbbell.bottleneck.rate": "10Mbps", "topology.dumbbell.rtt": "20ms"},
    {"topology.dumbbell.bottleneck.rate": "20Mbps", "topology.dumbbell.rtt": "80ms"},
    {"topology.dumbbell.bottleneck.rate": "50Mbps", "topology.dumbbell.bottleneck.queue": "0.2bdp"},
)
"""The paths of the training: changes of `path.yaml`."""


def played(env: WeirEnv, weights: Sequence[float], seed: int) -> float:
    """The mean reward of an episode with these weights."""
    _, info = env.reset(seed=seed)
    rewards = []
    ended = False
    while not ended:
        first = info["report"].first
        action = 0.0 if first else exponent(weights, info["report"])
        _, reward, terminated, truncated, info = env.step(np.array([action], np.float32))
        rewards.append(float(reward))
        ended = terminated or truncated
    return float(np.mean(rewards))


def trained(*, iterations: int, population: int, seed: int, say: bool = True) -> tuple[list[float], list[float]]:
    """The weights, and the mean reward of the best quarter in each iteration."""
    draws = np.random.default_rng(seed)
    mean, spread = np.zeros(len(FEATURES)), np.ones(len(FEATURES))
    best = max(2, population // 4)
    history = []
    with contextlib.ExitStack() as stack:
        envs = [stack.enter_context(contextlib.closing(WeirEnv(HERE / "path.yaml", set=path))) for path in PATHS]
        for iteration in range(iterations):
            drawn = mean + spread * draws.standard_normal((population, len(FEATURES)))
            rewards = [np.mean([played(env, weights, iteration) for env in envs]) for weights in drawn]
            elite = drawn[np.argsort(rewards)[-best:]]
            mean, spread = elite.mean(axis=0), elite.std(axis=0) + 0.05
            history.append(float(np.sort(rewards)[-best:].mean()))
            if say:
                print(f"iteration {iteration + 1}: reward of the best {best}: {history[-1]:.3f}", flush=True)
    return mean.tolist(), history


def main() -> None:
    """Trains and saves."""
    asked = argparse.ArgumentParser(description="Trains the policy of control.py.")
    asked.add_argument("--iterations", type=int, default=12)
    asked.add_argument("--population", type=int, default=16)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--out", type=Path, default=HERE / "policy.json")
    given = asked.parse_args()
    begin = time.monotonic()
    weights, history = trained(iterations=given.iterations, population=given.population, seed=given.seed)
    saved = {"weights": dict(zip(FEATURES, weights, strict=True)), "rewards": history}
    given.out.write_text(json.dumps(saved, indent=2) + "\n", encoding="utf-8")
    print(f"{given.out}: {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()

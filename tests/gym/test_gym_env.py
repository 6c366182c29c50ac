"""``weir.gym``: an agent is the congestion control of one flow."""

from __future__ import annotations

import gc
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("gymnasium", reason="needs the extra weir[gym]")

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import check_env

import weir
from shared import ROOT, dumbbell
from weir.control import AnswerError, Report
from weir.gym import OBSERVED, EpisodeError, WeirEnv

ONE = "name: flow, between: pairs, kind: bulk, until: 2s"
LEARNED = ROOT / "examples" / "learned"


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No thread outlives a test."""
    yield
    gc.collect()
    assert [thread.name for thread in threading.enumerate() if thread.name == "weir-episode"] == []


@pytest.fixture
def one(tmp_path: Path) -> Path:
    """A scenario with one flow."""
    path = tmp_path / "one.yaml"
    path.write_text(dumbbell(pairs=1, workload=ONE))
    return path


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A scenario with two flows."""
    path = tmp_path / "two.yaml"
    path.write_text(dumbbell())
    return path


def episode(env: WeirEnv, actions: Any, seed: int | None = None) -> list[tuple[Any, ...]]:
    """What every step returned."""
    observation, info = env.reset(seed=seed)
    steps: list[tuple[Any, ...]] = [(observation, 0.0, info["report"])]
    for action in actions:
        observation, reward, terminated, truncated, info = env.step(np.array([action], np.float32))
        steps.append((observation, reward, info["report"]))
        if terminated or truncated:
            break
    return steps


def test_it_is_an_environment(one: Path) -> None:
    env = WeirEnv(one)
    check_env(env, skip_render_check=True)
    env.close()


def test_an_episode_is_a_run_and_a_step_a_round_trip(one: Path) -> None:
    env = WeirEnv(one)
    observation, info = env.reset(seed=3)
    assert observation.shape == (len(OBSERVED),)
    assert info["report"].first
    assert info["report"].window_packets == 10
    reports: list[Report] = []
    truncated = False
    while not truncated:
        _, reward, terminated, truncated, info = env.step(np.zeros(1, np.float32))
        assert not terminated
        assert np.isfinite(reward)
        reports.append(info["report"])
    inside = reports[2:-1]
    assert 1.5 < inside[-1].time_s <= 2.0
    assert all(report.window_packets == 10 for report in inside)
    for report in inside:
        assert report.rtt_mean_s is not None
        assert report.interval_s == pytest.approx(report.rtt_mean_s, rel=0.25)
        assert report.acked_packets == pytest.approx(10, abs=2)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(np.zeros(1, np.float32))


def test_an_action_multiplies_the_window(one: Path) -> None:
    env = WeirEnv(one)
    windows = [report.window_packets for _, _, report in episode(env, [1.0, -1.0, 0.5, 0.5, -1.0, -1.0, -1.0, -1.0])]
    env.close()
    assert windows == [10, 20, 10, 14, 20, 10, 5, 3, 2]


def test_small_actions_add_up(one: Path) -> None:
    env = WeirEnv(one)
    last = episode(env, [0.05] * 40)[-1][2]
    env.close()
    assert last.window_packets == pytest.approx(40, abs=1)


def test_the_seed_decides_the_episode_and_is_the_scenarios(two: Path) -> None:
    env = WeirEnv(two, flow="flows[0]", set={"topology.dumbbell.bottleneck.loss": "1%"})
    actions = [0.3, -0.1] * 20
    runs = [episode(env, actions, seed) for seed in (7, 7, 8)]
    env.close()
    assert [step[2] for step in runs[0]] == [step[2] for step in runs[1]]
    assert [step[2] for step in runs[0]] != [step[2] for step in runs[2]]


def test_a_step_takes_an_interval_if_one_is_given(one: Path) -> None:
    env = WeirEnv(one, interval=0.1)
    reports = [report for _, _, report in episode(env, [0.0] * 10)]
    env.close()
    for report in reports[1:]:
        assert 0.1 <= report.interval_s < 0.13
    with pytest.raises(ValueError, match="interval is 0; expected 'rtt', or seconds"):
        WeirEnv(one, interval=0)


def test_the_reward_is_the_users(one: Path) -> None:
    env = WeirEnv(one, reward=lambda report: report.window_packets * 2)
    assert [reward for _, reward, _ in episode(env, [0.0, 1.0])] == [0.0, 20.0, 40.0]
    env.close()


def test_the_default_reward_prefers_a_full_path_without_a_queue(one: Path) -> None:
    """The BDP is 8.6 packets of 1538 bytes on the wire."""
    env = WeirEnv(one)
    total = {}
    for window in (3, 8, 30):
        actions = [
            np.clip(np.log2(window / 10), -1, 1),
            np.clip(np.log2(window / 10), -2, 2) - np.clip(np.log2(window / 10), -1, 1),
        ]
        total[window] = np.mean([reward for _, reward, _ in episode(env, [*actions, *[0.0] * 20])[4:]])
    env.close()
    assert total[8] > total[3]
    assert total[8] > total[30]


def test_a_reward_that_raises_leaves_nothing_behind(one: Path) -> None:
    def broken(report: Report) -> float:
        raise ZeroDivisionError

    env = WeirEnv(one, reward=broken)
    env.reset()
    with pytest.raises(ZeroDivisionError):
        env.step(np.zeros(1, np.float32))
    del env


def test_it_may_end_in_the_middle_of_an_episode(one: Path) -> None:
    env = WeirEnv(one)
    for _ in range(3):
        episode(env, [0.1, 0.2])
    env.close()
    env.close()
    forgotten = WeirEnv(one)
    forgotten.reset()
    del forgotten


def test_a_process_that_ends_waits_for_nothing(one: Path) -> None:
    code = f"from weir.gym import WeirEnv; env = WeirEnv({str(one)!r}); env.reset()"
    done = subprocess.run([sys.executable, "-c", code], timeout=60, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_mistakes_are_told(one: Path, two: Path, tmp_path: Path) -> None:
    with pytest.raises(EpisodeError, match=r"name the agent's flow with `flow`: there are flows\[0\], flows\[1\]"):
        WeirEnv(two)
    with pytest.raises(EpisodeError, match="there is no flow 'x' over TCP; there are flow"):
        WeirEnv(one, flow="x")
    with pytest.raises(EpisodeError, match="has 1 cells; expected a number below, not 4"):
        WeirEnv(one, cell=4)
    env = WeirEnv(one)
    env.reset()
    with pytest.raises(AnswerError, match="the action is nan"):
        env.step(np.array([np.nan], np.float32))
    env.close()
    (tmp_path / "mine.py").write_text((ROOT / "examples" / "my_cc" / "my_cc.py").read_text())
    with pytest.raises(EpisodeError, match="only a confined process executes it"):
        WeirEnv(two, flow="flows[0]", set={"transport.cc": str(tmp_path / "mine.py")})


def test_without_gymnasium_it_says_how_to_install_it() -> None:
    code = "import sys; sys.modules['gymnasium'] = None; import weir.gym"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert "ImportError: weir.gym needs the package gymnasium: pip install 'weir[gym]'" in done.stderr


def test_the_example_of_the_document_runs(two: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(two.parent)
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    (block,) = [code for code in re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S) if "WeirEnv" in code]
    exec(block, {})
    assert float(capsys.readouterr().out) > 0


def test_the_document_lists_what_an_agent_sees() -> None:
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d), `(\w+)` \|", text, re.M)
    assert rows == [(str(place), name) for place, name in enumerate(OBSERVED)]


def test_training_improves_and_the_saved_policy_is_a_control(tmp_path: Path) -> None:
    for name in ("control.py", "train.py", "path.yaml"):
        (tmp_path / name).write_text((LEARNED / name).read_text(encoding="utf-8"))
    command = [sys.executable, "train.py", "--iterations", "2", "--population", "4", "--seed", "1"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    saved = json.loads((tmp_path / "policy.json").read_text())
    assert saved["rewards"][1] > saved["rewards"][0]
    run = weir.execute(
        tmp_path / "path.yaml", tmp_path / "run", method="sim", set={"transport.cc": str(tmp_path / "control.py")}
    )
    assert run.metrics("utilisation")["value"][0] > 0.1


def test_the_policy_that_comes_with_weir_uses_the_path_without_a_long_queue(tmp_path: Path) -> None:
    control = os.fspath(LEARNED / "control.py")
    text = (LEARNED / "path.yaml").read_text(encoding="utf-8")
    (tmp_path / "s.yaml").write_text(f"{text}sweep: {{transport.cc: [reno, {control}]}}\n", encoding="utf-8")
    run = weir.execute(tmp_path / "s.yaml", tmp_path / "run", method="sim")
    found = dict(zip(*[run.metrics("utilisation")[column].to_list() for column in ("cc", "value")], strict=True))
    mine = next(value for name, value in found.items() if name != "reno")
    assert mine > 0.85 * found["reno"]
    delay = run.metrics("queue.delay")["value"].to_list()
    assert delay[1] < delay[0]

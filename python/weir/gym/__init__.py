"""A Gymnasium environment around any scenario: an agent is the congestion control of one flow, in the simulator.

    env = WeirEnv("dumbbell.yaml", flow="flows[0]", set={"transport.cc": "cubic"})
    observation, info = env.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
    env.close()

``docs/python.md`` has the details. It needs the package gymnasium: ``pip install 'weir[gym]'``.
"""

from __future__ import annotations

try:
    import gymnasium as _gymnasium  # noqa: F401
except ImportError:
    raise ImportError("weir.gym needs the package gymnasium: pip install 'weir[gym]'") from None

from weir.gym._env import OBSERVED, WeirEnv
from weir.gym._episode import EpisodeError

__all__ = ["OBSERVED", "EpisodeError", "WeirEnv"]

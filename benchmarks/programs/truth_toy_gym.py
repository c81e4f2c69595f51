"""A stand-in for the old ``gym``: one environment whose episodes end after 20 steps."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np

SIZE, ACTIONS, LENGTH = 6, 2, 20


class Environment:
    """Random states; the interface of gym before 0.26 (``step`` returns four values)."""

    _max_episode_steps = LENGTH
    observation_space = SimpleNamespace(shape=(SIZE,))

    def __init__(self) -> None:
        self.rng, self.left = np.random.default_rng(0), 0
        self.action_space = SimpleNamespace(
            shape=(ACTIONS,),
            n=ACTIONS,
            high=np.ones(ACTIONS, np.float32),
            low=-np.ones(ACTIONS, np.float32),
            sample=lambda: self.rng.uniform(-1, 1, ACTIONS).astype(np.float32),
            seed=lambda _: None,
        )

    def seed(self, _: int) -> None:
        """Do nothing: the states are drawn from a fixed seed."""

    def reset(self) -> np.ndarray:
        """Begin an episode."""
        self.left = LENGTH
        return self.rng.normal(size=SIZE).astype(np.float32)

    def step(self, _: object) -> tuple[np.ndarray, float, bool, dict[str, object]]:
        """Return the next state, the reward and whether the episode is over."""
        self.left -= 1
        state = self.rng.normal(size=SIZE).astype(np.float32)
        return state, float(self.rng.normal()), self.left <= 0, {}

    def close(self) -> None:
        """Do nothing."""


def install(*others: str) -> None:
    """Put the stand-in, and empty modules of other names, in the place of the packages."""
    gym = ModuleType("gym")
    gym.make = lambda *_, **__: Environment()  # type: ignore[attr-defined]
    sys.modules["gym"] = gym
    for other in others:
        sys.modules[other] = ModuleType(other)

"""A short pendulum for seungju-k1m/sac-td3-td7: TD7 and TD3 learn for some steps."""

import sys
from unittest import mock

import gymnasium
import torch

for name in ("click", "click_repl"):
    sys.modules[name] = mock.MagicMock()
from rl.agent import run_td3, run_td7, td3  # noqa: E402


class OnTheGPU(td3.TD3):
    """The agent that its own runner leaves on the host."""

    def __init__(self, *args: object, **words: object) -> None:
        super().__init__(*args, **words)
        self.to(torch.device("cuda"))


td3.TD3 = OnTheGPU

gymnasium.register(
    "ShortPendulum-v0",
    entry_point="gymnasium.envs.classic_control:PendulumEnv",
    max_episode_steps=20,
)
common = {
    "env_id": "ShortPendulum-v0",
    "replay_buffer_size": 1000,
    "record_video": False,
    "use_gpu": True,
    "n_initial_exploration_steps": 32,  # TD3's
    "n_inital_exploration_steps": 32,  # TD7's
    "n_iteration": 30,
    "batch_size": 8,
    "eval_period": 20,
}
run_td7("td7", **common)
run_td3("td3", **common)

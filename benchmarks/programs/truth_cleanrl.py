"""A short pendulum and cart for vwxyzjn/cleanrl: its PPO for continuous actions and its DQN."""

import os
import runpy
import sys
from types import ModuleType
from unittest import mock

import gymnasium

words: dict[str, object] = {}
tyro = ModuleType("tyro")
tyro.cli = lambda arguments: arguments(**words)  # type: ignore[attr-defined]
sys.modules["tyro"] = tyro
sys.modules["torch.utils.tensorboard"] = mock.MagicMock()
for name, environment in (("Pendulum", "pendulum:PendulumEnv"), ("Cart", "cartpole:CartPoleEnv")):
    gymnasium.register(
        f"Short{name}-v0",
        entry_point=f"gymnasium.envs.classic_control.{environment}",
        max_episode_steps=20,
    )
sys.path.insert(0, os.getcwd())
words.update(
    env_id="ShortPendulum-v0",
    total_timesteps=128,
    num_steps=32,
    num_minibatches=4,
    update_epochs=2,
)
runpy.run_module("cleanrl.ppo_continuous_action", run_name="__main__")
words.clear()
words.update(
    env_id="ShortCart-v0",
    total_timesteps=240,
    buffer_size=200,
    batch_size=8,
    learning_starts=40,
    train_frequency=2,
    target_network_frequency=20,
)
runpy.run_module("cleanrl.dqn", run_name="__main__")

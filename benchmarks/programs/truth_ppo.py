"""A toy environment for nikhilbarhate99/PPO-PyTorch: its agent plays 300 steps and learns thrice.

``train.py`` sets its sizes in its function; the loop here is the one of that file made small.
"""

import truth_toy_gym

truth_toy_gym.install("roboschool")

import gym  # noqa: E402
from PPO import PPO  # noqa: E402

for continuous in (True, False):
    env = gym.make("toy")
    agent = PPO(6, 2, 0.0003, 0.001, 0.99, 4, 0.2, continuous, 0.6)
    state = env.reset()
    for step in range(1, 301):
        state, reward, done, _ = env.step(agent.select_action(state))
        agent.buffer.rewards.append(reward)
        agent.buffer.is_terminals.append(done)
        if step % 100 == 0:
            agent.update()
            if continuous:
                agent.decay_action_std(0.05, 0.1)
        if done:
            state = env.reset()

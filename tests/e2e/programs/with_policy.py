"""A2C of Stable-Baselines3, and how long each of its steps takes by its own clock."""

from __future__ import annotations

import time

import gymnasium
from stable_baselines3 import A2C

STEPS, ROLLOUT = 40, 5


def main() -> None:
    model = A2C("MlpPolicy", gymnasium.make("CartPole-v1"), device="cuda", n_steps=ROLLOUT)
    model.learn(ROLLOUT)
    begin_s = time.perf_counter()
    model.learn(ROLLOUT * STEPS)
    print(f"step {(time.perf_counter() - begin_s) / STEPS:.9f} s")


if __name__ == "__main__":
    main()

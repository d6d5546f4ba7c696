"""Steps of one of the trainings of `trainings.py`, each between two marks, to be counted.

phantora run --ranks 1 --host-time measured --host-samples -- python training_steps.py NAME
"""

from __future__ import annotations

import sys

import torch
from trainings import ALL_CASES, WARM

import phantora_py

STEPS = 6


def main() -> None:
    torch.manual_seed(0)
    with torch.device("cuda"):
        step = ALL_CASES[sys.argv[1]]()
    for _ in range(WARM):
        step()
    phantora_py.mark_iteration()
    for _ in range(STEPS):
        step()
        phantora_py.mark_iteration()


if __name__ == "__main__":
    main()

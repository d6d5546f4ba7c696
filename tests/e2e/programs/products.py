"""Multiplies square matrices, STEPS times. Argument: their size."""

from __future__ import annotations

import os
import sys

import torch

import phantora_py


def main() -> None:
    size = int(sys.argv[1])
    left = torch.ones(size, size, device="cuda", dtype=torch.bfloat16)
    for _ in range(int(os.environ["STEPS"])):
        left @ left
        phantora_py.mark_iteration()
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()

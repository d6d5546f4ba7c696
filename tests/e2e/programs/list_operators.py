"""Operators on lists, which phantora has kernels of its own for. Prints how many
tensors Python got of PyTorch, new ones and such as it had.

    list_operators.py STEPS [GARBAGE]

With GARBAGE the interpreter collects garbage all the time.
"""

import gc
import json
import sys

import torch

LENGTH = 50


def main() -> None:
    steps, collects = int(sys.argv[1]), "GARBAGE" in sys.argv
    unknown = [torch.randn(300, 300, device="cuda") for _ in range(LENGTH)]
    known = [torch.ones(8, device="cuda") for _ in range(LENGTH)]
    if collects:
        gc.set_threshold(1)
    for _ in range(steps):
        torch._foreach_mul_(unknown, 0.5)
        torch._foreach_mul_(known, 0.5)
        torch._foreach_add_(unknown, unknown)
        torch._foreach_sqrt(unknown)
        unknown[0].mul_(0.5)  # which Python gets back, as it has it
    torch.cuda.synchronize()
    print(json.dumps({"wrap": 2 * LENGTH + steps * LENGTH, "rewrap": steps}))


if __name__ == "__main__":
    main()

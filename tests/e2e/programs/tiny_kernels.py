"""Iterations of many kernels that are shorter than their launch, each iteration ended by a wait."""

import sys

import torch

import phantora_py


def main() -> None:
    launches, iterations = map(int, sys.argv[1:])
    values = torch.zeros(64, device="cuda")
    torch.cuda.synchronize()
    for _ in range(iterations):
        for _ in range(launches):
            values.add_(1)
        torch.cuda.synchronize()
        phantora_py.mark_iteration()


if __name__ == "__main__":
    main()

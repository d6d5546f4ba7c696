"""The script of host_time.py: twelve iterations of 500 small kernels and some work in Python."""

import torch

import phantora_py

ITERATIONS, LAUNCHES, SUM = 12, 500, 20_000


def main() -> None:
    values = torch.zeros(64, device="cuda")
    for _ in range(ITERATIONS):
        for _ in range(LAUNCHES):
            values.add_(1)
        sum(number * number for number in range(SUM))
        torch.cuda.synchronize()
        phantora_py.mark_iteration()


if __name__ == "__main__":
    main()

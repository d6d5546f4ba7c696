"""Prints how many known tensors are forgotten beside operators whose result has as many elements as
values say that nobody knows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch

KEPT = 8
HOST = [torch.arange(1, 4097) + number for number in range(KEPT)]
SCORES = (torch.randn(512, 4, device="cuda") @ torch.randn(4, 4, device="cuda")).reshape(-1)
LARGE = SCORES.repeat(1024)  # More than is carried out on the CPU.
OPERATORS: dict[str, Callable[[], object]] = {
    "nonzero": lambda: torch.where(SCORES[1:] - SCORES[:-1]),
    "nonzero of many": lambda: torch.nonzero(LARGE),
    "mask": lambda: SCORES[SCORES > 0],
    "unique": lambda: torch.unique(SCORES),
    "unique_consecutive": lambda: torch.unique_consecutive(SCORES),
    "unique_dim": lambda: torch.unique(SCORES.view(-1, 4), dim=0),
    "bincount": lambda: torch.bincount(SCORES.long()),
}
# What was done before leaves addresses of its tensors on the stack.
MAKERS: list[Callable[[list[torch.Tensor]], list[torch.Tensor]]] = [
    lambda _: [one.cuda() for one in HOST],
    lambda known: [one.clone() for one in known],
    lambda known: [torch.cat([one, one]) for one in known],
    lambda known: [one.sort()[0] for one in known],
    lambda known: [one[one > 0] for one in known],
    lambda known: [torch.unique(one) for one in known],
    lambda known: [torch.cumsum(one, 0) for one in known],
]


def main() -> None:
    lost = 0
    for make, operator in itertools.product(MAKERS, OPERATORS.values()):
        uploaded = [one.cuda() for one in HOST]
        made = make(uploaded)
        operator()
        lost += sum(not bool(one.cpu().any()) for one in uploaded + made)
    print(f"lost {lost}")


if __name__ == "__main__":
    main()

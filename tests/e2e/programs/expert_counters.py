"""A mixture of experts that counts its tokens per expert. Argument: in which way."""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch

EXPERTS, TOP, TOKENS, WIDTH, STEPS = 8, 2, 16384, 4096, 3


def by_scatter(chosen: torch.Tensor) -> torch.Tensor:
    counts = torch.zeros(EXPERTS, dtype=torch.int64, device=chosen.device)
    return counts.scatter_add_(0, chosen, torch.ones_like(chosen))


def by_unique(chosen: torch.Tensor) -> torch.Tensor:
    present, found = torch.unique(chosen, return_counts=True)
    counts = torch.zeros(EXPERTS, dtype=torch.int64, device=chosen.device)
    counts[present] = found
    return counts


COUNTERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "bincount": lambda chosen: chosen.bincount(minlength=EXPERTS),
    "scatter_add": by_scatter,
    "one_hot": lambda chosen: torch.nn.functional.one_hot(chosen, EXPERTS).sum(0),
    "histc": lambda chosen: chosen.histc(bins=EXPERTS, min=0, max=EXPERTS - 1),
    "unique": by_unique,
    "compare": lambda chosen: torch.stack([(chosen == one).sum() for one in range(EXPERTS)]),
}


def main() -> None:
    count = COUNTERS[sys.argv[1]]
    router = torch.nn.Linear(WIDTH, EXPERTS, device="cuda")
    experts = [torch.nn.Linear(WIDTH, WIDTH, device="cuda") for _ in range(EXPERTS)]
    parameters = [one for layer in (router, *experts) for one in layer.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    tokens = torch.randn(TOKENS, WIDTH, device="cuda")
    for _ in range(STEPS):
        weights, chosen = router(tokens).softmax(-1).topk(TOP)
        order = chosen.flatten().argsort(stable=True)
        sizes = [int(size) for size in count(chosen.flatten()).tolist()]
        print(f"sizes {sizes}", flush=True)
        parts = tokens.repeat_interleave(TOP, 0)[order].split(sizes)
        results = [layer(part) for layer, part in zip(experts, parts, strict=True) if len(part)]
        loss = (torch.cat(results) * weights.flatten()[order, None]).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()

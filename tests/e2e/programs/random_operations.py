"""Random numbers of CUDA generators, as a program reads them back: JSON in lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn.functional import dropout

DEVICE = "cuda"
FLOAT, DOUBLE, HALF, BRAIN = torch.float32, torch.float64, torch.float16, torch.bfloat16
CHANCES = [0.1, 0.2, 0.3, 0.4]
COUNTS = (1, 7, 8, 16, 300)


def empty(count: int, dtype: torch.dtype = FLOAT) -> torch.Tensor:
    return torch.empty(count, device=DEVICE, dtype=dtype)


def chances(*shape: int) -> torch.Tensor:
    return torch.tensor(CHANCES, device=DEVICE).expand(*shape, 4).contiguous()


def dropped(count: int, chance: float, dtype: torch.dtype) -> torch.Tensor:
    return dropout(torch.ones(count, device=DEVICE, dtype=dtype), chance)


def of_a_graph() -> torch.Tensor:
    tensor = empty(5)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tensor.uniform_()
    graph.replay()
    return tensor


def random_generator() -> torch.Generator:
    generator = torch.Generator(DEVICE)
    generator.seed()
    return generator


DRAWS: dict[str, Callable[[], torch.Tensor]] = {
    "uniform": lambda: torch.rand(40, device=DEVICE),
    "uniform again": lambda: torch.rand(4, device=DEVICE),
    "uniform double": lambda: torch.rand(9, device=DEVICE, dtype=DOUBLE),
    "uniform half": lambda: torch.rand(9, device=DEVICE, dtype=HALF),
    "uniform bfloat16": lambda: torch.rand(9, device=DEVICE, dtype=BRAIN),
    "uniform from -1": lambda: empty(9).uniform_(-1, 1),
    "uniform to 0.3": lambda: empty(9).uniform_(0, 0.3),
    "integers": lambda: torch.randint(100, (2, 3, 4), device=DEVICE, dtype=torch.int32),
    "integers below 3": lambda: torch.randint(3, (2, 3), device=DEVICE, dtype=torch.int32),
    "integers from -5": lambda: torch.randint(-5, 5, (9,), device=DEVICE),
    "large integers": lambda: torch.randint(1 << 40, (9,), device=DEVICE),
    # An H100 holds 132 x 2048 threads at once.
    "second round": lambda: torch.randint(100, (132 * 2048 + 5,), device=DEVICE)[-5:],
    "all bytes": lambda: empty(9, torch.uint8).random_(),
    "all integers": lambda: empty(9, torch.int64).random_(),
    "flags": lambda: empty(300).bernoulli_(0.3),
    "flags by element": lambda: torch.bernoulli(chances(3)),
    "choices": lambda: torch.multinomial(chances(), 3),
    "a choice each": lambda: torch.multinomial(chances(5), 1),
    "choices again and again": lambda: torch.multinomial(chances(3), 5, replacement=True),
    **{f"order of {n}": partial(torch.randperm, n, device=DEVICE) for n in (1, 5, 10, 200)},
    **{f"dropout of {n}": partial(dropped, n, 0.5, FLOAT) for n in COUNTS},
    **{f"dropout of {n} halves": partial(dropped, n, 0.2, HALF) for n in COUNTS},
    **{f"dropout of {n} doubles": partial(dropped, n, 0.2, DOUBLE) for n in COUNTS},
}
# What is not exact, or not known on the host.
UNKNOWN: dict[str, Callable[[], torch.Tensor]] = {
    "normal": lambda: torch.randn(5, device=DEVICE),
    "exponential": lambda: empty(5).exponential_(),
    "fused or not": lambda: empty(5).uniform_(-0.3, 0.3),
    "of a graph": of_a_graph,
}
# Where a generator's seed comes from the machine.
SEEDS: dict[str, Callable[[], object]] = {
    "unseeded": lambda: None,
    "after seed": torch.seed,
    "after cuda.seed": torch.cuda.seed,
    "of a random generator": random_generator,
}


def say(name: str, found: Any) -> None:
    print(json.dumps([name, found]), flush=True)


def main() -> None:
    torch.cuda.init()
    for name, seed in SEEDS.items():
        generator = seed()
        if not isinstance(generator, torch.Generator):
            generator = torch.cuda.default_generators[0]
        draw = torch.rand(3, device=DEVICE, generator=generator)
        say(name, [generator.initial_seed(), draw.tolist()])
    for name, draw in DRAWS.items():
        if name != "uniform again":
            torch.manual_seed(0)
        say(name, draw().tolist())
    torch.manual_seed(0)
    say("integers", torch.randint(100, (2, 3), device=DEVICE, dtype=torch.int32).tolist())
    say("integers below 3", torch.randint(3, (2, 3), device=DEVICE, dtype=torch.int32).tolist())
    torch.manual_seed(42)
    say("order of 10, two equal keys", torch.randperm(10, device=DEVICE).tolist())
    for name, draw in UNKNOWN.items():
        say(name, draw().tolist())
    torch.manual_seed(0)
    say("seeded again", torch.rand(3, device=DEVICE).tolist())
    try:
        torch.rand(3, device=DEVICE, generator=torch.Generator())
    except RuntimeError as error:
        say("the CPU's generator", str(error))
    generator = torch.Generator(DEVICE)
    generator.manual_seed(0)
    say("own generator", torch.rand(3, device=DEVICE, generator=generator).tolist())


if __name__ == "__main__":
    main()

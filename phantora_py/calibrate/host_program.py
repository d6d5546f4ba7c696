"""The program of `phantora calibrate-host`: pieces of a host's work, each between two marks.

Each piece is mostly of one kind, so that the times of all tell those of the kinds apart. It is
short, and comes again only after all others: in a training program, too, what runs has not just run
a hundred times, and half of its time is that of cold caches. Nobody knows the values of its
tensors: so none are computed, which would be no work of the program's. None of the pieces is a
program by which the model is judged (benchmarks/host_time_counted.py).
"""

from __future__ import annotations

import gc
import importlib
import json
import os
from collections.abc import Callable, Iterator
from typing import Any

ROUNDS = 80
FIRST_ROUNDS = 5
"""Do not count: what happens once happens in them."""
CALLS = 60
"""Of the piece `calls`."""


def plain(value: int) -> int:
    """A Python function that does next to nothing."""
    return value


def call_plain(times: int = CALLS) -> None:
    """Calls of it."""
    for index in range(times):
        plain(index)


class _Node:
    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.scale = 3
        self.below = _Node(depth - 1) if depth else None

    def visit(self, value: int) -> int:
        """A method with some attributes, conditions and arithmetic."""
        found = value * self.scale + self.depth
        if found % 2:
            found -= self.scale
        elif found > 1 << 20:
            found >>= 3
        if self.below is not None:
            return self.below.visit(found)
        return found


def _walk_objects() -> None:
    root = _Node(10)
    for index in range(2):
        root.visit(index)


def _build_arguments() -> None:
    def merge(*args: Any, **options: Any) -> dict[str, Any]:
        return {"args": args, **options}

    for index in range(8):
        merge(index, index + 1, name="x", other=[index], more=(1, 2))


def _generate() -> None:
    def numbers(count: int) -> Iterator[int]:
        for index in range(count):
            yield index * 2

    for _ in range(2):
        sum(number for number in numbers(10))


def pieces(torch: Any) -> dict[str, Callable[[], None]]:
    """By name, in the order in which they run. The first is what all others are beside theirs."""
    return {
        "nothing": lambda: None,
        "calls": call_plain,
        "objects": _walk_objects,
        "arguments": _build_arguments,
        "generators": _generate,
        **_operators(torch),
        **_modules(torch),
        **_training(torch),
        **_calls(torch),
    }


def _operators(torch: Any) -> dict[str, Callable[[], None]]:
    cuda = torch.device("cuda")
    small, other = torch.empty(64, 64, device=cuda), torch.empty(64, 64, device=cuda)
    vector = torch.empty(64, device=cuda)
    leaf = torch.nn.Parameter(torch.empty(64, device=cuda))
    leaf.grad = torch.empty_like(leaf)

    def times(count: int, act: Callable[[], object]) -> Callable[[], None]:
        def repeat() -> None:
            for _ in range(count):
                act()

        return repeat

    return {
        "in place": times(4, lambda: small.add_(1)),
        "out of place": times(4, lambda: small + other),
        "reduce": times(4, small.sum),
        "softmax": times(4, lambda: torch.softmax(small, -1)),
        "product": times(4, lambda: small @ other),
        "views": times(6, small.t),
        "slices": times(6, lambda: small[3:7]),
        "reshapes": times(6, lambda: small.view(-1, 32)),
        "empty": times(6, lambda: torch.empty(64, device=cuda)),
        "concatenate": times(4, lambda: torch.cat([small, other])),
        "split": times(4, lambda: small.split(16)),
        "norm": times(4, lambda: torch.nn.functional.layer_norm(small, (64,), vector, vector)),
        "lists": times(2, lambda: torch._foreach_mul_([small] * 20, 1.0)),
        "given again": times(20, lambda: leaf.grad),
    }


def _modules(torch: Any) -> dict[str, Callable[[], None]]:
    nn = torch.nn
    identity = nn.Sequential(*[nn.Identity() for _ in range(20)])
    linear = nn.Linear(64, 64, device="cuda")
    inputs = torch.empty(8, 64, device="cuda")

    def run_identity() -> None:
        identity(inputs)

    def run_linear() -> None:
        with torch.no_grad():
            for _ in range(4):
                linear(inputs)

    def look_up() -> None:
        for _ in range(20):
            linear.weight  # noqa: B018 - through Module.__getattr__

    return {"modules": run_identity, "linear": run_linear, "parameters": look_up}


def _training(torch: Any) -> dict[str, Callable[[], None]]:
    nn = torch.nn
    parameters = [nn.Parameter(torch.empty(64, 64, device="cuda")) for _ in range(8)]
    for one in parameters:
        one.grad = torch.empty_like(one)
    layers = nn.Sequential(*[nn.Linear(64, 64, device="cuda") for _ in range(8)])
    inputs = torch.empty(8, 64, device="cuda")
    leaf = torch.empty(64, device="cuda", requires_grad=True)
    loop = torch.optim.SGD(parameters, lr=0.1, foreach=False)
    lists = torch.optim.SGD(parameters, lr=0.1, foreach=True)

    def backward_of_sums() -> None:
        value = leaf
        for _ in range(8):
            value = value * 1.5
        value.sum().backward()

    def backward_of_layers() -> None:
        layers(inputs).sum().backward()

    return {
        "backward of products": backward_of_sums,
        "backward of layers": backward_of_layers,
        "optimizer loop": loop.step,
        "optimizer lists": lists.step,
    }


def _calls(torch: Any) -> dict[str, Callable[[], None]]:
    cuda = torch.cuda
    source, target = torch.empty(64, device="cuda"), torch.empty(64, device="cuda")
    host = torch.empty(64, pin_memory=True)
    event, side = cuda.Event(), cuda.Stream()

    def copy() -> None:
        for _ in range(4):
            target.copy_(source)

    def upload() -> None:
        for _ in range(4):
            target.copy_(host, non_blocking=True)

    def record() -> None:
        for _ in range(4):
            event.record()

    def synchronise() -> None:
        for _ in range(2):
            cuda.synchronize()

    def switch() -> None:
        for _ in range(4):
            with cuda.stream(side):
                source.add_(1)

    def reduce() -> None:
        for _ in range(2):
            torch.distributed.all_reduce(source)

    return {
        **{"copies": copy, "uploads": upload, "events": record, "waits": synchronise},
        **{"streams": switch, "collectives": reduce},
    }


def main() -> None:
    """All pieces, in rounds, after a line with their names. Who only wants some Python to run does
    without PyTorch.
    """
    torch, phantora = importlib.import_module("torch"), importlib.import_module("phantora_py")
    os.environ.setdefault("MASTER_ADDR", "localhost")
    torch.distributed.init_process_group("nccl")
    named = pieces(torch)
    print(json.dumps(list(named)))
    parts = list(named.values())
    gc.disable()
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        phantora.mark_iteration()
        for part in parts:
            part()
            phantora.mark_iteration()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()

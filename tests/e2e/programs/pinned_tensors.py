"""Tensors of the device that lie in pinned host memory, which the host reads without a call."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch


def on_device(host: torch.Tensor) -> torch.Tensor:
    interface = {
        "shape": tuple(host.shape),
        "typestr": "<i8",
        "data": (host.data_ptr(), False),
        "version": 3,
    }
    return torch.as_tensor(SimpleNamespace(__cuda_array_interface__=interface), device="cuda")


def index(into: torch.Tensor, numbers: torch.Tensor) -> None:
    torch.index_select(numbers, 0, numbers.flip(0), out=into)


STEPS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "fill": lambda into, numbers: into.fill_(4),
    "add": lambda into, numbers: torch.add(numbers, 1, out=into),
    "rows": lambda into, numbers: into[::2].copy_(numbers[:4]),
    "cat": lambda into, numbers: torch.cat([numbers[4:], numbers[:4]], out=into),
    "index": index,
    "mask": lambda into, numbers: into.masked_fill_(numbers > 3, 9),
    "list": lambda into, numbers: torch._foreach_add_([into], 3),
    "copy": lambda into, numbers: into.copy_(numbers),
}


def main() -> None:
    for name, step in STEPS.items():
        host = torch.arange(8).pin_memory()
        expected = torch.arange(8)
        step(on_device(host), torch.arange(8, device="cuda"))
        step(expected, torch.arange(8))
        torch.cuda.synchronize()
        print(f"after {name}:", "right" if host.equal(expected) else "wrong", flush=True)


if __name__ == "__main__":
    main()

"""What a program reads back of small tensors, and whether that is what the CPU finds."""

from __future__ import annotations

from collections.abc import Callable

import torch

Tensors = tuple[torch.Tensor, ...]
FLAGS = torch.tensor([True, False, True, True, False, True])
NUMBERS = torch.tensor([3, 1, 0, 3, 7, 1])
TABLE = torch.arange(24.0).reshape(6, 4)


def inverse(order: torch.Tensor) -> torch.Tensor:
    """As programs sort back: every place of new memory is written."""
    places = torch.empty_like(order)
    places[order] = torch.arange(len(order), device=order.device)
    return places


def scale_after(gradient: float) -> float:
    """Of a loss, where one element of a gradient is this one."""
    parameters = [torch.nn.Parameter(torch.ones(3, device="cuda")) for _ in range(2)]
    optimizer = torch.optim.SGD(parameters, 1.0)
    scaler = torch.amp.GradScaler("cuda", init_scale=4.0)
    scaler.scale(sum(one.exp().sum() for one in parameters)).backward()
    parameters[1].grad[1] = gradient
    scaler.step(optimizer)
    scaler.update()
    return float(scaler.get_scale())


OPERATIONS: dict[str, Callable[..., torch.Tensor | Tensors]] = {
    "nonzero": lambda flags, numbers, table: flags.nonzero(),
    "masked rows": lambda flags, numbers, table: table[flags],
    "masked select": lambda flags, numbers, table: table.masked_select(table > 7),
    "rows of a column": lambda flags, numbers, table: table[:, 1][flags],
    "where": lambda flags, numbers, table: torch.where(flags),
    "count": lambda flags, numbers, table: numbers.bincount(),
    "count to": lambda flags, numbers, table: numbers.bincount(minlength=12),
    "histogram": lambda flags, numbers, table: table[0].histc(bins=4, min=0, max=3),
    "top": lambda flags, numbers, table: table.topk(2),
    "order": lambda flags, numbers, table: numbers.argsort(stable=True),
    "sort": lambda flags, numbers, table: numbers.sort(descending=True),
    "running sum": lambda flags, numbers, table: numbers.cumsum(0),
    "repeat": lambda flags, numbers, table: torch.arange(
        6, device=numbers.device
    ).repeat_interleave(numbers),
    "one hot": lambda flags, numbers, table: torch.nn.functional.one_hot(numbers),
    "scatter": lambda flags, numbers, table: torch.zeros_like(numbers).scatter(
        0, numbers.argsort(), numbers
    ),
    "inverse permutation": lambda flags, numbers, table: inverse(numbers.argsort(stable=True)),
    "scatter into new memory": lambda flags, numbers, table: torch.empty_like(numbers).scatter_(
        0, numbers.argsort(stable=True), numbers
    ),
    "power": lambda flags, numbers, table: (numbers**2, 2**numbers),
    "division": lambda flags, numbers, table: torch.div(numbers, 2, rounding_mode="trunc"),
    "lists": lambda flags, numbers, table: tuple(torch._foreach_add([numbers, numbers], 1)),
    "gather": lambda flags, numbers, table: table.gather(1, numbers.view(6, 1) // 2),
    "search": lambda flags, numbers, table: torch.searchsorted(table[1], table[1] + 0.5),
    "limits": lambda flags, numbers, table: (numbers.min(), numbers.max()),
}


# On large tensors, of which nothing is known, at places that are.
LARGE: dict[str, Callable[[torch.Tensor, torch.Tensor], object]] = {
    "selected": lambda large, rows: large.index_select(0, rows),
    "indexed": lambda large, rows: large[rows],
    "gathered": lambda large, rows: large.gather(0, rows[:, None].expand(-1, 1024)),
    "scattered": lambda large, rows: large.scatter_(
        0, rows[:, None].expand(-1, 1024), large.clone()
    ),
    "put": lambda large, rows: large.index_put_((rows,), large.clone()[: len(rows)]),
    "copied": lambda large, rows: large.index_copy_(0, rows, large.clone()[: len(rows)]),
    "filled": lambda large, rows: large.index_fill_(0, rows, 1.0),
    "taken": lambda large, rows: large.take(rows),
    "looked up": lambda large, rows: looked_up(large, rows).sum().backward(),
}


def looked_up(table: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.embedding(rows, table.detach().requires_grad_())


def as_lists(result: torch.Tensor | Tensors) -> list[object]:
    tensors = (result,) if isinstance(result, torch.Tensor) else tuple(result)
    return [tensor.tolist() for tensor in tensors]


def main() -> None:
    inputs = FLAGS, NUMBERS, TABLE
    for name, operation in OPERATIONS.items():
        found = as_lists(operation(*(tensor.cuda() for tensor in inputs)))
        expected = as_lists(operation(*inputs))
        print(f"{name}: {'right' if found == expected else f'{found}, not {expected}'}")

    for name, use in LARGE.items():
        rows = torch.arange(300, device="cuda")
        use(torch.randn(2048, 1024, device="cuda"), rows)
        print(f"{name}: {'right' if rows.tolist() == list(range(300)) else rows.tolist()}")

    wide = torch.arange(40_000).view(2, -1)
    for shape in ((2, 20_000), (2, 200, 100)):
        parts = [wide.view(shape), wide.view(shape)[:, :51]]
        joined = torch.cat([part.cuda() for part in parts], 1)
        print(f"joined: {'right' if torch.equal(joined.cpu(), torch.cat(parts, 1)) else joined}")

    unknown = torch.randn(4096, 8, device="cuda") @ torch.randn(8, 8, device="cuda")
    loads = unknown.topk(2).indices.flatten().bincount(minlength=8).tolist()
    print(f"experts: {loads}", flush=True)
    print(f"one expert: {unknown.argmax(-1).bincount(minlength=8).tolist()}", flush=True)
    words = unknown[:2] @ torch.randn(8, 1000, device="cuda")
    chosen = words.argmax(1, keepdim=True).tolist(), words.topk(2).indices.tolist()
    print(f"words: {chosen}, {unknown.argmin().item()}", flush=True)
    # What it leaves of unknown memory stays unknown: two places known, two read as zeros.
    partly = torch.empty(4, dtype=torch.int64, device="cuda")
    partly[torch.tensor([3, 0], device="cuda")] = torch.tensor([8, 9], device="cuda")
    print(f"partly written: {partly.tolist()}, {partly[::3].tolist()}")
    for gradient in (1.0, float("inf")):
        print(f"scale after {gradient}: {scale_after(gradient)}")
    # What PyTorch reads back while it selects lies where known values have been.
    known = [torch.ones((), device="cuda") for _ in range(8)]
    del known
    selected = unknown[0].masked_select(unknown[0] > 0)
    print(f"of values that nobody knows: {selected.numel()}", flush=True)


if __name__ == "__main__":
    main()

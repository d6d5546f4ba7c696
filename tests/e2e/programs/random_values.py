"""Random programs on small tensors, on a simulated GPU and on the CPU, step by step.

Run under `phantora run --ranks 1`. After each step every tensor is compared: it equals the CPU's,
or is known to be unknown. Prints each difference with its seed, and at last the counts as JSON.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import random
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

Step = Callable[..., Any]
DTYPES = (
    *(torch.int64, torch.int64, torch.int32, torch.uint8, torch.bool),
    *(torch.float32, torch.float64, torch.bfloat16, torch.float16),
)
MOST_TENSORS = 12
# Beyond it types overflow, and a GPU may do something else than the CPU.
LARGEST = 100.0
# Element by element, to find those that are known in a tensor of which some are not.
MOST_SINGLE = 24

shim = ctypes.CDLL(None)


class DifferentError(Exception):
    """A value is known, and wrong."""


def known_values(tensor: torch.Tensor) -> torch.Tensor | None:
    """None: not all of `tensor` is known."""
    values = torch.empty(tensor.shape, dtype=tensor.dtype)
    numbers = ctypes.c_int64 * tensor.dim()
    is_known = tensor.numel() == 0 or shim.ph_read_values(
        ctypes.c_void_p(tensor.data_ptr()),
        ctypes.c_uint64(tensor.element_size()),
        ctypes.c_uint64(tensor.dim()),
        numbers(*tensor.shape),
        numbers(*tensor.stride()),
        ctypes.c_void_p(values.data_ptr()),
    )
    return values if is_known else None


def is_close(found: torch.Tensor, expected: torch.Tensor) -> bool:
    try:
        torch.testing.assert_close(found, expected, equal_nan=True)
    except AssertionError:
        return False
    return True


def has_no_overlap(tensor: torch.Tensor) -> bool:
    reach = 0
    steps = zip(tensor.stride(), tensor.shape, strict=True)
    for step, size in sorted(pair for pair in steps if pair[1] > 1):
        if step <= reach:
            return False
        reach += step * (size - 1)
    return True


# Given a tensor, and an index, a mask and another tensor that fit it. What they return is new;
# steps of CHANGES change the tensor, those of OUT write it.
MAKES: dict[str, Step] = {
    "add": lambda t, i, m, o: t + o,
    "subtract": lambda t, i, m, o: t - o,
    "multiply": lambda t, i, m, o: t * 2,
    "maximum": lambda t, i, m, o: torch.maximum(t, o),
    "compare": lambda t, i, m, o: t > o,
    "equal": lambda t, i, m, o: t == o,
    "not": lambda t, i, m, o: torch.logical_not(t),
    "absolute": lambda t, i, m, o: t.abs(),
    "where": lambda t, i, m, o: torch.where(m, t, o),
    "mask": lambda t, i, m, o: t.masked_fill(m, 1),
    "select": lambda t, i, m, o: t[m],
    "rows": lambda t, i, m, o: t[i],
    "index_select": lambda t, i, m, o: t.index_select(0, i),
    "take": lambda t, i, m, o: t.take(i),
    "nonzero": lambda t, i, m, o: t.nonzero(),
    "unique": lambda t, i, m, o: t.unique(return_counts=True),
    "sort": lambda t, i, m, o: t.sort(stable=True),
    "argsort": lambda t, i, m, o: t.argsort(stable=True),
    "top": lambda t, i, m, o: t.topk(1).values,
    "bincount": lambda t, i, m, o: t.flatten().abs().bincount(),
    "isin": lambda t, i, m, o: torch.isin(t, o),
    "sum": lambda t, i, m, o: t.sum(0),
    "sum all": lambda t, i, m, o: t.sum(),
    "mean": lambda t, i, m, o: t.mean(),
    "largest": lambda t, i, m, o: t.amax(-1),
    "any": lambda t, i, m, o: t.any(0),
    "running sum": lambda t, i, m, o: t.cumsum(0),
    "product": lambda t, i, m, o: t.reshape(1, -1) @ o.reshape(-1, 1),
    "cat": lambda t, i, m, o: torch.cat([t, o, t]),
    "stack": lambda t, i, m, o: torch.stack([t, o], -1),
    "flip": lambda t, i, m, o: t.flip(0),
    "roll": lambda t, i, m, o: t.roll(1, 0),
    "repeat": lambda t, i, m, o: t.flatten().repeat_interleave(2),
    "clone": lambda t, i, m, o: t.clone(),
    "contiguous": lambda t, i, m, o: t.contiguous(),
    "to float": lambda t, i, m, o: t.float(),
    "to int": lambda t, i, m, o: t.long(),
    "to bool": lambda t, i, m, o: t.bool(),
    "lists": lambda t, i, m, o: torch._foreach_add([t, o], 1),
    "lists max": lambda t, i, m, o: torch._foreach_maximum([t], [o]),
    "lists negate": lambda t, i, m, o: torch._foreach_neg([t, o]),
    "square": lambda t, i, m, o: t**2,
    "power of two": lambda t, i, m, o: 2 ** t.clamp(0, 5),
    "divide": lambda t, i, m, o: torch.div(t, 3, rounding_mode="trunc"),
    "multiply and add": lambda t, i, m, o: torch.addcmul(t, o, o),
    # Into memory that nobody has written: of the CPU's tensor it is what happened to be there.
    "set new rows": lambda t, i, m, o: torch.empty_like(t).index_fill_(0, i, 1),
    "put into new rows": lambda t, i, m, o: torch.empty_like(t).index_put_((i,), o[i]),
    "set new masked": lambda t, i, m, o: torch.empty_like(t).masked_fill_(m, 1),
    "permute": lambda t, i, m, o: torch.empty_like(t).index_copy_(
        0, torch.arange(len(t), device=t.device).flip(0), o
    ),
    # Views
    "slice": lambda t, i, m, o: t[::2],
    "tail": lambda t, i, m, o: t[..., 1:],
    "transpose": lambda t, i, m, o: t.transpose(0, -1),
    "expand": lambda t, i, m, o: t.unsqueeze(0).expand(2, *t.shape),
    "first": lambda t, i, m, o: t[0],
    "windows": lambda t, i, m, o: t.unfold(0, 1, 1),
    "halves": lambda t, i, m, o: t.chunk(2),
    "flat": lambda t, i, m, o: t.view(-1),
}
CHANGES: dict[str, Step] = {
    "add": lambda t, i, m, o: t.add_(o),
    "negate": lambda t, i, m, o: t.neg_(),
    "fill": lambda t, i, m, o: t.fill_(2),
    "zero": lambda t, i, m, o: t.zero_(),
    "copy": lambda t, i, m, o: t.copy_(o),
    "set rows": lambda t, i, m, o: t.index_fill_(0, i, 1),
    "add rows": lambda t, i, m, o: t.index_add_(0, i, o[:1].expand(len(i), *o.shape[1:])),
    "set masked": lambda t, i, m, o: t.masked_fill_(m, 1),
    "copy masked": lambda t, i, m, o: t.masked_scatter_(m, o.clone()),
    "put": lambda t, i, m, o: t.put_(i[:1], o.flatten()[:1]),
    "first": lambda t, i, m, o: t[0].copy_(o[0]),
    "scatter": lambda t, i, m, o: t.scatter_(0, torch.zeros_like(o[:1], dtype=torch.int64), o),
    "lists add": lambda t, i, m, o: torch._foreach_add_([t], [o]),
    "lists zero": lambda t, i, m, o: torch._foreach_zero_([t]),
    "lists multiply": lambda t, i, m, o: torch._foreach_mul_([t], 2),
    "lists copy": lambda t, i, m, o: torch._foreach_copy_([t], [o]),
}
OUT: dict[str, Step] = {
    "add": lambda t, i, m, o: torch.add(o, 1, out=t),
    "maximum": lambda t, i, m, o: torch.maximum(o, o, out=t),
    "cat": lambda t, i, m, o: torch.cat([o[:1], o[1:]], out=t),
    "rows": lambda t, i, m, o: torch.index_select(
        o, 0, torch.zeros_like(i[:1]).expand(len(o)), out=t
    ),
}


class Program:
    """One random program. `tensors`: pairs of the CPU's and the simulated GPU's."""

    def __init__(self, seed: int, counts: Counter[str]) -> None:
        self.random = random.Random(seed)
        self.counts = counts
        self.tensors: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.steps: list[str] = []
        self.side = torch.cuda.Stream()

    def run(self) -> None:
        for _ in range(3):
            self._keep(*self._new())
        for _ in range(self.random.randint(5, 30)):
            kind = self.random.choice((self._step,) * 12 + (self._graph, self._reuse, self._read))
            kind()
            self.compare()
            self.counts["steps"] += 1

    def compare(self) -> None:
        for cpu, cuda in self.tensors:
            self._check(cpu, cuda)
        self.tensors = [pair for pair in self.tensors if is_tame(pair[0])]
        while len(self.tensors) > MOST_TENSORS:
            self.tensors.pop(self.random.randrange(len(self.tensors)))

    # Steps

    def _step(self) -> None:
        changes = self.random.random() < 0.35
        kind = self.random.choice((CHANGES, CHANGES, OUT) if changes else (MAKES,))
        name = self.random.choice(list(kind))
        pairs = [pair for pair in self.tensors if pair[0].dim() > 0 and pair[0].numel() > 0]
        if changes:
            pairs = [pair for pair in pairs if has_no_overlap(pair[0])]
        cpu, cuda = self.random.choice(pairs) if pairs else self._keep(*self._new())
        given = self._given(cpu)
        try:
            expected = kind[name](cpu, *given)
        except (RuntimeError, IndexError, ValueError, TypeError):
            self.counts["refused"] += 1
            return
        self.steps.append(name)
        is_known = known_values(cuda) is not None
        found = self._on_gpu(kind[name], cuda, *(one.cuda() for one in given))
        for one, other in zip(flat(expected), flat(found), strict=True):
            if one.shape == other.shape:
                self._check(one, other)
                if not changes:
                    self._keep(one, other)
            elif is_known:
                raise DifferentError(f"{name}: {tuple(other.shape)}, not {tuple(one.shape)}")

    def _on_gpu(self, step: Step, *given: torch.Tensor) -> Any:
        if self.random.random() > 0.1:
            return step(*given)
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            found = step(*given)
        torch.cuda.current_stream().wait_stream(self.side)
        for one in (*given, *flat(found)):
            one.record_stream(self.side)
        return found

    def _graph(self) -> None:
        """Captured, and launched with other inputs."""
        self.steps.append("graph")
        names = self.random.choices(["add", "flip", "sort", "where", "cat", "lists", "rows"], k=3)
        cpu, cuda = self._keep(*self._new((4,), torch.int64))
        given = self._given(cpu)
        on_gpu = [one.cuda() for one in given]

        def body(tensor: torch.Tensor, others: list[torch.Tensor]) -> torch.Tensor:
            result = tensor.clone()
            for name in names:
                result = flat(MAKES[name](result, *others))[0][:4].clamp(-9, 9)
                result = torch.cat([result, tensor])[:4]
            tensor.add_(result).clamp_(-9, 9)
            return result

        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = body(cuda, on_gpu)
        self._check(cpu, cuda)
        if known_values(found) is not None:
            raise DifferentError("a captured result is known before its graph is launched")
        for _ in range(2):
            if self.random.random() < 0.5:
                changed = self._values((4,), torch.int64)
                cpu.copy_(changed)
                cuda.copy_(changed.cuda())
            graph.replay()
            self._check(body(cpu, given), found)
            self._check(cpu, cuda)

    def _reuse(self) -> None:
        """Memory that others had before."""
        self.steps.append("reuse")
        cpu, cuda = self.random.choice(self.tensors)
        if self.random.random() < 0.5:
            self.tensors = [pair for pair in self.tensors if pair[1] is not cuda]
        freed = cuda.clone()
        del freed, cuda
        fresh = torch.empty(cpu.shape, dtype=cpu.dtype, device="cuda")
        if fresh.numel() and known_values(fresh) is not None:
            raise DifferentError("memory that nobody has written is known")

    def _read(self) -> None:
        self.steps.append("read")
        cpu, cuda = self.random.choice(self.tensors)
        if known_values(cuda) is None:
            return
        pinned = torch.empty(cpu.shape, dtype=cpu.dtype, pin_memory=True)
        pinned.copy_(cuda, non_blocking=True)
        torch.cuda.synchronize()
        if not (is_close(pinned, cpu) and is_close(cuda.cpu(), cpu)):
            raise DifferentError(f"read {pinned.tolist()}, not {cpu.tolist()}")

    # Tensors

    def _new(self, shape: Any = None, dtype: Any = None) -> tuple[torch.Tensor, torch.Tensor]:
        sizes = [self.random.choice((1, 2, 3, 5, 8)) for _ in range(self.random.randint(1, 3))]
        cpu = self._values(shape or sizes, dtype or self.random.choice(DTYPES))
        on_gpu = cpu.pin_memory() if self.random.random() < 0.3 else cpu
        return cpu.clone(), on_gpu.to("cuda", non_blocking=True)

    def _values(self, shape: Any, dtype: torch.dtype) -> torch.Tensor:
        least = 0 if dtype is torch.uint8 else -4
        count = torch.Size(shape).numel()
        numbers = torch.tensor([self.random.randint(least, 9) for _ in range(count)])
        return (numbers > 2 if dtype is torch.bool else numbers).to(dtype).view(*shape)

    def _given(self, cpu: torch.Tensor) -> list[torch.Tensor]:
        """An index of rows, a mask, and another tensor like it."""
        rows = self.random.sample(range(cpu.shape[0]), self.random.randint(1, cpu.shape[0]))
        shape = tuple(cpu.shape)
        mask = self._values(shape, torch.bool)
        return [torch.tensor(rows), mask, self._values(shape, cpu.dtype)]

    def _keep(self, cpu: torch.Tensor, cuda: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if cpu.numel() <= 256:
            self.tensors.append((cpu, cuda))
        return cpu, cuda

    def _check(self, cpu: torch.Tensor, cuda: torch.Tensor) -> None:
        values = known_values(cuda)
        self.counts["right" if values is not None else "unknown"] += 1
        if values is None:
            self._check_parts(cpu, cuda)
        elif not is_close(values, cpu):
            raise DifferentError(
                f"{values.flatten()[:8].tolist()}, not {cpu.flatten()[:8].tolist()}"
            )
        elif cpu.is_floating_point() and has_no_overlap(cpu):
            cpu.copy_(values)  # The last bit may differ, and does not decide anything later.

    def _check_parts(self, cpu: torch.Tensor, cuda: torch.Tensor) -> None:
        if cpu.numel() > MOST_SINGLE:
            return
        for index in torch.ones(cpu.shape).nonzero().tolist():
            part = known_values(cuda[tuple(index)])
            if part is not None and not is_close(part, cpu[tuple(index)]):
                raise DifferentError(f"at {index}: {part.item()}, not {cpu[tuple(index)].item()}")


def flat(value: Any) -> list[torch.Tensor]:
    return [value] if isinstance(value, torch.Tensor) else list(value or ())


def is_tame(tensor: torch.Tensor) -> bool:
    return bool(tensor.numel() == 0 or (tensor.double().abs() <= LARGEST).all())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--programs", type=int, default=50)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.cuda.init()
    counts: Counter[str] = Counter()
    for seed in range(options.seed, options.seed + options.programs):
        program = Program(seed, counts)
        counts["programs"] += 1
        try:
            program.run()
        except DifferentError as error:
            counts["wrong"] += 1
            print(f"seed {seed}: {error}, after {', '.join(program.steps[-5:])}", flush=True)
        except NotImplementedError:
            counts["refused"] += 1  # by CUDA alone, so that the CPU has gone on
    print(json.dumps(dict(counts)), flush=True)


if __name__ == "__main__":
    main()

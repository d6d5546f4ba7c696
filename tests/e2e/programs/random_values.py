"""Random programs on small tensors, on a simulated GPU and on the CPU, step by step.

Run under `phantora run --ranks 1`. After each step every tensor is compared: it equals the CPU's,
or is known to be unknown. Prints each difference with its seed, and at last the counts as JSON.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import random
import re
import warnings
from collections import Counter
from functools import cache
from typing import Any

import torch
from value_steps import CHANGES, COUNTING, MAKES, OUT, Step

DTYPES = (
    *(torch.int64, torch.int64, torch.int32, torch.uint8, torch.bool, torch.int8, torch.int16),
    *(torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64),
)
# Of a kernel that adds one to four numbers: its parameters, and where it finds their address.
KERNELS = {
    "pointer": ("long long *at", "at"),
    "table": ("long long **table", "*table"),
    "halves": ("int high, int low", "(long long *)((long long)high << 32 | (unsigned)low)"),
}
HAS_COMPILER = hasattr(torch.cuda, "_compile_kernel")  # since 2.9
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


@cache
def compiled(form: str) -> Any:
    parameters, address = KERNELS[form]
    body = f"for (int i = 0; i < 4; ++i) ++({address})[i];"
    code = f'extern "C" __global__ void increase({parameters}) {{ {body} }}'
    return torch.cuda._compile_kernel(code, "increase")


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
            kinds = (self._step, self._graph, self._reuse, self._read, self._kernel)
            (kind,) = self.random.choices(kinds, (24, 2, 2, 2, 1 if HAS_COMPILER else 0))
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
        pairs = self.tensors
        if self.random.random() < 0.8:  # the others are refused more often
            pairs = [pair for pair in pairs if pair[0].dim() > 0 and pair[0].numel() > 0]
        if changes:
            pairs = [pair for pair in pairs if has_no_overlap(pair[0])]
        cpu, cuda = self.random.choice(pairs) if pairs else self._keep(*self._new())
        given = self._given(cpu)
        try:
            expected = kind[name](cpu, *given)
        except (RuntimeError, IndexError, ValueError, TypeError):
            self.counts["refused"] += 1
            return
        is_known = known_values(cuda) is not None
        if name in COUNTING and not is_known:
            return
        self.steps.append(name)
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
        if known_values(cuda) is None or (cpu.is_complex() and not cuda.is_contiguous()):
            return  # also where it is copied in another order, as no rule does with complex numbers
        pinned = torch.empty(cpu.shape, dtype=cpu.dtype, pin_memory=True)
        pinned.copy_(cuda, non_blocking=True)
        torch.cuda.synchronize()
        if not (is_close(pinned, cpu) and is_close(cuda.cpu(), cpu)):
            raise DifferentError(f"read {pinned.tolist()}, not {cpu.tolist()}")

    def _kernel(self) -> None:
        """A kernel of the program's own that gets an address, in some form."""
        form = self.random.choice(list(KERNELS))
        self.steps.append(f"kernel, {form}")
        cpu, cuda = self._keep(*self._new((4,), torch.int64))
        address = cuda.data_ptr()
        given: dict[str, tuple[Any, ...]] = {
            "pointer": (cuda,),
            "table": (torch.tensor([address], device="cuda"),),
            "halves": (address >> 32, ctypes.c_int32(address).value),
        }
        compiled(form)((1, 1, 1), (1, 1, 1), given[form])
        cpu.add_(1)

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
        return (numbers > 2 if dtype is torch.bool else numbers).to(dtype).view(shape)

    def _given(self, cpu: torch.Tensor) -> list[torch.Tensor]:
        """An index of rows, a mask, and another tensor like it."""
        length = cpu.shape[0] if cpu.dim() > 0 else 1
        rows = self.random.sample(range(length), self.random.randint(min(1, length), length))
        shape = tuple(cpu.shape)
        mask = self._values(shape, torch.bool)
        return [torch.tensor(rows, dtype=torch.int64), mask, self._values(shape, cpu.dtype)]

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
        elif (cpu.is_floating_point() or cpu.is_complex()) and has_no_overlap(cpu):
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
    wide = tensor if tensor.is_complex() else tensor.double()
    return bool(tensor.numel() == 0 or (wide.abs() <= LARGEST).all())


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
        except RuntimeError as error:  # of CUDA alone, so that the CPU has gone on
            if not re.search("not (implemented|supported)", str(error)):
                raise
            counts["refused"] += 1
    print(json.dumps(dict(counts)), flush=True)


if __name__ == "__main__":
    main()

"""Leaves large host tensors as untouched memory where a program only fills them, and fills them
where their values decide something.

docs/decisions/host-memory.md has the rule. Owns PyTorch's CPU kernels that obey it, the list of the
memory that they have left, and what the report says of it. Knows nothing of devices: a copy to one
does not look at a large source anyway.
"""

from __future__ import annotations

import ctypes
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from . import pages
from .operators import Kernel, Operators, number_tensor

# A fill of less is carried out. Small models and data keep their values; what is smaller than this
# in a large model does not add up to much (assumed).
LARGE_BYTES = 1 << 20
# What is copied from memory that was left has no values either way, so it need not be as large:
# shards are small parts of large tensors. As the default of --values-threshold.
FOLLOWED_BYTES = 64 << 10

_NUMBERS = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}


# Operators whose results random numbers decide: masks, orders, choices. Of zeros they would all be
# alike: a random graph would have every edge.
DECIDING = (
    *(f"{name}.{other}" for name in ("lt", "le", "gt", "ge") for other in ("Scalar", "Tensor")),
    *("sort.stable", "topk", "argmax", "argmin", "histc"),
    *("multinomial", "bernoulli", "bernoulli_.Tensor"),
)


@dataclass(frozen=True)
class _Numbers:
    """Random numbers that were not drawn, and can be."""

    draw: Callable[[Any, Any], Any]
    """Into a tensor, with a generator."""
    dtype: Any
    seed: int


@dataclass(frozen=True)
class _Part:
    """Memory that was left."""

    what: str
    dtype: Any
    line: bytes
    """The Python line that was to fill it."""
    numbers: _Numbers | None = None


@dataclass
class _Left:
    """A storage of which parts were left.

    Held, so that it can be looked at when the program has dropped it. Untouched it costs nothing.
    """

    storage: Any
    base: int
    is_file: bool = False
    """Mapped from a checkpoint: its values are there, but may be left out of copies."""
    parts: dict[tuple[int, int], _Part] = field(default_factory=dict)
    """By pointer and size in bytes."""


class HostTensors:
    """The kernels and the list of one process; in its children the kernels are the usual ones.

    Raises: OSError if the kernel, or this release of PyTorch, is not one that it works on.
    """

    def __init__(self, torch: ModuleType, shim: ctypes.CDLL) -> None:
        self._torch = torch
        self._shim = shim
        self.process = os.getpid()
        pages.forbid_huge_pages()
        pages.require_pagemap()
        calls = ctypes.PyDLL(None)
        self._current_place, self._site_of = calls.ph_current_place, calls.ph_site_of
        self._current_place.restype = ctypes.c_char_p
        self._site_of.argtypes = [ctypes.c_char_p]
        self._is_dense = torch.ops.aten.is_non_overlapping_and_dense.default
        self._use_count = torch._C._storage_Use_Count
        self._left: dict[int, _Left] = {}
        self._operations = self._looked_at = 0
        self._skipped: dict[tuple[str, bytes], list[int]] = defaultdict(lambda: [0, 0])
        self._used: dict[bytes, list[int]] = defaultdict(lambda: [0, 0])
        self._operators = Operators(torch, "CPU")
        for name, make in (
            ("normal_", self._normal),
            ("uniform_", self._uniform),
            ("zero_", self._zero),
            ("fill_.Scalar", self._fill),
            ("copy_", self._copy),
            *((name, self._deciding) for name in DECIDING),
        ):
            self._operators.replace(name, make)
        self._skip_truncated(torch.nn.init)

    def look(self) -> None:
        """Lets go of what the program has dropped, and notes what had been used of it."""
        self._looked_at = self._operations
        for address, left in list(self._left.items()):
            if self._use_count(address) == 1:
                self._note_use(left)
                self._left.pop(address, None)

    def statistics(self) -> dict[str, Any]:
        """What docs/records.md says, once, at the end."""
        for left in list(self._left.values()):
            self._note_use(left)
        return {
            "kind": "host_tensors",
            "skipped": [
                [what, self._site_of(line), *totals]
                for (what, line), totals in self._skipped.items()
                if totals[0]
            ],
            "used": [[self._site_of(line), *totals] for line, totals in self._used.items()],
        }

    def note_mapped(self, storage: Any) -> None:
        """`storage` is the memory of a file: large copies of its numbers are left out too."""
        self.look()
        left = self._left[storage._cdata] = _Left(storage, storage.data_ptr(), is_file=True)
        line = self._note("load", storage.nbytes())
        left.parts[left.base, storage.nbytes()] = _Part("load", None, line)

    # The kernels

    def _normal(self, usual: Kernel) -> Kernel:
        def normal_(
            keys: Any, tensor: Any, mean: float = 0.0, std: float = 1.0, *, generator: Any = None
        ) -> Any:
            def draw(one: Any, source: Any) -> Any:
                return usual(keys, one, mean, std, generator=source)

            if mean == 0.0 and std >= 0.0 and self._leave_random(tensor, draw, generator):
                return tensor
            return draw(tensor, generator)

        return normal_

    def _uniform(self, usual: Kernel) -> Kernel:
        def uniform_(
            keys: Any, tensor: Any, low: float = 0.0, high: float = 1.0, *, generator: Any = None
        ) -> Any:
            def draw(one: Any, source: Any) -> Any:
                return usual(keys, one, low, high, generator=source)

            if low <= 0.0 <= high and self._leave_random(tensor, draw, generator):
                return tensor
            return draw(tensor, generator)

        return uniform_

    def _zero(self, usual: Kernel) -> Kernel:
        """The only one whose result is exact: fresh memory is zeros."""

        def zero_(keys: Any, tensor: Any) -> Any:
            if self._is_large(tensor, LARGE_BYTES):
                pointer, size_bytes = tensor.data_ptr(), tensor.nbytes
                self._forget(tensor)
                # What somebody uses is written again, which is cheaper than to fault it in again.
                if pages.touched_bytes(pointer, size_bytes) == 0 and pages.make_zero(
                    pointer, size_bytes
                ):
                    self._note("zero", size_bytes)
                    return tensor
            return usual(keys, tensor)

        return zero_

    def _fill(self, usual: Kernel) -> Kernel:
        def fill_(keys: Any, tensor: Any, number: Any) -> Any:
            if self._left and self._is_large(tensor, FOLLOWED_BYTES):
                self._forget(tensor)
            return usual(keys, tensor, number)

        return fill_

    def _deciding(self, usual: Kernel) -> Kernel:
        def kernel(keys: Any, *arguments: Any, **options: Any) -> Any:
            if self._left and os.getpid() == self.process:
                for one in arguments:
                    if isinstance(one, self._torch.Tensor):
                        self._draw_in(one)
            return usual(keys, *arguments, **options)

        return kernel

    def _copy(self, usual: Kernel) -> Kernel:
        def copy_(keys: Any, tensor: Any, source: Any, non_blocking: bool = False) -> Any:
            if type(source) in _NUMBERS:
                # How a number arrives here. The usual kernel wants a tensor.
                dtype = getattr(self._torch, _NUMBERS[type(source)])
                source = number_tensor(self._torch, source, dtype)
            elif self._left and self._is_large(tensor, FOLLOWED_BYTES):
                left = self._left.get(source.untyped_storage()._cdata)
                if left is not None and self._leave_copy(left, tensor, source):
                    if not left.is_file:
                        for target, part in self._written_parts(tensor, source):
                            usual(keys, target, part)
                    return tensor
                self._forget(tensor)
            return usual(keys, tensor, source, non_blocking)

        return copy_

    def _skip_truncated(self, init: Any) -> None:
        """`torch.nn.init.trunc_normal_` draws until all numbers are inside, so it looks at them."""
        usual = init._no_grad_trunc_normal_
        plain = self._torch.Tensor, self._torch.nn.Parameter

        def trunc_normal_(
            tensor: Any, mean: float, std: float, a: float, b: float, **options: Any
        ) -> Any:
            is_plain = type(tensor) in plain and tensor.device.type == "cpu"
            if is_plain and a <= 0.0 <= b and std >= 0.0 and self._leave_random(tensor):
                return tensor
            return usual(tensor, mean, std, a, b, **options)

        init._no_grad_trunc_normal_ = trunc_normal_

    # The list

    def _is_large(self, tensor: Any, least_bytes: int) -> bool:
        if tensor.nbytes < least_bytes or os.getpid() != self.process:
            return False
        return bool(self._is_dense(tensor))

    def _leave_random(self, tensor: Any, draw: Any = None, generator: Any = None) -> bool:
        """Zero must be among the numbers that the program asks for. `draw`: see _Numbers."""
        if not _is_real(tensor) or not self._is_large(tensor, LARGE_BYTES):
            return False
        if draw is None:
            return self._leave("random", tensor)
        # One number is drawn in place of all, so that the program's seed decides about these too.
        seed = self._torch.empty((), dtype=self._torch.int64, device="cpu")
        numbers = _Numbers(draw, tensor.dtype, int(seed.random_(generator=generator)))
        return self._leave("random", tensor, numbers)

    def _leave(
        self, what: str, tensor: Any, numbers: _Numbers | None = None, dtype: Any = None
    ) -> bool:
        """Zeros instead of values, without touching the memory. False: it cannot be done."""
        self._shim.ph_enter()
        try:
            # What has been dropped after use is held until then: little, in programs that leave
            # little; and a model of many tensors is not looked at as many times.
            if self._operations - self._looked_at >= len(self._left) // 8:
                self.look()
            self._forget(tensor)
            part = tensor.data_ptr(), tensor.nbytes
            if not pages.make_zero(*part):
                return False
            storage = tensor.untyped_storage()
            left = self._left.setdefault(storage._cdata, _Left(storage, storage.data_ptr()))
            left.parts[part] = _Part(
                what, dtype or tensor.dtype, self._note(what, tensor.nbytes), numbers
            )
            return True
        finally:
            self._shim.ph_leave()

    def _leave_copy(self, left: _Left, tensor: Any, source: Any) -> bool:
        """Whether `tensor` can be left as a copy of `source`, which lies in `left`."""
        is_alike = source.shape == tensor.shape and source.stride() == tensor.stride()
        if not is_alike or tensor.untyped_storage()._cdata == left.storage._cdata:
            return False
        if left.is_file:
            return source.is_floating_point() and self._leave("copy", tensor)
        if _is_real(source) and not _is_real(tensor):
            self._draw_in(source)  # Random integers decide something.
            return False
        if 2 * pages.touched_bytes(source.data_ptr(), source.nbytes) > source.nbytes:
            return False
        part = left.parts.get((source.data_ptr(), source.nbytes))
        if part is None or source.dtype not in (tensor.dtype, part.dtype):
            return self._leave("copy", tensor)
        # Whole storages are copied as bytes.
        dtype = part.dtype if source.dtype is tensor.dtype else tensor.dtype
        return self._leave("copy", tensor, part.numbers, dtype)

    def _draw_in(self, tensor: Any) -> None:
        """Draws what was left of the random numbers in this tensor's memory."""
        if not tensor.is_cpu or tensor.layout is not self._torch.strided:
            return
        left = self._left.get(tensor.untyped_storage()._cdata)
        if left is None or left.storage.data_ptr() != left.base:
            return
        self._shim.ph_enter()
        try:
            for place, part in list(left.parts.items()):
                if part.numbers is not None:
                    self._note_part(left, place)
                    self._draw(place, part, part.numbers)
                    totals = self._skipped[part.what, part.line]
                    totals[0] -= 1
                    totals[1] -= place[1]
                    del left.parts[place]
        finally:
            self._shim.ph_leave()

    def _draw(self, place: tuple[int, int], part: _Part, numbers: _Numbers) -> None:
        """But for pages that the program has written or looked at meanwhile."""
        torch, (pointer, size_bytes) = self._torch, place
        kept = [
            (pointer + begin, ctypes.string_at(pointer + begin, end - begin))
            for begin, end in pages.touched_parts(pointer, size_bytes)
        ]
        buffer = (ctypes.c_char * size_bytes).from_address(pointer)
        memory = torch.frombuffer(buffer, dtype=part.dtype)
        generator = torch.Generator("cpu").manual_seed(numbers.seed)
        if part.dtype is numbers.dtype:
            numbers.draw(memory, generator)
        else:
            drawn = torch.empty(memory.shape, dtype=numbers.dtype, device="cpu")
            memory.copy_(numbers.draw(drawn, generator))
        for at, values in kept:
            ctypes.memmove(at, values, len(values))

    def _written_parts(self, tensor: Any, source: Any) -> Iterator[tuple[Any, Any]]:
        """Pairs of views: what the program may have written into `source` since it was left."""
        size = source.element_size()
        flat = [
            one.as_strided((one.numel(),), (1,), one.storage_offset()) for one in (tensor, source)
        ]
        for begin, end in pages.written_parts(source.data_ptr(), source.nbytes):
            first, last = begin // size, -(-end // size)
            yield flat[0][first:last], flat[1][first:last]

    def _forget(self, tensor: Any) -> None:
        """The program writes all of `tensor`: what was left of it is as used as it is by now."""
        left = self._left.get(tensor.untyped_storage()._cdata)
        if left is None:
            return
        begin, end = tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
        for at, size_bytes in list(left.parts):
            if begin <= at and at + size_bytes <= end:
                self._note_part(left, (at, size_bytes))
                del left.parts[at, size_bytes]
        if not left.parts:
            self._left.pop(left.storage._cdata, None)

    def _note(self, what: str, size_bytes: int) -> bytes:
        """Counts an operation that was left out. Returns its Python line."""
        self._operations += 1
        line: bytes = self._current_place()
        totals = self._skipped[what, line]
        totals[0] += 1
        totals[1] += size_bytes
        return line

    def _note_use(self, left: _Left) -> None:
        for part in list(left.parts):
            self._note_part(left, part)

    def _note_part(self, left: _Left, part: tuple[int, int]) -> None:
        # A storage that has been given other memory got copies of the zeros.
        if left.is_file or left.storage.data_ptr() != left.base:
            return
        touched_bytes = pages.touched_bytes(*part)
        if touched_bytes:
            totals = self._used[left.parts[part].line]
            totals[0] += 1
            totals[1] += touched_bytes


def _is_real(tensor: Any) -> bool:
    """Whether its elements are no integers."""
    return bool(tensor.is_floating_point() or tensor.is_complex())

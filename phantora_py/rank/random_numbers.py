"""The numbers that PyTorch's CUDA kernels draw from a generator, and what they make of them.

docs/decisions/random-numbers.md has the rule. One description for each distribution: what a kernel
that is started now will write, if that is an integer or one rounding away from one. The generator
itself is csrc/shim/values/philox.h. Starts no kernels.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from .tensor_values import UnknownValueError

BLOCK = 256
# Ranges from here on are drawn from two words, since PyTorch 2.7.
WIDE_RANGE = 1 << 28
# A launch that has a thread for everything.
ALL_THREADS = 1 << 40
# Of `random_()`: how many numbers of each type, and which types take two words.
RANGES = {
    **{"bool": 2, "uint8": 1 << 8, "int8": 1 << 7, "int16": 1 << 15, "int32": 1 << 31},
    **{"int64": 1 << 63, "float64": (1 << 53) + 1, "float32": (1 << 24) + 1},
    **{"float16": (1 << 11) + 1, "bfloat16": (1 << 8) + 1},
}
WIDE_TYPES = ("int64", "float64")
# Integers that every floating-point type holds.
SURELY_HELD = 1 << 8


@dataclass
class Draws:
    """What the launches of one operator draw, in their order.

    `most_blocks`: of 256 threads that the device holds at once. `offset` goes on as that of
    PyTorch's generator does, so that the two can be compared when the operator has returned.
    """

    torch: ModuleType
    draw: Any
    seed: int
    offset: int
    most_blocks: int

    def numbers(
        self,
        count: int,
        threads: int,
        *,
        together: int = 1,
        words: int = 1,
        is_wide: bool = False,
        modulus: int = 0,
    ) -> Any:
        """See csrc/shim/values/philox.h. Returns: int64, of `count` elements"""
        found = self.torch.empty(count, dtype=self.torch.int64, device="cpu")
        large = (ctypes.c_uint64(one) for one in (self.seed, self.offset, threads, together, words))
        rest = ctypes.c_int(is_wide), ctypes.c_uint64(modulus), ctypes.c_uint64(count)
        self.draw(*large, *rest, ctypes.c_void_p(found.data_ptr()))
        return found

    def advance(self, words: int) -> None:
        """PyTorch rounds up to whole calls of the generator."""
        self.offset += (words + 3) // 4 * 4

    def elements(self, count: int, is_wide: bool = False, modulus: int = 0) -> Any:
        """For a kernel of one random number an element, which go round the threads."""
        threads = min(-(-count // BLOCK), self.most_blocks) * BLOCK
        words = 2 if is_wide else 1
        found = self.numbers(count, threads, words=words, is_wide=is_wide, modulus=modulus)
        self.advance(((count - 1) // (threads * (4 // words)) + 1) * 4)
        return found

    def uniform(self, count: int, dtype: Any) -> Any:
        """In (0, 1], of float64 for that type, of float32 for all others."""
        if dtype is not self.torch.float64:
            return self.as_uniform(self.elements(count))
        numbers = self.elements(count, is_wide=True)
        first, second = numbers >> 32 & 0xFFFFFFFF, numbers & 0xFFFFFFFF
        return (first ^ second << 21).to(dtype) * 2.0**-53 + 2.0**-54

    def as_uniform(self, words: Any) -> Any:
        """The product is exact, so it does not matter whether the compiler fuses the sum to it."""
        return words.to(self.torch.float32) * 2.0**-32 + 2.0**-33


class Distributions:
    """What the operators write, by release. `release`: of PyTorch, such as (2, 15)."""

    def __init__(self, torch: ModuleType, release: tuple[int, int]) -> None:
        self._torch = torch
        self._release = release

    def integers(self, draws: Draws, tensor: Any, low: int, high: int | None) -> Any:
        """`random_` from `low` up to but not including `high`, or to the type's last number."""
        is_real = tensor.is_floating_point()
        if is_real and (high is None or max(abs(low), abs(high)) > SURELY_HELD):
            raise UnknownValueError
        if high is None:
            if low == -(1 << 63):
                return draws.elements(tensor.numel(), is_wide=True)
            is_bool = tensor.dtype is self._torch.bool
            high = 2 if is_bool else self._torch.iinfo(tensor.dtype).max + 1
        is_wide = high - low >= WIDE_RANGE
        if is_wide and self._release < (2, 8):
            raise UnknownValueError
        return draws.elements(tensor.numel(), is_wide, high - low) + low

    def all_integers(self, draws: Draws, tensor: Any) -> Any:
        """`random_` of all that the type has."""
        name = str(tensor.dtype).removeprefix("torch.")
        return draws.elements(tensor.numel(), name in WIDE_TYPES, RANGES[name])

    def uniform(self, draws: Draws, tensor: Any, low: float, high: float) -> Any:
        """`uniform_`. Raises: UnknownValueError where a fused sum would be rounded differently"""
        torch, dtype = self._torch, tensor.dtype
        first, last = (torch.tensor(one, dtype=dtype, device="cpu") for one in (low, high))
        wide = torch.float64 if dtype is torch.float64 else torch.float32
        span = (last - first).to(wide)
        if first.item() != 0 and math.frexp(span.item())[0] != 0.5:
            raise UnknownValueError
        found = (draws.uniform(tensor.numel(), dtype) * span + first.to(wide)).to(dtype)
        return torch.where(found == last, first, found)

    def flags(self, draws: Draws, tensor: Any, chance: float) -> Any:
        """`bernoulli_` of one chance."""
        drawn = draws.uniform(tensor.numel(), tensor.dtype)
        return drawn < self._torch.tensor(chance, dtype=drawn.dtype, device="cpu")

    def flags_by_element(self, draws: Draws, tensor: Any, chances: Any) -> Any:
        """`bernoulli_` of a chance for each element. `chances`: on the CPU"""
        torch = self._torch
        wide = torch.float64 if tensor.dtype is torch.float64 else torch.float32
        chances = chances.to(wide).expand(tensor.shape).reshape(-1)
        if not bool(((chances >= 0) & (chances <= 1)).all()):
            raise UnknownValueError
        words = draws.numbers(tensor.numel(), ALL_THREADS, together=4, words=4)
        draws.advance(10)
        return draws.as_uniform(words).to(wide) <= chances

    def dropout(self, draws: Draws, tensor: Any, chance: float, values: Any) -> tuple[Any, Any]:
        """`native_dropout`: result and mask. `values`: of the tensor, on the CPU"""
        torch, dtype = self._torch, tensor.dtype
        if dtype is not torch.float32 and self._release < (2, 15):
            raise UnknownValueError  # Others are told apart by how many a thread takes at once.
        wide = torch.float64 if dtype is torch.float64 else torch.float32
        kept = torch.tensor(1.0 - chance, dtype=wide, device="cpu")
        count, together = tensor.numel(), self._together(tensor)
        threads = min(-(-count // BLOCK), draws.most_blocks) * BLOCK
        words = 1 if together == 1 else max(together, 4)
        numbers = draws.numbers(count, threads, together=together, words=words)
        draws.advance(((count - 1) // (threads * 4) + 1) * 4)
        mask = (draws.as_uniform(numbers).to(wide) < kept).reshape(tensor.shape)
        scale = (1.0 / kept.to(torch.float64)).to(wide)
        return (values.to(wide) * mask * scale).to(dtype), mask

    def _together(self, tensor: Any) -> int:
        """How many elements a thread of dropout's kernel takes at once."""
        count: int = 16 // tensor.element_size()
        while count > 1 and (
            tensor.data_ptr() % (count * tensor.element_size()) or tensor.numel() % count
        ):
            count //= 2
        return count

    def permutation(self, draws: Draws, count: int) -> Any:
        """`randperm`: the order of random keys of so many bits that few are equal, and those
        that are shuffled.
        """
        if self._release < (2, 8):
            raise UnknownValueError
        bits = math.ceil(math.log2(count - (6.0 * count * count + 1) / (math.log(0.9) * 12)))
        largest = (1 << 31) - 1 if bits <= 32 else (1 << 63) - 1
        keys = draws.elements(count, is_wide=True, modulus=2 * largest + 1) - largest - 1
        if bits != 32:  # All of an integer's bits are sorted by with their sign.
            keys &= (1 << bits) - 1
        keys, order = keys.sort(stable=True)
        self._shuffle_equals(draws, keys, order)
        draws.advance(count)
        return order

    def _shuffle_equals(self, draws: Draws, keys: Any, order: Any) -> None:
        """Of each run of equal keys the thread of its first element draws."""
        values, lengths = self._torch.unique_consecutive(keys, return_counts=True)
        if len(values) == len(keys):
            return
        longest, count = int(lengths.max()), len(keys)
        words = draws.numbers(count * longest, count).view(longest, count)
        firsts = (lengths.cumsum(0) - lengths)[lengths > 1].tolist()
        for first, length in zip(firsts, lengths[lengths > 1].tolist(), strict=True):
            run = order[first : first + length].tolist()
            for turn, last in enumerate(range(length - 1, 0, -1)):
                other = int(words[turn, first]) % (last + 1)
                run[last], run[other] = run[other], run[last]
            order[first : first + length] = self._torch.tensor(run, device="cpu")

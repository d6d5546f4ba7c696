"""Which sizes can become which: what others are made of, and a map that keeps that."""

from __future__ import annotations

import functools
import hashlib
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from phantora_py.replay.calls import Call, Tensor, elements, kinds, sizes_in, tensors_in
from phantora_py.replay.operators import COMMUNICATION

_ALIGNMENT = 64
"""Tiles of products: a size that it divides is rounded to its multiples where some are near."""
_VECTOR = 8
"""What kernels load at once: a size of a row keeps it as a divisor."""
_CANDIDATES = 16
_TRIES = 4
"""So many choices of a size may leave another none, then it stays as it was."""

_Sum = tuple[tuple[int, ...], ...]
"""Of products of sizes."""


class Equation(NamedTuple):
    left: _Sum
    right: _Sum


def _equation(left: Iterable[tuple[int, ...]], right: Iterable[tuple[int, ...]]) -> Equation:
    """Without what is a factor of all terms."""
    terms = [Counter(one) for one in left], [Counter(one) for one in right]
    common = functools.reduce(Counter.__and__, [*terms[0], *terms[1]]) + Counter()
    made = (
        tuple(sorted(tuple(sorted((one - common).elements())) for one in side)) for side in terms
    )
    return Equation(*made)


def _equations(call: Call) -> Iterator[Equation]:
    """Between its sizes, as far as they do not hold for any map."""
    sides = [list(tensors_in(one)) for one in (*call.args, *call.outs)]
    named = dict(zip((name for name, _ in kinds(call.schema)), call.args, strict=False))
    sums = [(tuple(one.shape for one in side), sum(map(elements, side))) for side in sides if side]
    for number, (shapes, count) in enumerate(sums):
        for others, other in sums[:number]:
            if count == other > 0 and sorted(shapes) != sorted(others):
                yield _equation(shapes, others)
    if call.name.partition("::")[0] in COMMUNICATION and (
        "gather" in call.name or "scatter" in call.name
    ):
        parts = {one.shape for side in sides for one in side}
        least = min(parts, key=math.prod, default=())
        for shape in parts:
            times, rest = divmod(math.prod(shape), math.prod(least) or 1)
            if not rest and times:
                yield _equation((shape,), ((times, *least),))
    for name, value in named.items():
        if "split_sizes" in name and value:
            for side in sides:
                yield from (
                    _equation(tuple((one,) for one in value), ((tensor.shape[0],),))
                    for tensor in side
                    if tensor.shape and tensor.shape[0] == sum(value)
                )
    if call.name in ("aten::slice", "aten::slice_copy") and sides[0] and sides[-1]:
        yield from _slice(sides[0][0], sides[-1][0], named)


def _slice(whole: Tensor, part: Tensor, named: dict[str, Any]) -> Iterator[Equation]:
    dimension, step = named.get("dim") or 0, named.get("step") or 1
    size = whole.shape[dimension]
    start, end = named.get("start") or 0, named.get("end")
    end = size if end is None else min(end, size)
    if step == 1 and 0 <= start < end and end - start == part.shape[dimension]:
        yield _equation(((start,), (end - start,)) if start else ((end - start,),), ((end,),))


def _undivided(call: Call) -> set[int]:
    """Sizes that an exchange of all with all divides by the number of ranks."""
    named = dict(zip((name for name, _ in kinds(call.schema)), call.args, strict=False))
    pairs = (("output", "output_split_sizes"), ("input", "input_split_sizes"))
    return {named[tensor].shape[0] for tensor, splits in pairs if not named[splits]}


def _packed(told: dict[str, Any]) -> Iterator[Equation]:
    """Flat buffers that others fill without gaps, as a bucket of gradients."""
    parts: dict[int, dict[int, list[tuple[int, ...]]]] = {}
    for version, offset, _, shape, strides in told["tensors"]:
        dense = [math.prod(shape[place + 1 :]) for place in range(len(shape))]
        if strides == dense and 0 not in shape:
            parts.setdefault(version, {}).setdefault(offset, []).append(tuple(shape))
    for starts in parts.values():
        for whole in (one for one in starts.get(0, ()) if len(one) == 1):
            filled, begin = [], 0
            while begin < whole[0]:
                fitting = [one for one in starts.get(begin, ()) if math.prod(one) < whole[0]]
                if not fitting:
                    break
                filled.append(max(fitting, key=math.prod))
                begin += math.prod(filled[-1])
            if begin == whole[0]:
                yield _equation(tuple(filled), (whole,))


class Solver:
    """Finds a map of sizes that keeps the equations."""

    def __init__(
        self, ranks: list[dict[str, Any]], calls: Iterable[Call], error: float, salt: bytes
    ) -> None:
        self._error = error
        self._salt = salt
        tensors = {Tensor.of(row) for told in ranks for row in told["tensors"]}
        shapes = [one.shape for one in tensors]
        self._sizes = {size for shape in shapes for size in shape}
        self._sizes |= {size for call in calls for size in sizes_in(call)}
        self.bounded = {size for shape in shapes if len(shape) > 1 for size in shape}
        """The others are of flat buffers and positions in them, or count another's elements."""
        self.bounded -= {
            math.prod(shape) for shape in shapes if sum(size > 1 for size in shape) > 1
        }
        self._rows = {
            shape[-1] for _, shape, strides in tensors if len(shape) > 1 and strides[-1] == 1
        }
        self._equations: dict[int, list[Equation]] = {}
        equations = {one for call in calls for one in _equations(call)}
        for equation in equations.union(*map(_packed, ranks)):
            for size in {size for term in (*equation.left, *equation.right) for size in term}:
                self._equations.setdefault(size, []).append(equation)
                self._sizes.add(size)
        self._failed: set[tuple[int, int]] = set()
        """Choices that left another size none."""
        self._frozen = {size for size in self._sizes if size * error < 1}
        for call in calls:
            if "attention" in call.name:  # there are kernels for few sizes of heads
                self._frozen |= {one.shape[-1] for one in tensors_in(call.args) if one.shape}
            if "alltoall_base" in call.name:
                self._frozen |= _undivided(call)

    @property
    def changeable(self) -> set[int]:
        """Sizes that are large enough."""
        return {size for size in self._sizes if size * self._error >= 1}

    def freeze(self, sizes: Iterable[int]) -> None:
        """They stay as they are from now on. Raises: AssertionError if all did before."""
        before = len(self._frozen)
        self._frozen |= {*sizes}
        assert len(self._frozen) > before, "what stays as it is fits"

    def solved(self) -> dict[int, int]:
        """All sizes, with what becomes of them."""
        while True:
            known: dict[int, int] = {}
            free: list[int] = []
            for size in sorted(self._frozen):
                self._follow(known, size, size)
            for size in sorted(self._sizes - {*known}):
                if size in known:
                    continue
                if not self._choose(known, size):
                    break
                free.append(size)
            else:
                return known
            # It does not go together with the choices before: the last one is another.
            last = [one for one in free if known[one] != one][-1]
            self._failed.add((last, known[last]))
            if sum(1 for size, _ in self._failed if size == last) == _TRIES:
                self.freeze([last])

    def _choose(self, known: dict[int, int], size: int) -> bool:
        for candidate in (*self._candidates(size), size):
            if (size, candidate) in self._failed:
                continue
            found = dict(known)
            if self._follow(found, size, candidate):
                known.update(found)
                return True
        return False

    def _candidates(self, size: int) -> Iterator[int]:
        """Rounded sizes, the best aligned ones first."""
        least, most = math.ceil(size * (1 - self._error)), math.floor(size * (1 + self._error))
        step = min(size & -size, _ALIGNMENT)
        yield from self._drawn(size, range(-(-least // step) * step, most + 1, step))
        while step := step // 2:  # multiples of the last step have had their turn
            odd = -(-least // step) | 1
            yield from self._drawn(size, range(odd * step, most + 1, 2 * step))

    def _drawn(self, size: int, near: range) -> list[int]:
        """Some of `near`, in an order that follows from the salt. There may be millions."""
        drawn: dict[int, None] = {}
        wanted = min(_CANDIDATES, len(near))
        for turn in itertools.count():
            if len(drawn) == wanted:
                break
            text = f"{size} {near.start} {near.step} {turn}"
            digest = hashlib.blake2b(text.encode(), key=self._salt).digest()
            drawn[near[int.from_bytes(digest, "big") % len(near)]] = None
        return [one for one in drawn if one != size]

    def _follow(self, known: dict[int, int], size: int, candidate: int) -> bool:
        """Adds it to what is known, and all that follows; whether nothing contradicts."""
        waiting = [(size, candidate)]
        while waiting:
            size, candidate = waiting.pop()
            if size in known:
                if known[size] != candidate:
                    return False
                continue
            if not self._is_allowed(size, candidate):
                return False
            known[size] = candidate
            for equation in self._equations.get(size, ()):
                try:
                    waiting += _solved(equation, known)
                except ArithmeticError:
                    return False
        return True

    def _is_allowed(self, size: int, candidate: int) -> bool:
        if candidate == size:
            return True
        if size in self._frozen or candidate < 1 or candidate in self._sizes:
            return False  # what was there before is not to be seen again
        if size in self.bounded and abs(candidate - size) > self._error * size:
            return False
        return size not in self._rows or size % _VECTOR != 0 or candidate % _VECTOR == 0


def _solved(equation: Equation, known: dict[int, int]) -> list[tuple[int, int]]:
    """The size that follows, if one does. Raises: ArithmeticError if none can be right."""
    constant, factor, unknown = 0, 0, None
    for side, sign in ((equation.left, 1), (equation.right, -1)):
        for term in side:
            missing = [size for size in term if size not in known]
            product = sign * math.prod(known[size] for size in term if size in known)
            if not missing:
                constant += product
            elif len(missing) > 1 or unknown not in (None, missing[0]):
                return []
            else:
                unknown = missing[0]
                factor += product
    if unknown is None or not factor:
        if constant:
            raise ArithmeticError
        return []
    value, rest = divmod(-constant, factor)
    if rest or value < 1:
        raise ArithmeticError
    return [(unknown, value)]

"""How many different integers, and so addresses, Triton's code (.ttir) makes in all blocks.

What has one value for each channel, or each row, is loaded for every element, and comes from memory
once: `x % 256` is one of 256, however many blocks there are.
"""

from __future__ import annotations

from typing import NamedTuple

# So many numbers come again while a cache still has what they address (assumed: 4 MiB of f32, of
# which an A100 has ten times as many).
_MOST_KEPT = 1 << 20
# Each element of what these make is that of their operand.
SAME = {"tt.splat", "tt.broadcast", "tt.expand_dims", "tt.bitcast"}
SAME |= {"arith.extsi", "arith.extui", "arith.trunci"}
_ADDS = {"arith.addi", "tt.addptr"}
_DIVIDES = {"arith.divsi", "arith.divui"}
_LEAVES = {"arith.remsi", "arith.remui"}


class Spread(NamedTuple):
    """At most so many different integers."""

    number: float = 1
    axes: frozenset[str] = frozenset()
    """Of the grid: so many in each of the blocks along these."""
    step: int = 0
    """They are 0, step, 2 x step, and so on; 0: others."""

    @property
    def is_one(self) -> bool:
        """The same in all blocks."""
        return self.number == 1 and not self.axes


def spread_of(name: str, operands: list[Spread | None], constant: int | None) -> Spread | None:
    """Of what an operation makes. `constant`: its second operand, if that is a number. None: not
    known.
    """
    first, second = (*operands, None, None)[:2]
    if first is None or name in SAME:
        return first
    if name in _DIVIDES | _LEAVES:
        if constant is None or constant <= 0:
            return None
        return _divided(first, constant) if name in _DIVIDES else _left(first, constant)
    if second is None:
        return None
    if name == "arith.muli" and (first.is_one or second.is_one):
        many = second if first.is_one else first
        return Spread(many.number, many.axes, many.step * (constant or 0))
    return _added(first, second) if name in _ADDS else None


def _added(first: Spread, second: Spread) -> Spread | None:
    if first.axes & second.axes:
        return None
    low, high = sorted((first, second), key=lambda one: one.step)
    is_even = low.step > 0 and not low.axes and high.step == low.number * low.step
    return Spread(
        first.number * second.number, first.axes | second.axes, low.step if is_even else 0
    )


def _divided(many: Spread, by: int) -> Spread:
    if many.step == 1:
        number = many.number / by
        return Spread(number if many.axes else max(1, number), many.axes, 1)
    return Spread(many.number, many.axes, many.step // by if many.step % by == 0 else 0)


def _left(many: Spread, by: int) -> Spread | None:
    """Of remainders, which come again."""
    if by > _MOST_KEPT:
        return None
    step = many.step if many.step and by % many.step == 0 else 0
    number = by // step if step else by
    return Spread(number if many.axes else min(number, many.number), frozenset(), step)

"""Values of Triton's code (.ttir) that arguments and the block's index decide, as expressions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

Value = float | str
"""A number, or the expression of one."""


class Tile(NamedTuple):
    """A tensor of integers, each one more than the one before."""

    start: Value
    extent: int


class Mask(frozenset[Value]):
    """A tensor of truths: along each of its axes, the share that is true."""


Known = Value | Tile | Mask

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    **{"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv},
    **{"//": operator.floordiv, "%": operator.mod, "min": min, "max": max},
    **{"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge},
    **{"==": operator.eq, "!=": operator.ne},
}
# Without these two it is the other one.
_NEUTRAL = {"+": 0, "-": 0, "*": 1, "/": 1, "//": 1}
_COMMUTES = ("+", "*")
_CALCULATED = {
    **{"addi": "+", "subi": "-", "muli": "*", "divsi": "//", "divui": "//", "remsi": "%"},
    **{"remui": "%", "minsi": "min", "minui": "min", "maxsi": "max", "maxui": "max"},
}
_COMPARED = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def text(value: Value) -> str:
    """The expression."""
    return value if isinstance(value, str) else f"{value:.12g}"


def calculated(sign: str, left: Value, right: Value) -> Value:
    """Of two values: a number, if both are."""
    if not isinstance(left, str) and not isinstance(right, str):
        is_by_zero = right == 0 and sign in {"/", "//", "%"}
        return "(1 / 0)" if is_by_zero else _OPERATORS[sign](left, right) + 0
    if sign in _NEUTRAL and right == _NEUTRAL[sign]:
        return left
    if sign in _COMMUTES and left == _NEUTRAL[sign]:
        return right
    if sign in {"min", "max"}:
        return left if left == right else f"{sign}({text(left)}, {text(right)})"
    return f"({text(left)} {sign} {text(right)})"


def either(condition: Value | None, then: Value, other: Value) -> Value:
    """The one that the condition chooses; the larger, if nothing tells which."""
    if condition is None:
        return calculated("max", then, other)
    difference = calculated("-", then, other)
    return calculated("+", calculated("*", condition, difference), other)


def of_two(operation: str, left: Known | None, right: Known | None) -> Known | None:
    """What an operation of the dialect arith makes, as `addi` or `cmpi slt`; None: not known."""
    name, _, predicate = operation.partition(" ")
    if isinstance(left, Mask) or isinstance(right, Mask):
        return _both(left, right) if name == "andi" else None
    if left is None or right is None:
        return None
    sign = _COMPARED.get(predicate[-2:]) if name == "cmpi" else _CALCULATED.get(name)
    if sign is None:
        return None
    if isinstance(right, Tile):
        if isinstance(left, Tile) or sign == "-":
            return None
        return _of_tile(_TURNED.get(sign, sign), right, left)
    return _of_tile(sign, left, right) if isinstance(left, Tile) else calculated(sign, left, right)


def _of_tile(sign: str, tile: Tile, value: Value) -> Known | None:
    """Of each element and the value."""
    if sign in {"+", "-"}:
        return Tile(calculated(sign, tile.start, value), tile.extent)
    if sign not in _TURNED:
        return None
    end = calculated("+", value, 1) if sign in {"<=", ">"} else value
    length = calculated("max", 0, calculated("-", end, tile.start))
    share = calculated("min", 1, calculated("/", length, tile.extent))
    return Mask({share if sign in {"<", "<="} else calculated("-", 1, share)})


def _both(left: Known | None, right: Known | None) -> Mask:
    """Of what is not known: all is true."""
    return Mask(share for one in (left, right) if isinstance(one, Mask) for share in one)


class Sum(dict[str, float]):
    """Expressions that are multiplied by numbers and added up; "" is one."""

    def put(self, number: float, factors: Iterable[Value] = ()) -> None:
        """Add a product."""
        texts = []
        for one in factors:
            if isinstance(one, str):
                texts.append(one)
            else:
                number *= one
        if number:
            key = " * ".join(sorted(texts))
            self[key] = self.get(key, 0) + number

    def put_all(self, other: Sum, factor: Value = 1) -> None:
        """Add another, multiplied."""
        for key, number in other.items():
            self.put(number, [key or 1, factor])

    @property
    def value(self) -> Value:
        """All of it."""
        if not self.keys() - {""}:
            return self.get("", 0)
        terms = (_product(number, key) for key, number in self.items())
        return f"({' + '.join(terms)})" if len(self) > 1 else next(terms)


def _product(number: float, factors: str) -> str:
    if not factors or number == 1:
        return factors or text(number)
    return f"{text(number)} * {factors}"

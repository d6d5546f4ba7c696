"""What all blocks of a launch do together, where Triton's code tells what one does.

What a block does is an expression (phantora_py/rank/triton_work.py) of the kernel's arguments, the
block's index and the grid.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from math import prod

_PARTS = (
    *(ast.Expression, ast.Load, ast.BinOp, ast.Compare, ast.UnaryOp, ast.USub),
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod),
    *(ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq),
)
_NAMES = re.compile(r"p\d+|n?[xyz]")
_FUNCTIONS = re.compile(r"min|max")
# Of more blocks so many stand for all: they are spread over the grid.
_LOOKED_AT = 256
_GOLDEN = 0.6180339887498949
"""Multiples of it, modulo 1, are spread evenly and do not keep step with rows of the grid."""


def over_blocks(
    expression: str, arguments: Mapping[int, int], grid: tuple[int, ...]
) -> float | None:
    """The sum over the grid, blocks in three dimensions, of what a block does. `arguments`: by
    parameter. None: that is negative, or the expression divides by zero or has an argument that
    is not given.

    Raises: ValueError for what is no such expression.
    """
    evaluate = _compiled(expression)
    names = {f"p{number}": value for number, value in arguments.items()}
    names |= dict(zip(("nx", "ny", "nz"), grid, strict=True))
    blocks = prod(grid)
    indices = list(_indices(grid) if re.search(r"\b[xyz]\b", expression) else [(0, 0, 0)])
    try:
        does = [evaluate(names | dict(zip("xyz", index, strict=True))) for index in indices]
    except (ZeroDivisionError, NameError):
        return None
    total = blocks * sum(does) / len(does)
    return total if total >= 0 else None


def _indices(grid: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
    blocks = prod(grid)
    for number in range(min(blocks, _LOOKED_AT)):
        block = number if blocks <= _LOOKED_AT else int(blocks * (number * _GOLDEN % 1))
        yield block % grid[0], block // grid[0] % grid[1], block // grid[0] // grid[1]


@lru_cache(maxsize=1024)
def _compiled(expression: str) -> Callable[[dict[str, int]], float]:
    try:
        tree = ast.parse(expression, mode="eval")
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"{expression[:80]!r} is no expression of what a block does") from error
    called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for node in ast.walk(tree):
        names = _FUNCTIONS if node in called else _NAMES
        if not _is_part(node, names):
            raise ValueError(
                f"{expression[:80]!r}: {ast.unparse(node)!r} is no part of an expression of what a"
                " block does"
            )
    code = compile(tree, "<block>", "eval")
    allowed = {"__builtins__": {}, "min": min, "max": max}
    return lambda names: float(eval(code, allowed, names))  # of the parts above only


def _is_part(node: ast.AST, names: re.Pattern[str]) -> bool:
    if isinstance(node, ast.Name):
        return names.fullmatch(node.id) is not None
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float)
    if isinstance(node, ast.Call):
        return len(node.args) > 1 and not node.keywords
    return isinstance(node, _PARTS)

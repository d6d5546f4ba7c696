"""Constraints of a space: `global_batch = 1024`, `tp * fsdp <= run.ranks`."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from sim_server.errors import UsageError

_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
# A single `=` is what people write for equality.
_EQUALS = re.compile(r"(?<![<>=!])=(?!=)")


def evaluate(text: str, values: Mapping[str, Any], where: str) -> Any:
    """What an expression of names, numbers, texts, + - * / // %, comparisons, and, or and not is
    for these values. Raises: UsageError, which says `where` it stands.
    """
    try:
        tree = ast.parse(_EQUALS.sub("==", text), mode="eval")
        return _value(tree.body, values)
    except _UnknownNameError as error:
        known = ", ".join(values) or "none"
        raise UsageError(
            f"{where} {text!r}: there is no value {error}; there are {known}."
        ) from None
    except (SyntaxError, TypeError, ValueError, ZeroDivisionError, RecursionError) as error:
        raise UsageError(
            f"{where} {text!r} is no expression of values, as 'batch * run.ranks = 64': {error}"
        ) from None


class _UnknownNameError(Exception):
    """A name that is not among the values."""


def _value(node: ast.expr, values: Mapping[str, Any]) -> Any:
    def of(one: ast.expr) -> Any:
        return _value(one, values)

    match node:
        case ast.Constant(value=int() | float() | str() as value):
            found: Any = value
        case ast.Name() | ast.Attribute():
            found = _named(ast.unparse(node), values)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            found = _OPERATORS[type(op)](of(left), of(right))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            found = not of(operand)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            found = -of(operand)
        case ast.BoolOp(op=op, values=parts):
            together = all if isinstance(op, ast.And) else any
            found = together(bool(of(part)) for part in parts)
        case ast.Compare(left=left, ops=ops, comparators=others):
            if not all(type(op) in _OPERATORS for op in ops):
                raise ValueError(f"{ast.unparse(node)} is not understood")
            sides = list(map(of, (left, *others)))
            found = all(
                _OPERATORS[type(op)](one, other)
                for op, one, other in zip(ops, sides, sides[1:], strict=False)
            )
        case _:
            raise ValueError(f"{ast.unparse(node)} is not understood")
    return found


def _named(name: str, values: Mapping[str, Any]) -> Any:
    """A number that is written as a text, as of an option of run, is a number."""
    if name not in values:
        raise _UnknownNameError(name)
    value = values[name]
    return int(value) if isinstance(value, str) and value.isdecimal() else value

"""Rows of a benchmark's tensors: storage, offset, type, sizes and strides."""

from __future__ import annotations

from typing import Any

from phantora_py.replay.calls import kinds
from phantora_py.replay.player import DTYPES


def plain(value: Any) -> Any:
    """That can be compared: a file has lists, what was just built has tuples."""
    return tuple(value) if isinstance(value, list) else value


def dense(shape: list[int]) -> list[int]:
    """Strides of a tensor whose rows lie behind each other."""
    made, stride = [], 1
    for size in reversed(shape):
        made.append(stride)
        stride *= max(size, 1)
    return made[::-1]


def strides_that_count(row: list[Any]) -> list[tuple[int, int]]:
    """Sizes with strides, but those of one."""
    return [(size, stride) for size, stride in zip(row[3], row[4], strict=True) if size > 1]


def end_bytes(row: tuple[Any, ...]) -> int:
    """Of the last element of a tensor, in its storage."""
    import torch  # noqa: PLC0415

    _, offset, dtype, shape, strides = row
    if 0 in shape:
        return 0
    pairs = zip(shape, strides, strict=True)
    last = sum((size - 1) * stride for size, stride in pairs)
    return int((offset + last + 1) * getattr(torch, DTYPES[dtype]).itemsize)


def laid_out(schema: str, args: list[Any], row: tuple[Any, ...]) -> list[Any]:
    """Arguments with the sizes, strides and offset of what is made."""
    _, offset, _, shape, strides = row
    made = []
    for (_, kind), value in zip(kinds(schema), args, strict=False):
        if kind == "size" and isinstance(value, list) and len(value) == len(shape):
            pairs = zip(value, shape, strict=True)
            made.append([one if one == -1 else size for one, size in pairs])
        elif kind in ("stride", "offset") and value is not None:
            made.append(list(strides) if kind == "stride" else offset)
        else:
            made.append(value)
    return made

"""Calls of operators apart from memory: tensors with their layouts, and what arguments mean."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from phantora_py.replay.operators import parsed, resolved
from phantora_py.replay.player import DTYPES

_OPEN_END = 1 << 62  # the end of a slice that has none
_SYMBOLIC = re.compile(r"SymInt[\[\]\d?]* (\w+)")
_INDEXES = ("index", "padding_idx", "ignore_index")
_SCALAR_SIZES = ("aten::arange",)


class Tensor(NamedTuple):
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, row: list[Any]) -> Tensor:
        return cls(row[2], tuple(row[3]), tuple(row[4]))


class Call(NamedTuple):
    """An operator with its arguments, whatever memory they are in."""

    schema: str
    args: Any
    outs: Any

    @property
    def name(self) -> str:
        return self.schema.partition("(")[0].partition(".")[0]


def call_of(told: dict[str, Any], event: dict[str, Any]) -> Call:
    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return tuple(plain(one) for one in value)
        return Tensor.of(told["tensors"][value["tensor"]]) if isinstance(value, dict) else value

    schema = told["schemas"][event["schema"]]
    return Call(schema, plain(event["args"]), plain(event["outs"]))


def tensors_in(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for one in value:
            yield from tensors_in(one)


def kinds(schema: str) -> Iterator[tuple[str, str]]:
    """Of each argument its name, and what its numbers are: "size", "index", "stride" (of a size
    beside it), "offset", "scalar" or nothing of these."""
    symbolic = {*_SYMBOLIC.findall(schema.rpartition(" -> ")[0])}
    arguments = parsed(schema).arguments
    names = [one.name for one in arguments]
    for argument in arguments:
        name, kind = argument.name, ""
        if name == "storage_offset":
            kind = "offset"
        elif name == "stride" and "size" in names:
            kind = "stride"
        elif "split_sizes" in name or (name in symbolic and name not in _INDEXES):
            kind = "size"
        elif name in symbolic:
            kind = "index"
        elif "number" in (text := str(argument.real_type)) or "float" in text:
            kind = "size" if schema.startswith(_SCALAR_SIZES) else "scalar"
        yield name, kind


def _integers(value: Any) -> Iterator[int]:
    if isinstance(value, Tensor):
        return
    if isinstance(value, tuple):
        for one in value:
            yield from _integers(one)
    elif type(value) is int:
        yield value


def sizes_in(call: Call) -> Iterator[int]:
    """All sizes of its tensors and among its arguments."""
    for tensor in tensors_in([call.args, call.outs]):
        yield from tensor.shape
    for (_, kind), value in zip(kinds(call.schema), call.args, strict=False):
        if kind == "size":
            yield from (one for one in _integers(value) if 0 < one < _OPEN_END)


def elements(tensor: Tensor) -> int:
    """How many it has."""
    return math.prod(tensor.shape)


def on_meta(schema: str, args: Any) -> tuple[Any, list[Any], dict[str, Any], list[int | None]]:
    """Calls an operator with tensors that have no values: its result, the arguments that it got,
    and where each tensor of the result begins in the first one that it is a view of.

    Raises: whatever PyTorch does if it has no such operator or the arguments do not fit.
    """
    import torch  # noqa: PLC0415

    def made(value: Any, kind: str, name: str) -> Any:
        if isinstance(value, Tensor):
            dtype = getattr(torch, DTYPES[value.dtype])
            return torch.empty_strided(value.shape, value.strides, dtype=dtype, device="meta")
        if isinstance(value, tuple):
            return [made(one, "", "") for one in value]
        if name == "pin_memory":
            return None
        return "meta" if value is not None and "Device" in kind else value

    positional, named = [], {}
    for argument, value in zip(parsed(schema).arguments, args, strict=False):
        told = made(value, str(argument.real_type), argument.name)
        if argument.kwarg_only:
            named[argument.name] = told
        else:
            positional.append(told)
    with torch.no_grad():
        result = resolved(schema)(*positional, **named)
    storages = [_storage(one) for one in flat([positional, *named.values()])]
    begins = [one.storage_offset() if _storage(one) in storages else None for one in flat(result)]
    return result, positional, named, begins


def _storage(tensor: Any) -> int:
    return int(tensor.untyped_storage()._cdata)


def flat(value: Any) -> Iterator[Any]:
    """PyTorch's tensors in lists and tuples."""
    if isinstance(value, list | tuple):
        for one in value:
            yield from flat(one)
    elif hasattr(value, "untyped_storage"):
        yield value

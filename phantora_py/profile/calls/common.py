"""What the makers of calls share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Call = Callable[[], Any]


@dataclass(frozen=True)
class Remainder:
    """What `whole` does after `part`: a launch that PyTorch has no call for alone."""

    whole: Call
    part: Call


# PyTorch's names of the types of docs/records.md.
_TYPES = {
    "bf16": "bfloat16",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "f8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
    "i8": "int8",
    "i32": "int32",
    "u8": "uint8",
}


class Refusal(Exception):  # noqa: N818 - says what it is
    """The message says what cannot be issued."""


def number(torch: Any, name: str) -> Any:
    """The type of that name in docs/records.md. Raises: Refusal."""
    if name not in _TYPES:
        raise Refusal(f"numbers of type {name}")
    return getattr(torch, _TYPES[name])


def filled(torch: Any, sizes: Sequence[int], kind: Any) -> Any:
    """A dense tensor of ordinary values: random where numbers have a fraction, else 0."""
    if kind.is_floating_point:
        wide = kind if kind.itemsize > 1 else torch.float32
        return torch.randn(*sizes, device="cuda", dtype=wide).to(kind)
    return torch.zeros(*sizes, device="cuda", dtype=kind)


def strided(torch: Any, sizes: Sequence[int], strides: Sequence[int], kind: Any) -> Any:
    """The same with these strides; elements may overlap and leave gaps."""
    last = sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    return filled(torch, [last + 1], kind).as_strided(tuple(sizes), tuple(strides))

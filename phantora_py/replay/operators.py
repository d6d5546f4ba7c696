"""Which operator of this PyTorch a schema names. PyTorch is imported where it is needed."""

from __future__ import annotations

import functools
import importlib
from typing import Any

# Modules that register operators when they are imported.
LIBRARIES = {
    "fsdp": "torch.distributed.fsdp._fully_shard._fsdp_collectives",
    "_c10d_functional": "torch.distributed._functional_collectives",
    "c10d": "torch.distributed",
    "prims": "torch._prims",
    "torchvision": "torchvision",
    "fbgemm": "fbgemm_gpu",
}
COMMUNICATION = ("c10d", "_c10d_functional")

_RENAMED = ("bool asyncOp", "bool async_op")
"""An argument of communication, in traces of PyTorch 2.4 and before."""
_ASYNC = "async_op"
"""Communication was asynchronous before it could be told not to be."""


@functools.cache
def parsed(schema: str) -> Any:
    """PyTorch's form of a schema; None if it is none."""
    import torch  # noqa: PLC0415

    try:
        return torch._C.parse_schema(schema.replace(*_RENAMED))
    except RuntimeError:
        return None


@functools.cache
def resolved(schema: str) -> Any:
    """The overload that has this schema's name; None if this PyTorch has none, or one that needs
    other arguments."""
    import torch  # noqa: PLC0415

    told = parsed(schema)
    if told is None:
        return None
    space, _, name = told.name.partition("::")
    if (module := LIBRARIES.get(space)) is not None:
        try:
            importlib.import_module(module)
        except ImportError:
            return None
    try:
        packet = getattr(getattr(torch.ops, space), name)
        operator = getattr(packet, told.overload_name or "default")
    except AttributeError:
        return None
    return None if added(operator, told) is None else operator


def added(operator: Any, told: Any) -> dict[str, Any] | None:
    """Arguments that an operator needs and an older schema of it lacks, with what they were before
    they were arguments. None: that is not known, or it lacks one that the schema has."""
    names = {argument.name for argument in told.arguments}
    own = {argument.name: argument for argument in operator._schema.arguments}
    if not names <= own.keys():
        return {} if places_agree(operator, told) else None
    found: dict[str, Any] = {}
    for name, argument in own.items():
        if name in names or argument.has_default_value():
            continue
        if str(argument.type).startswith("Optional"):
            found[name] = None
        elif name == _ASYNC:
            found[name] = True
        else:
            return None
    return found


def places_agree(operator: Any, told: Any) -> bool:
    """Whether the arguments of a schema are the operator's first ones; else names tell them."""
    names = [argument.name for argument in operator._schema.arguments]
    told_names = [argument.name for argument in told.arguments]
    return names[: len(told_names)] == told_names


def is_composite(schema: str) -> bool:
    """Whether it does all its work by calling other operators."""
    import torch  # noqa: PLC0415

    told = parsed(schema)
    name = told.name + (f".{told.overload_name}" if told.overload_name else "")
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return bool(has(name, "CompositeImplicitAutograd") and not has(name, "CUDA"))

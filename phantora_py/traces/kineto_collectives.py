"""What PyTorch's profiler tells of a collective: with its kernel, or by an annotation around it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from sim_server.chakra.execution_trace_pb2 import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    BARRIER,
    BROADCAST,
    GATHER,
    REDUCE,
    REDUCE_SCATTER,
    SCATTER,
)
from sim_server.chakra.files import Value
from sim_server.chakra.operations import DATA_TYPES
from sim_server.files.schema import Fault
from sim_server.records.operations import DATA_TYPE_BYTES

# By a part of the name without underscores, the longer ones first.
_KINDS = {
    **{"allreduce": ALL_REDUCE, "alltoall": ALL_TO_ALL, "allgather": ALL_GATHER},
    **{"reducescatter": REDUCE_SCATTER, "broadcast": BROADCAST, "barrier": BARRIER},
    **{"gather": GATHER, "scatter": SCATTER, "reduce": REDUCE},
}
# As annotations of C++ and as kernels name them.
_DTYPES = {
    **{"float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16"},
    **{"c10::half": "float16", "c10::bfloat16": "bfloat16", "long int": "int64", "long": "int64"},
    **{"int": "int32", "unsigned char": "uint8", "byte": "uint8", "bool": "uint8"},
    **{"signed char": "int8", "char": "int8", "float8_e4m3fn": "float8_e4m3fn"},
    **{"float8_e5m2": "float8_e5m2"},
}

Collective = tuple[str, list[int], dict[str, Value]]
"""Group, its ranks, and what its node is to have."""


def collective_of(
    kernel: Mapping[str, Any],
    annotation: Mapping[str, Any],
    ranks: int,
    groups: Mapping[str, list[int]],
) -> Collective:
    """`kernel`, `annotation`: what the profiler tells with them, empty if that is nothing.

    `ranks`: of the run; `groups`: those of process groups that are known.

    Raises: Fault if that is not enough.
    """
    if "Collective name" in kernel:
        return _of_kernel(kernel, ranks, groups)
    if "Input Dims" not in annotation:
        raise Fault("nothing tells which communication it is, and of how many bytes")
    kind = _kind(str(annotation["name"]))
    dtype = _dtype((annotation.get("Input type") or [""])[0])
    elements = sum(math.prod(one) for one in annotation["Input Dims"] if one != [])
    return "0", list(range(ranks)), _attributes("0", kind, elements, dtype)


def _of_kernel(told: Mapping[str, Any], ranks: int, groups: Mapping[str, list[int]]) -> Collective:
    kind, dtype = _kind(str(told["Collective name"])), _dtype(str(told.get("dtype", "")))
    group = str(told.get("Process Group Name", "0"))
    size = int(told.get("Group size", ranks))
    members = _numbers(told.get("Process Group Ranks")) or list(groups.get(group, []))
    if not members and size == ranks:
        members = list(range(ranks))
    if len(members) != size:
        raise Fault(f"nothing tells which {size} ranks the process group {group} has")
    given, made = (int(told.get(f"{side} msg nelems", 0)) for side in ("In", "Out"))
    # What is gathered is larger than what a rank gives.
    elements = given if kind in (ALL_GATHER, GATHER) else max(given, made)
    attributes = _attributes(group, kind, elements, dtype)
    if kind == ALL_TO_ALL:
        sent, received = (_numbers(told.get(f"{side} split size")) for side in ("In", "Out"))
        if len(sent) == len(received) == size and min(sum(sent), sum(received)) > 0:
            # They count rows.
            attributes["in_split_size"] = [one * given // sum(sent) for one in sent]
            attributes["out_split_size"] = [one * made // sum(received) for one in received]
    return group, members, attributes


def _attributes(group: str, kind: int, elements: int, dtype: str) -> dict[str, Value]:
    unit_bytes = DATA_TYPE_BYTES[DATA_TYPES.index(dtype)]
    # A barrier reduces a byte.
    size_bytes = max(elements * unit_bytes, 1)
    return {"comm_type": kind, "comm_size": size_bytes, "pg_name": group, "dtype": dtype}


def _kind(name: str) -> int:
    plain = name.lower().replace("_", "")
    for part, kind in _KINDS.items():
        if part in plain:
            return int(kind)
    raise Fault(f"{name} has a partner that the trace does not tell, or is not known")


def _dtype(name: str) -> str:
    found = _DTYPES.get(name.lower())
    if found is None:
        raise Fault(f"the data type {name!r} is not known")
    return found


def _numbers(text: Any) -> list[int]:
    """Of a list as text; empty if it was cut."""
    try:
        found = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return []
    is_list = isinstance(found, list) and all(type(one) is int for one in found)
    return list(found) if is_list else []

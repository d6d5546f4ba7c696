"""Values for a kernel whose time depends on what is in memory, if the rank does not know it:
indices, spread over the table. Zeros would all be one row, quick to read and slow to add to.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from random import Random

from phantora_py.profile.calls.common import Refusal
from sim_server.kernels.names import type_bytes
from sim_server.kernels.work import Launch

_INDICES = {"long": "q", "int": "i"}
# How many segments of equal indices there are, these read from memory.
_SORTED = re.compile(r"compute_grad_weight|sum_and_scatter$")
# Blocks that find in memory how far others are; the program clears it before each launch.
_LOOKING_BACK = re.compile(r"ScanTileState|RadixSortOnesweepKernel")

Region = tuple[int, int]


def missing_contents(
    launch: Launch, parameters: Sequence[bytes], regions: Sequence[Region]
) -> list[tuple[int, bytes]]:
    """Addresses and what is to be there; of most kernels none. Raises: Refusal."""
    family = launch.name.family
    shares = family.endswith("::reduce_kernel") and launch.grid[1] > 1
    if shares or _LOOKING_BACK.search(launch.name.text):
        raise Refusal("its blocks count themselves in memory that is cleared before each launch")
    if _SORTED.search(family):
        raise Refusal("its work depends on indices whose values are not known")
    if family.endswith("vectorized_gather_kernel"):
        # (out, in, indices, rows, row bytes, table rows, ...)
        rows, _, table = (launch.integer(position) for position in range(3))
        return _spread(_address(parameters[2]), rows, table, launch.name.template[1])
    if family.endswith("embedding_backward_feature_kernel"):
        # (indices, gradients, gradients of the table, rows, columns, ...); what follows the table
        # in its allocation counts as table.
        rows, columns = (launch.integer(position) for position in range(2))
        row_bytes = (columns or 0) * (type_bytes(launch.name.template[0]) or 0)
        table = _bytes_from(_address(parameters[2]), regions) // row_bytes if row_bytes else None
        return _spread(_address(parameters[0]), rows, table, launch.name.template[2])
    return []


def _spread(
    address: int, count: int | None, limit: int | None, index: str
) -> list[tuple[int, bytes]]:
    """Numbers below `limit`, each as often as the others, in no order."""
    if not count or not limit or index not in _INDICES:
        raise Refusal("how many indices it takes, and of what table, is not told")
    numbers = array(_INDICES[index], (number % limit for number in range(count)))
    Random(0).shuffle(numbers)
    return [(address, numbers.tobytes())]


def _address(parameter: bytes) -> int:
    return int.from_bytes(parameter[:8], "little")


def _bytes_from(address: int, regions: Sequence[Region]) -> int:
    """To the end of the allocation that holds it."""
    return max(
        (begin + size - address for begin, size in regions if begin <= address < begin + size),
        default=0,
    )

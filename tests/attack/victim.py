"""A rank that makes every kind of record, for ever, without PyTorch: what test_kills.py kills."""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path

UNIQUE_ID = Path("unique_id")
COUNT, FLOAT, SUM = 1000, 7, 0
TO_HOST = 2

cuda = ctypes.CDLL(None)


class UniqueId(ctypes.Structure):
    """ncclUniqueId."""

    _fields_ = (("internal", ctypes.c_char * 128),)


def call(name: str, *arguments: object) -> None:
    """It must succeed. Slow enough for a kill to come before the next record."""
    time.sleep(0.002)
    result = getattr(cuda, name)(*arguments)
    assert result == 0, f"{name}: {result}"


def made(name: str, *arguments: object) -> ctypes.c_void_p:
    """What a call makes for its first argument."""
    handle = ctypes.c_void_p()
    call(name, ctypes.byref(handle), *arguments)
    return handle


def unique_id(rank: int) -> UniqueId:
    """Rank 0's, by way of a file."""
    found = UniqueId()
    if rank == 0:
        call("ncclGetUniqueId", ctypes.byref(found))
        UNIQUE_ID.with_suffix(".part").write_bytes(bytes(found))
        UNIQUE_ID.with_suffix(".part").rename(UNIQUE_ID)
    while not UNIQUE_ID.exists():
        time.sleep(0.01)
    return UniqueId.from_buffer_copy(UNIQUE_ID.read_bytes())


def main() -> None:
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    call("cudaSetDevice", rank)
    stream, event = made("cudaStreamCreate"), made("cudaEventCreate")
    size = ctypes.c_size_t(4 * COUNT)
    memory, host = made("cudaMalloc", size), ctypes.create_string_buffer(4 * COUNT)
    communicator = made("ncclCommInitRank", ranks, unique_id(rank), rank)
    count = ctypes.c_size_t(COUNT)
    while True:
        more = made("cudaMalloc", size)
        call("cudaMemsetAsync", memory, 1, size, stream)
        call("ncclAllReduce", memory, memory, count, FLOAT, SUM, communicator, stream)
        call("cudaEventRecord", event, stream)
        call("cudaStreamWaitEvent", stream, event, 0)
        call("cudaMemcpyAsync", host, memory, size, TO_HOST, stream)
        call("cudaEventSynchronize", event)
        call("cudaStreamSynchronize", stream)
        call("cudaFree", more)


if __name__ == "__main__":
    main()

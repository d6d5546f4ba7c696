"""One rank of test_small_collectives.py: calls our libnccl through ctypes, prints what it reads.

Our libraries are preloaded. Argument: a scenario, one of the functions below.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

from collective_values import AVG, BF16, COUNT, ELEMENT_BYTES, F32, INT64, SUM, UINT8, integers
from rank_device import (
    RANK,
    RANKS,
    TO_DEVICE,
    allocate,
    copy,
    core,
    cuda,
    download,
    part,
    run_scenario,
    size_t,
    upload,
)

nccl = ctypes.CDLL("libnccl.so.2")
LARGE_BYTES = 1 << 20
LATE_S = 0.5  # virtual
LEISURE_TURNS = 10_000_000  # some tenths of a second, by no clock


class UniqueId(ctypes.Structure):
    """ncclUniqueId, which is passed by value."""

    _fields_ = (("internal", ctypes.c_char * 128),)


def check(result: int) -> None:
    """Fails the rank with NCCL's own text."""
    if result != 0:
        nccl.ncclGetLastError.restype = ctypes.c_char_p
        raise RuntimeError(nccl.ncclGetLastError(None).decode())


def initialise() -> ctypes.c_void_p:
    """The communicator of all ranks, under an id that all can compute."""
    comm = ctypes.c_void_p()
    check(nccl.ncclCommInitRank(ctypes.byref(comm), RANKS, UniqueId(b"test"), RANK))
    return comm


def reductions(comm: ctypes.c_void_p) -> dict[str, str]:
    """All-reduce in every type with every operation; rank r holds r, r + 1."""
    results = {}
    for dtype in range(12):
        size = 2 * ELEMENT_BYTES[dtype]
        for operation in range(AVG + 1):
            given = upload(integers(dtype, RANK, 2))
            check(nccl.ncclAllReduce(given, given, size_t(2), dtype, operation, comm, None))
            results[f"{dtype}.{operation}"] = download(given, size)
    return results


def movements(comm: ctypes.c_void_p) -> dict[str, str]:
    """Every operation once, on bytes; chunk i of rank r is filled with 16 r + i."""
    whole = bytes(16 * RANK + i for i in range(RANKS) for _ in range(COUNT))
    root, n = RANKS - 1, size_t(COUNT)
    calls: dict[str, Callable[[ctypes.c_void_p, ctypes.c_void_p], int]] = {
        "broadcast": lambda s, r: nccl.ncclBroadcast(s, r, n, UINT8, root, comm, None),
        "reduce": lambda s, r: nccl.ncclReduce(s, r, n, UINT8, SUM, root, comm, None),
        "all_gather": lambda s, r: nccl.ncclAllGather(s, r, n, UINT8, comm, None),
        "reduce_scatter": lambda s, r: nccl.ncclReduceScatter(s, r, n, UINT8, SUM, comm, None),
        "all_to_all": lambda s, r: nccl.ncclAlltoAll(s, r, n, UINT8, comm, None),
        "gather": lambda s, r: nccl.ncclGather(s, r, n, UINT8, root, comm, None),
        "scatter": lambda s, r: nccl.ncclScatter(s, r, n, UINT8, root, comm, None),
    }
    results = {}
    for name, call in calls.items():
        received = upload(b"\xff" * len(whole))
        check(call(upload(whole), received))
        results[name] = download(received, len(whole))
    bcast = upload(whole)
    check(nccl.ncclBcast(bcast, n, UINT8, root, comm, None))
    results["bcast"] = download(bcast, len(whole))
    return results


def groups(comm: ctypes.c_void_p) -> dict[str, str]:
    """Point to point in groups: receives are issued before the sends that their peers wait for."""
    whole = bytes(16 * RANK + i for i in range(RANKS) for _ in range(COUNT))
    given, received = upload(whole), upload(b"\xff" * len(whole))
    check(nccl.ncclGroupStart())
    for peer in range(RANKS):
        chunk = part(received, peer * COUNT)
        check(nccl.ncclRecv(chunk, size_t(COUNT), UINT8, peer, comm, None))
    for peer in range(RANKS):
        chunk = part(given, peer * COUNT)
        check(nccl.ncclSend(chunk, size_t(COUNT), UINT8, peer, comm, None))
    check(nccl.ncclGroupEnd())
    return {"all_to_all": download(received, len(whole))}


def unequal_ends(comm: ctypes.c_void_p) -> dict[str, str]:
    """Rank 0 sends an integer of eight bytes where rank 1 takes a number of four."""
    received = upload(b"\xff" * 8)
    if RANK == 0:
        check(nccl.ncclSend(upload(integers(INT64, 3, 1)), size_t(1), INT64, 1, comm, None))
    else:
        check(nccl.ncclRecv(received, size_t(1), F32, 0, comm, None))
    return {"received": download(received, 8)}


def unknown(comm: ctypes.c_void_p) -> dict[str, str]:
    """Rank 0 contributes bytes that nothing produced."""
    given = allocate(COUNT) if RANK == 0 else upload(bytes([7]) * COUNT)
    reduced, gathered = upload(b"\xff" * COUNT), upload(b"\xff" * COUNT * RANKS)
    check(nccl.ncclAllReduce(given, reduced, size_t(COUNT), UINT8, SUM, comm, None))
    check(nccl.ncclAllGather(given, gathered, size_t(COUNT), UINT8, comm, None))
    large = allocate(LARGE_BYTES)
    marked = part(large, 64)
    copy(marked, b"\xaa" * 8, 8, TO_DEVICE)
    before = download(marked, 8)
    check(nccl.ncclAllReduce(large, large, size_t(LARGE_BYTES // 4), F32, SUM, comm, None))
    return {
        "reduced": download(reduced, COUNT),
        "gathered": download(gathered, COUNT * RANKS),
        "before_large": before,
        "after_large": download(marked, 8),
    }


def premultiplied(comm: ctypes.c_void_p) -> dict[str, str]:
    """Each rank scales its contribution by rank + 1; half of them keep the factor on the device."""
    factor = struct.pack("<f", RANK + 1)
    on_host = RANK % 2 == 0
    operation = ctypes.c_int()
    scalar = ctypes.create_string_buffer(factor, 4) if on_host else upload(factor)
    check(nccl.ncclRedOpCreatePreMulSum(ctypes.byref(operation), scalar, F32, int(on_host), comm))
    given = upload(integers(F32, 1, COUNT))
    check(nccl.ncclAllReduce(given, given, size_t(COUNT), F32, operation, comm, None))
    check(nccl.ncclRedOpDestroy(operation, comm))
    refused = nccl.ncclAllReduce(given, given, size_t(COUNT), F32, operation, comm, None)
    return {"sum": download(given, 4 * COUNT), "after_destroy": str(refused)}


def halves(comm: ctypes.c_void_p) -> dict[str, str]:
    """Even and odd ranks split, in reverse order; each part reduces and sends along a chain."""
    half = ctypes.c_void_p()
    check(nccl.ncclCommSplit(comm, RANK % 2, -RANK, ctypes.byref(half), None))
    rank, size = ctypes.c_int(), ctypes.c_int()
    check(nccl.ncclCommUserRank(half, ctypes.byref(rank)))
    check(nccl.ncclCommCount(half, ctypes.byref(size)))
    given = upload(integers(INT64, RANK, 1))
    check(nccl.ncclAllReduce(given, given, size_t(1), INT64, SUM, half, None))
    none = ctypes.c_void_p()
    check(nccl.ncclCommSplit(comm, -1, 0, ctypes.byref(none), None))
    check(nccl.ncclCommDestroy(half))
    destroyed = nccl.ncclCommCount(half, ctypes.byref(size))
    return {
        "place": f"{rank.value} of {size.value}",
        "sum": download(given, 8),
        "none": str(none.value),
        "destroyed": str(destroyed),
    }


def bfloat16_rounding(comm: ctypes.c_void_p) -> dict[str, str]:
    """256 + 1 + 1 + ...: each single step would be lost in bfloat16."""
    given = upload(struct.pack("<f", 256 if RANK == 0 else 1)[2:])
    check(nccl.ncclAllReduce(given, given, size_t(1), BF16, SUM, comm, None))
    return {"sum": download(given, 2)}


def early_exit(comm: ctypes.c_void_p) -> dict[str, str]:
    """Every rank but the last only sends and ends at once."""
    if RANK < RANKS - 1:
        check(
            nccl.ncclSend(
                upload(bytes([RANK + 1]) * 65536), size_t(65536), UINT8, RANKS - 1, comm, None
            )
        )
        return {}
    received = allocate(65536)
    results = {}
    for peer in range(RANKS - 1):
        check(nccl.ncclRecv(received, size_t(65536), UINT8, peer, comm, None))
        results[str(peer)] = str(download(received, 65536) == f"{peer + 1:02x}" * 65536)
    return results


def opposite_orders(comm: ctypes.c_void_p) -> dict[str, str]:
    """Two communicators, which every other rank uses in the opposite order."""
    other = ctypes.c_void_p()
    check(nccl.ncclCommSplit(comm, 0, RANK, ctypes.byref(other), None))
    buffers = [upload(integers(INT64, RANK, 1)) for _ in range(2)]
    calls = list(zip([comm, other], buffers, strict=True))
    for one, buffer in calls if RANK % 2 else reversed(calls):
        check(nccl.ncclAllReduce(buffer, buffer, size_t(1), INT64, SUM, one, None))
    return {str(index): download(buffer, 8) for index, buffer in enumerate(buffers)}


def unrelated_reads(comm: ctypes.c_void_p) -> dict[str, str]:
    """Rank 0 reads, while a collective waits for a peer, what that collective does not touch."""
    other = ctypes.c_void_p()
    check(nccl.ncclCommSplit(comm, 0, RANK, ctypes.byref(other), None))
    first, second, unrelated = (upload(integers(INT64, RANK, 1)) for _ in range(3))

    def reduce_first() -> None:
        check(nccl.ncclAllReduce(first, first, size_t(1), INT64, SUM, comm, None))

    if RANK == 0:
        reduce_first()
    read = download(unrelated, 8)
    check(nccl.ncclAllReduce(second, second, size_t(1), INT64, SUM, other, None))
    results = {"second": download(second, 8), "read": read}
    if RANK != 0:
        reduce_first()
    return results | {"first": download(first, 8)}


def late_values(comm: ctypes.c_void_p, *, at_leisure: bool = False) -> dict[str, str]:
    """The last rank sends twice when rank 1, which waits for its values, has been set aside.
    `at_leisure`: the second time is over when rank 1 asks for what came.
    """
    is_aside = Path(os.environ["PHANTORA_RUN_DIR"]) / "aside"
    buffers = [upload(integers(INT64, RANK, 1)) for _ in range(2)]
    for buffer in buffers:
        if RANK == RANKS - 1:
            time.sleep(LATE_S)
            while not is_aside.exists():
                pass
        check(nccl.ncclAllReduce(buffer, buffer, size_t(1), INT64, SUM, comm, None))
    for buffer in buffers if RANK == 1 else ():
        one, to = ctypes.c_int64(1), ctypes.c_int64()
        words = ctypes.c_uint64(8), ctypes.c_uint64(1), ctypes.byref(one), ctypes.byref(one)
        assert core.ph_read_values(buffer, *words, ctypes.byref(to)) == 1
        for _ in range(LEISURE_TURNS if at_leisure else 0):
            pass
    return {str(number): download(buffer, 8) for number, buffer in enumerate(buffers)}


def late_values_at_leisure(comm: ctypes.c_void_p) -> dict[str, str]:
    """As it says."""
    return late_values(comm, at_leisure=True)


def host_function(comm: ctypes.c_void_p) -> dict[str, str]:
    """A function of the host waits in the queue, and what it writes is copied to the device."""
    is_issued = Path(os.environ["PHANTORA_RUN_DIR"]) / "issued"
    given, copied = upload(integers(INT64, RANK, 1)), allocate(8)
    host = ctypes.c_void_p()
    assert cuda.cudaMallocHost(ctypes.byref(host), size_t(8)) == 0
    ctypes.memset(host, 0x11, 8)

    write = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: ctypes.memset(host, 0x22, 8))
    while RANK != 0 and not is_issued.exists():
        time.sleep(0.01)
    check(nccl.ncclAllReduce(given, given, size_t(1), INT64, SUM, comm, None))
    assert cuda.cudaLaunchHostFunc(None, write, None) == 0
    assert cuda.cudaMemcpyAsync(copied, host, size_t(8), TO_DEVICE, None) == 0
    is_issued.touch()
    return {"copied": download(copied, 8)}


if __name__ == "__main__":
    scenario = globals()[sys.argv[1]]
    run_scenario(lambda: scenario(initialise()))

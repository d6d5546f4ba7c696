"""The CUDA runtime through ctypes, for the rank programs of this folder."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable, Mapping

core = ctypes.CDLL(None)
cuda = ctypes.CDLL("libcudart.so.13")
RANK = int(os.environ["PHANTORA_RANK"])
RANKS = int(os.environ["RANKS"])
TO_DEVICE, TO_HOST, ON_DEVICE = 1, 2, 3


def size_t(value: int) -> ctypes.c_size_t:
    """A size as C takes it."""
    return ctypes.c_size_t(value)


def allocate(size: int) -> ctypes.c_void_p:
    """Device memory that holds nothing known."""
    pointer = ctypes.c_void_p()
    assert cuda.cudaMalloc(ctypes.byref(pointer), size_t(size)) == 0
    return pointer


def copy(to: object, source: object, size: int, kind: int) -> None:
    """A blocking copy."""
    result = cuda.cudaMemcpy(to, source, size_t(size), kind)
    assert result == 0, result


def upload(data: bytes) -> ctypes.c_void_p:
    """Device memory that holds `data`."""
    pointer = allocate(len(data))
    copy(pointer, data, len(data), TO_DEVICE)
    return pointer


def download(pointer: ctypes.c_void_p, size: int) -> str:
    """What the program reads back, in hexadecimal."""
    data = ctypes.create_string_buffer(b"\xee" * size, size)
    copy(data, pointer, size, TO_HOST)
    return data.raw.hex()


def part(pointer: ctypes.c_void_p, offset: int) -> ctypes.c_void_p:
    """The address `offset` bytes further."""
    assert pointer.value is not None
    return ctypes.c_void_p(pointer.value + offset)


def run_scenario(scenario: Callable[[], Mapping[str, object]]) -> None:
    """Attaches, runs, ends as a rank does, prints the results."""
    assert core.ph_attach(os.environ["PHANTORA_RUN_DIR"].encode(), RANK) == 1
    results = scenario()
    core.ph_exit(ctypes.c_int64(0))
    print(json.dumps(results), flush=True)

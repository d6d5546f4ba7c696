"""The rank of test_launch_keeper.py: launches kernels that are nobody's."""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Mapping

from rank_device import RANK, allocate, cuda, part, run_scenario, upload

driver = ctypes.CDLL("libcuda.so.1")
PTX = b""".version 8.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 data, .param .u32 count)
{
  ret;
}
"""


class Dim3(ctypes.Structure):
    """As the runtime takes it by value."""

    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]


def _addresses(*pointers: ctypes.c_void_p) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(pointers))(*pointers)


def library() -> Mapping[str, object]:
    """work(S, float*, unsigned), whose structure holds a pointer into a list of pointers."""
    stub = ctypes.cast(ctypes.CDLL(None).puts, ctypes.c_void_p)
    name = b"_Z4work1SPfj"
    rest = [None] * 5
    cuda.__cudaRegisterFunction(None, stub, name, name, -1, *rest)
    data, listed = allocate(1 << 20), allocate(4096)
    assert listed.value is not None
    assert data.value is not None
    pointers = upload(struct.pack("<QQ", listed.value + 16, 7))
    assert pointers.value is not None
    values = struct.pack("<QQQQI", 5, pointers.value, 6, data.value + 64, 1000)
    buffer = ctypes.create_string_buffer(values, 64)
    begin = ctypes.c_void_p(ctypes.addressof(buffer))
    arguments = _addresses(begin, part(begin, 24), part(begin, 32))
    for _ in range(2):
        shape = (Dim3(4, 1, 1), Dim3(128, 1, 1))
        assert cuda.cudaLaunchKernel(stub, *shape, arguments, ctypes.c_size_t(0), None) == 0
    return {"data": data.value, "listed": listed.value, "pointers": pointers.value}


def module() -> Mapping[str, object]:
    """A kernel of a code object, with its arguments one by one and as one buffer."""
    loaded, function = ctypes.c_void_p(), ctypes.c_void_p()
    data = allocate(4096)
    assert driver.cuModuleLoadData(ctypes.byref(loaded), PTX) == 0
    assert driver.cuModuleGetFunction(ctypes.byref(function), loaded, b"scale") == 0
    count = ctypes.c_uint(64 + RANK)
    each = (ctypes.c_void_p * 2)(ctypes.addressof(data), ctypes.addressof(count))
    shape = [ctypes.c_uint(value) for value in (2, 1, 1, 32, 1, 1, 0)]
    assert driver.cuLaunchKernel(function, *shape, None, each, None) == 0
    packed = struct.pack("<QI", data.value, 65)
    buffer, size = ctypes.create_string_buffer(packed, len(packed)), ctypes.c_size_t(len(packed))
    extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(buffer), 2, ctypes.addressof(size), 0)
    shape[0] = ctypes.c_uint(3)
    assert driver.cuLaunchKernel(function, *shape, None, None, extra) == 0
    return {"data": data.value, "image": PTX.decode()}


run_scenario({"library": library, "module": module}[sys.argv[1]])

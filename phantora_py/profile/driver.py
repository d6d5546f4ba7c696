"""The calls of CUDA's driver and runtime that PyTorch has no words for, through ctypes.

Knows structures and numbers of CUDA's headers, and nothing of what they are used for.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

DRIVER = "libcuda.so.1"
# Sources: cuda.h and driver_types.h of CUDA 12.0 to 13.2.
_OUT_OF_MEMORY = 2
_DEVICE_LOCATION, _PINNED_ALLOCATION, _READ_AND_WRITE = 1, 1, 3
_COOPERATIVE, _CLUSTER = 2, 4  # attributes of launches
_MOST_SHARED_BYTES = 8  # attribute of functions, both of driver and runtime
_PARAMETER_BUFFER, _PARAMETER_BYTES = 1, 2  # CU_LAUNCH_PARAM_*
# What a kernel may use without asking for more.
_ORDINARY_SHARED_BYTES = 48 << 10


class Loaded(ctypes.Structure):
    """Where a library lies in memory, and the path that it was loaded from. Source: `struct
    link_map` in link.h of glibc, which begins so and is what dlopen returns.
    """

    _fields_ = [("base", ctypes.c_void_p), ("path", ctypes.c_char_p)]


def load(library: str) -> Loaded:
    """Loads it unless it is there already. Raises: OSError."""
    return Loaded.from_address(ctypes.CDLL(library)._handle)


class CallFailed(Exception):  # noqa: N818 - says what happened
    """A call returned an error, and the GPU still works."""


class _Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class _AllocationProperties(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("security", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    ]


class _Access(ctypes.Structure):
    _fields_ = [("location", _Location), ("flags", ctypes.c_int)]


class _Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint * 16)]


class _Configuration(ctypes.Structure):
    """CUlaunchConfig and cudaLaunchConfig_t, whose size of shared memory is 4 and 8 bytes: with
    what the first leaves free before the stream they are the same.
    """

    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint64),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("attribute_count", ctypes.c_uint),
    ]


class Shape:
    """How a kernel is launched: on the default stream."""

    def __init__(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        shared_bytes: int,
        cluster: Sequence[int],
        cooperative: bool,
    ) -> None:
        found = []
        if cooperative:
            found.append(_Attribute(_COOPERATIVE, 0, (ctypes.c_uint * 16)(1)))
        if tuple(cluster) != (1, 1, 1):
            found.append(_Attribute(_CLUSTER, 0, (ctypes.c_uint * 16)(*cluster)))
        self.shared_bytes = shared_bytes
        self._attributes = (_Attribute * len(found))(*found)
        self.configuration = _Configuration(
            (ctypes.c_uint * 3)(*grid),
            (ctypes.c_uint * 3)(*block),
            shared_bytes,
            None,
            self._attributes,
            len(found),
        )


class Arguments:
    """The parameters of a launch: their bytes one by one, or as one buffer."""

    def __init__(self, parameters: Sequence[bytes], packed: bool) -> None:
        self._bytes = [ctypes.create_string_buffer(one, len(one)) for one in parameters]
        addresses = [ctypes.addressof(one) for one in self._bytes]
        self.each, self.packed = None, None
        if packed:
            self._size = ctypes.c_size_t(len(parameters[0]))
            size_at = ctypes.addressof(self._size)
            words = (_PARAMETER_BUFFER, addresses[0], _PARAMETER_BYTES, size_at, 0)
            self.packed = (ctypes.c_void_p * len(words))(*words)
        else:
            self.each = (ctypes.c_void_p * len(addresses))(*addresses)


class Driver:
    """Both libraries, for the device that is current."""

    def __init__(self, cuda_major: int) -> None:
        self._driver = ctypes.CDLL(DRIVER)
        self._runtime = ctypes.CDLL(f"libcudart.so.{cuda_major}")
        self._runtime.cudaFuncGetName.argtypes = [ctypes.c_void_p, ctypes.c_void_p]

    def reserve(self, address: int, size_bytes: int) -> bool:
        """Addresses for memory to be laid at; False: the driver has them not to give."""
        found = ctypes.c_uint64()
        size = ctypes.c_size_t(size_bytes)
        hint, none = ctypes.c_uint64(address), ctypes.c_uint64(0)
        wanted = (ctypes.byref(found), size, ctypes.c_size_t(0), hint, none)
        if self._driver.cuMemAddressReserve(*wanted) != 0:
            return False
        if found.value == address:
            return True
        self._call("cuMemAddressFree", found, size)
        return False

    def create(self, device: int, size_bytes: int) -> int | None:
        """Physical memory; None: there is no more."""
        handle = ctypes.c_uint64()
        properties = _AllocationProperties(
            type=_PINNED_ALLOCATION, location=_Location(_DEVICE_LOCATION, device)
        )
        wanted = (ctypes.c_size_t(size_bytes), ctypes.byref(properties), ctypes.c_uint64(0))
        code = self._driver.cuMemCreate(ctypes.byref(handle), *wanted)
        if code == _OUT_OF_MEMORY:
            return None
        self._check("cuMemCreate", code)
        return handle.value

    def map(self, device: int, address: int, size_bytes: int, handle: int) -> None:
        """Lays the memory there."""
        where, size = ctypes.c_uint64(address), ctypes.c_size_t(size_bytes)
        rest = (ctypes.c_size_t(0), ctypes.c_uint64(handle), ctypes.c_uint64(0))
        self._call("cuMemMap", where, size, *rest)
        access = _Access(_Location(_DEVICE_LOCATION, device), _READ_AND_WRITE)
        self._call("cuMemSetAccess", where, size, ctypes.byref(access), ctypes.c_size_t(1))

    def zero(self, address: int, size_bytes: int) -> None:
        """Fills memory."""
        where, size = ctypes.c_uint64(address), ctypes.c_size_t(size_bytes)
        self._call("cuMemsetD8_v2", where, ctypes.c_ubyte(0), size)

    def write(self, address: int, content: bytes) -> None:
        """Copies from the host."""
        size = ctypes.c_size_t(len(content))
        self._call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), ctypes.c_char_p(content), size)

    def function(self, image: bytes, name: str) -> int:
        """A kernel of a code object. Raises: CallFailed."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(image))
        named = ctypes.c_char_p(name.encode())
        self._call("cuModuleGetFunction", ctypes.byref(function), module, named)
        assert function.value is not None
        return function.value

    def name_of(self, stub: int) -> str:
        """Of the kernel that the runtime knows by this host function. Raises: CallFailed."""
        name = ctypes.c_char_p()
        code = self._runtime.cudaFuncGetName(ctypes.byref(name), stub)
        self._check("cudaFuncGetName", code)
        return (name.value or b"").decode()

    def launch_function(self, function: int, shape: Shape, arguments: Arguments) -> None:
        """One of a code object. Raises: CallFailed."""
        configuration = ctypes.byref(shape.configuration)
        handle = ctypes.c_void_p(function)
        code = self._driver.cuLaunchKernelEx(
            configuration, handle, arguments.each, arguments.packed
        )
        self._check("cuLaunchKernelEx", code)

    def launch_stub(self, stub: int, shape: Shape, arguments: Arguments) -> None:
        """One of a library. Raises: CallFailed."""
        configuration = ctypes.byref(shape.configuration)
        wanted = (configuration, ctypes.c_void_p(stub), arguments.each)
        self._check("cudaLaunchKernelExC", self._runtime.cudaLaunchKernelExC(*wanted))

    def allow_shared(self, shape: Shape, *, function: int = 0, stub: int = 0) -> None:
        """As much dynamic shared memory as the launch takes. Raises: CallFailed."""
        if shape.shared_bytes <= _ORDINARY_SHARED_BYTES:
            return
        value = ctypes.c_int(shape.shared_bytes)
        if stub:
            set_attribute: Any = self._runtime.cudaFuncSetAttribute
        else:
            set_attribute = self._driver.cuFuncSetAttribute
        code = set_attribute(ctypes.c_void_p(stub or function), _MOST_SHARED_BYTES, value)
        self._check("cudaFuncSetAttribute", code)

    def _call(self, name: str, *arguments: Any) -> None:
        self._check(name, getattr(self._driver, name)(*arguments))

    def _check(self, name: str, code: int) -> None:
        if code != 0:
            self._runtime.cudaGetLastError()  # so that no later call reports it
            raise CallFailed(f"{name} returns error {code}")

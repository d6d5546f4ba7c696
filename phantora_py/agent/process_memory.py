"""Memory of another process, as the kernel copies it: that process does not notice."""

from __future__ import annotations

import ctypes
import errno
import os
import struct


class Unreadable(Exception):  # noqa: N818 - says what was found
    """There is no memory at an address, or not what should be there."""


class _Span(ctypes.Structure):
    """struct iovec of process_vm_readv(2)."""

    _fields_ = (("base", ctypes.c_void_p), ("size_bytes", ctypes.c_size_t))


_read = ctypes.CDLL(None, use_errno=True).process_vm_readv
_read.argtypes = (
    *(ctypes.c_int, ctypes.POINTER(_Span), ctypes.c_ulong),
    *(ctypes.POINTER(_Span), ctypes.c_ulong, ctypes.c_ulong),
)
_read.restype = ctypes.c_ssize_t


class ProcessMemory:
    """All methods raise Unreadable, PermissionError, or ProcessLookupError once it has ended."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def read(self, address: int, size_bytes: int) -> bytes:
        """The bytes there, all of them."""
        if not 0 < address < 1 << 47:  # user space of x86-64
            raise Unreadable
        buffer = ctypes.create_string_buffer(size_bytes)
        to = _Span(ctypes.addressof(buffer), size_bytes)
        span = _Span(address, size_bytes)
        count = _read(self._pid, ctypes.byref(to), 1, ctypes.byref(span), 1, 0)
        if count < 0 and ctypes.get_errno() in (errno.EPERM, errno.ESRCH):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        if count != size_bytes:
            raise Unreadable
        return buffer.raw

    def number(self, address: int, form: str) -> int:
        """One number in a form of `struct`."""
        value: int = struct.unpack(form, self.read(address, struct.calcsize(form)))[0]
        return value

    def pointer(self, address: int) -> int:
        """A pointer there."""
        return self.number(address, "<Q")

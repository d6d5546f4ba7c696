"""Pages of host memory: which of them anybody has touched, and how to make them read as zeros."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
from collections.abc import Iterator

PAGE_BYTES = mmap.PAGESIZE

# 64 bits for each page of the process, of which the highest says that there is a page, the next
# that it is swapped out. Source: Documentation/admin-guide/mm/pagemap.rst.
PAGEMAP = "/proc/self/pagemap"
_ENTRY_BYTES = 8
_IS_TOUCHED = bytes(byte >= 0b01000000 for byte in range(256))

_libc = ctypes.CDLL(None, use_errno=True)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)

_PR_SET_THP_DISABLE = 41  # prctl(2)


def forbid_huge_pages() -> None:
    """From now on this process pays for the pages it touches, not for 2 MiB around each of them.

    A kernel that is set to give huge pages unasked would else fill most of what is left untouched.
    """
    if _libc.prctl(_PR_SET_THP_DISABLE, *map(ctypes.c_ulong, (1, 0, 0, 0))) != 0:
        raise OSError(ctypes.get_errno(), "the kernel refuses prctl(PR_SET_THP_DISABLE)")


def require_pagemap() -> None:
    """Raises: OSError if the kernel does not tell which pages are touched."""
    _touched(0, 0)


def make_zero(pointer: int, size_bytes: int) -> bool:
    """Makes memory read as zeros; its whole pages are given back and cost nothing until touched.

    False: it is not anonymous memory of this process alone (a file's, shared), or it is locked.
    What it holds is lost then too: the caller has to write all of it.
    """
    begin, whole_bytes = _whole_pages(pointer, size_bytes)
    # MADV_FREE is refused outside private anonymous memory, where MADV_DONTNEED would bring back
    # what the file holds. Source: madvise(2).
    for advice in (mmap.MADV_FREE, mmap.MADV_DONTNEED):
        if _libc.madvise(begin, whole_bytes, advice) != 0:
            return False
    ctypes.memset(pointer, 0, begin - pointer)
    end = begin + whole_bytes
    ctypes.memset(end, 0, pointer + size_bytes - end)
    return True


def touched_bytes(pointer: int, size_bytes: int) -> int:
    """How much of the whole pages inside has been read or written since they were made zero.

    0 as well for what is mapped no more.
    """
    return _touched(*_whole_pages(pointer, size_bytes)).count(1) * PAGE_BYTES


def written_parts(pointer: int, size_bytes: int) -> Iterator[tuple[int, int]]:
    """Runs of pages that are not all zeros: offsets in bytes, from and to, in order.

    Of pages that the range has only in part, that part.
    """
    for part in touched_parts(pointer, size_bytes):
        if _is_written(pointer, *part):
            yield part


def touched_parts(pointer: int, size_bytes: int) -> Iterator[tuple[int, int]]:
    """Runs of pages that have been read or written since they were made zero, as above. What the
    range has of a page in part counts if it is not all zeros.
    """
    begin, whole_bytes = _whole_pages(pointer, size_bytes)
    first = begin - pointer
    if _is_written(pointer, 0, first):
        yield 0, first
    for run in re.finditer(rb"\x01+", _touched(begin, whole_bytes)):
        yield first + run.start() * PAGE_BYTES, first + run.end() * PAGE_BYTES
    if _is_written(pointer, first + whole_bytes, size_bytes):
        yield first + whole_bytes, size_bytes


def _is_written(pointer: int, start: int, end: int) -> bool:
    return bool(ctypes.string_at(pointer + start, end - start).strip(b"\0"))


def _touched(begin: int, whole_bytes: int) -> bytes:
    """One byte for each page, 1 if it is touched. Raises: OSError if the kernel does not tell."""
    pages, first = whole_bytes // PAGE_BYTES, begin // PAGE_BYTES
    # Opened anew: a descriptor that was inherited tells of the parent.
    with open(PAGEMAP, "rb", buffering=0) as pagemap:
        entries = os.pread(pagemap.fileno(), pages * _ENTRY_BYTES, first * _ENTRY_BYTES)
    return entries[_ENTRY_BYTES - 1 :: _ENTRY_BYTES].translate(_IS_TOUCHED)


def _whole_pages(pointer: int, size_bytes: int) -> tuple[int, int]:
    """Begin and size of the whole pages inside; there must be one."""
    begin = -(-pointer // PAGE_BYTES) * PAGE_BYTES
    end = (pointer + size_bytes) // PAGE_BYTES * PAGE_BYTES
    return begin, end - begin

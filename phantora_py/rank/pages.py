"""Pages of host memory: which of them anybody has touched, and how to make them read as zeros."""

from __future__ import annotations

import ctypes
import mmap

PAGE_BYTES = mmap.PAGESIZE

_libc = ctypes.CDLL(None, use_errno=True)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)

_PR_SET_THP_DISABLE = 41  # prctl(2)


def forbid_huge_pages() -> None:
    """From now on this process pays for the pages it touches, not for 2 MiB around each of them.

    A kernel that is set to give huge pages unasked would else fill most of what is left untouched.
    """
    if _libc.prctl(_PR_SET_THP_DISABLE, *map(ctypes.c_ulong, (1, 0, 0, 0))) != 0:
        raise OSError(ctypes.get_errno(), "the kernel refuses prctl(PR_SET_THP_DISABLE)")


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
    begin, whole_bytes = _whole_pages(pointer, size_bytes)
    present = ctypes.create_string_buffer(whole_bytes // PAGE_BYTES)
    if _libc.mincore(begin, whole_bytes, present) != 0:
        return 0
    return (len(present) - present.raw.count(b"\0")) * PAGE_BYTES


def _whole_pages(pointer: int, size_bytes: int) -> tuple[int, int]:
    """Begin and size of the whole pages inside; there must be one."""
    begin = -(-pointer // PAGE_BYTES) * PAGE_BYTES
    end = (pointer + size_bytes) // PAGE_BYTES * PAGE_BYTES
    return begin, end - begin

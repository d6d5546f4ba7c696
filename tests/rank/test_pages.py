"""Pages of host memory are seen and given back as the kernel has them."""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path

import pytest

from phantora_py.rank.pages import PAGE_BYTES, make_zero, touched_bytes, written_parts

PAGES = 64
SIZE_BYTES = PAGES * PAGE_BYTES


def address_of(memory: mmap.mmap) -> int:
    """Where a mapping lies."""
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def anonymous() -> mmap.mmap:
    """Memory of this process alone."""
    memory = mmap.mmap(-1, SIZE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    return memory


def test_reads_and_writes_touch_whole_pages() -> None:
    """Fresh memory is untouched; pages that the range has only in part do not count."""
    memory = anonymous()
    begin = address_of(memory)
    assert touched_bytes(begin, SIZE_BYTES) == 0
    assert memory[5 * PAGE_BYTES] == 0
    memory[7 * PAGE_BYTES] = 1
    memory[0] = 1
    assert touched_bytes(begin, SIZE_BYTES) == 3 * PAGE_BYTES
    assert touched_bytes(begin + 1, SIZE_BYTES - 1) == 2 * PAGE_BYTES


def test_parts_that_hold_something() -> None:
    """Runs of pages, cut to the range; what was only read, or is zeros, is none."""
    memory = anonymous()
    for page in (2, 5, 6, 63):
        memory[page * PAGE_BYTES] = 1
    assert memory[9 * PAGE_BYTES] == 0
    begin, end = PAGE_BYTES // 2, SIZE_BYTES - 10
    whole = PAGE_BYTES - begin
    assert list(written_parts(address_of(memory) + begin, end - begin)) == [
        (whole + PAGE_BYTES, whole + 2 * PAGE_BYTES),
        (whole + 4 * PAGE_BYTES, whole + 6 * PAGE_BYTES),
        (whole + 62 * PAGE_BYTES, end - begin),
    ]


def test_zeros_of_an_odd_range() -> None:
    """All of the range is zero and its whole pages are given back; what is around it stays."""
    memory = anonymous()
    memory[:] = b"x" * SIZE_BYTES
    begin, end = 100, SIZE_BYTES - 200
    assert make_zero(address_of(memory) + begin, end - begin)
    assert touched_bytes(address_of(memory) + begin, end - begin) == 0
    assert memory[:] == b"x" * begin + bytes(end - begin) + b"x" * 200


@pytest.mark.parametrize("flags", [mmap.MAP_PRIVATE, mmap.MAP_SHARED])
def test_memory_of_a_file_is_refused(tmp_path: Path, flags: int) -> None:
    """There the kernel would bring back the file, or change it for others."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * SIZE_BYTES)
    with path.open("r+b") as file:
        memory = mmap.mmap(file.fileno(), SIZE_BYTES, flags=flags)
    assert not make_zero(address_of(memory), SIZE_BYTES)
    assert path.read_bytes() == b"x" * SIZE_BYTES


def test_unmapped_memory_is_untouched() -> None:
    """A program may have given its memory back behind our back."""
    memory = anonymous()
    memory[:] = b"x" * SIZE_BYTES
    begin = address_of(memory)
    memory.close()
    assert touched_bytes(begin, SIZE_BYTES) == 0

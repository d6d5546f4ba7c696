"""What a shared library asks of others: the parts of ELF that say so, read without loading it.

Our own reader because of size: PyTorch's libraries have hundreds of thousands of symbols, which
numpy takes at once. Knows 64-bit little-endian files only, as all are that can run here.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

# Sources: System V ABI, chapters 4 (object files) and 5 (dynamic linking).
_MAGIC = b"\x7fELF\x02\x01"
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = np.dtype(
    [
        *(("name", "<u4"), ("type", "<u4"), ("flags", "<u8"), ("address", "<u8")),
        *(("offset", "<u8"), ("size", "<u8"), ("link", "<u4"), ("info", "<u4")),
        *(("align", "<u8"), ("entry_size", "<u8")),
    ]
)
_SYMBOL = np.dtype(
    [
        *(("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2")),
        *(("value", "<u8"), ("size", "<u8")),
    ]
)
_DYNAMIC = np.dtype([("tag", "<i8"), ("value", "<u8")])
_DYNAMIC_SECTION, _DYNAMIC_SYMBOLS = 6, 11
_UNDEFINED = 0
_NEEDED = 1


@dataclass(frozen=True)
class SharedLibrary:
    """One file."""

    path: Path
    needed: tuple[str, ...]
    """SONAMEs of the libraries that the loader loads with it."""
    imports: frozenset[str]
    """Names of the symbols that it wants from others."""
    constants: bytes
    """Its read-only data, where names are that it looks up while it runs."""


def read_library(path: Path) -> SharedLibrary | None:
    """The library in `path`; None for a file that is none.

    Raises: OSError if it cannot be read.
    """
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            return None
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
            try:
                return _read(path, image)
            except (IndexError, ValueError, struct.error):  # cut off, or without sections
                return None


def _read(path: Path, image: mmap.mmap) -> SharedLibrary:
    header = _HEADER.unpack(image[: _HEADER.size])
    offset, count, names_at = header[6], header[12], header[13]
    size = count * _SECTION.itemsize
    sections = np.frombuffer(image[offset : offset + size], _SECTION)

    def content(section: npt.NDArray[np.void]) -> bytes:
        begin = int(section["offset"])
        return image[begin : begin + int(section["size"])]

    needed: list[str] = []
    imports: list[str] = []
    constants = b""
    section_names = content(sections[names_at])
    for section in sections:
        if section["type"] == _DYNAMIC_SYMBOLS:
            symbols = np.frombuffer(content(section), _SYMBOL)[1:]
            wanted = symbols["name"][symbols["section"] == _UNDEFINED]
            imports += _names(content(sections[int(section["link"])]), wanted)
        elif section["type"] == _DYNAMIC_SECTION:
            entries = np.frombuffer(content(section), _DYNAMIC)
            wanted = entries["value"][entries["tag"] == _NEEDED]
            needed += _names(content(sections[int(section["link"])]), wanted)
        elif _name(section_names, int(section["name"])).startswith(".rodata"):
            constants += content(section)
    return SharedLibrary(path, tuple(needed), frozenset(imports), constants)


def _names(table: bytes, offsets: npt.NDArray[np.generic]) -> list[str]:
    return [_name(table, int(offset)) for offset in offsets]


def _name(table: bytes, offset: int) -> str:
    return table[offset : table.index(b"\0", offset)].decode("ascii", "replace")

"""Fat binaries with one cubin, which tells how large the parameters of its kernels are.

Layouts: csrc/shim/core/fat_binary.h and cubin.h.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import struct

_ELF_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_PARAMETER_INFO = 0x17
_MACHINE_CODE = 2
_ZSTD = 0x8000


def cubin(kernels: dict[str, list[int]]) -> bytes:
    """`kernels`: bytes of each parameter, by mangled name."""
    sections = [("", b"")]
    for name, sizes in kernels.items():
        info, offset = b"", 0
        for ordinal, size in enumerate(sizes):
            info += struct.pack("<BBHIHHI", 4, _PARAMETER_INFO, 12, 0, ordinal, offset, size << 18)
            offset += size
        sections.append((f".nv.info.{name}", info))
    names = b"".join(name.encode() + b"\0" for name, _ in sections) + b".shstrtab\0"
    sections.append((".shstrtab", names))
    content, headers = b"", b""
    for name, data in sections:
        place = names.index(name.encode() + b"\0") if name else 0
        begin = _ELF_HEADER.size + len(content)
        headers += _SECTION.pack(place, 1, 0, 0, begin, len(data), 0, 0, 1, 0)
        content += data
    table = _ELF_HEADER.size + len(content)
    identity = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    header = _ELF_HEADER.pack(
        identity, 2, 190, 1, 0, 0, table, 0, 64, 0, 0, 64, len(sections), len(sections) - 1
    )
    return header + content + headers


def fat_binary(image: bytes, *, packed: bool = False) -> bytes:
    """`packed`: as CUDA 13 does."""
    data = _zstd(image) if packed else image
    padded = data.ljust((len(data) + 7) // 8 * 8, b"\0")
    flags, unpacked_bytes = (0x11 | _ZSTD, len(image)) if packed else (0x11, 0)
    sizes = (64, len(padded), len(data) if packed else 0)
    entry = struct.pack("<HHIQI", _MACHINE_CODE, 0x101, *sizes)
    entry += struct.pack("<IHHIIIQQQ", 0, 0, 8, 80, 0, 0, flags, 0, unpacked_bytes)
    header = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entry) + len(padded))
    return header + entry + padded


def has_zstd() -> bool:
    """Whether this machine has the library that packs and unpacks."""
    return ctypes.util.find_library("zstd") is not None


def _zstd(data: bytes) -> bytes:
    library = ctypes.CDLL("libzstd.so.1")
    library.ZSTD_compressBound.restype = library.ZSTD_compress.restype = ctypes.c_size_t
    library.ZSTD_compressBound.argtypes = [ctypes.c_size_t]
    library.ZSTD_compress.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_int,
    ]
    room = ctypes.create_string_buffer(library.ZSTD_compressBound(len(data)))
    size = library.ZSTD_compress(room, len(room), data, len(data), 3)
    return room.raw[:size]

"""Reads a zip archive whose writer was killed: members follow each other from the start, and the
directory that should follow them is not there.

Only what `phantora_py.agent.datafile` writes is understood: sizes stand before the members.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

# Source: APPNOTE.TXT of PKWARE, 4.3.7. Signature, version, flags, method, time, date, CRC-32,
# compressed size, size, length of the name, length of the extra field.
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_SIGNATURE = b"PK\3\4"
_DIRECTORY = b"PK\1\2"

# What zipfile raises for an archive that it cannot read.
UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError),
    *(OverflowError, RuntimeError, ValueError),
)


@dataclass(frozen=True)
class _Member:
    offset: int
    compressed_bytes: int
    size_bytes: int
    method: int
    crc: int


class BrokenArchive:
    """The whole members of an archive that broke off."""

    def __init__(self, path: Path) -> None:
        """Raises: OSError if it cannot be read."""
        self._path = path
        self._members: dict[str, _Member] = {}
        self.cut = ""
        """What of it is missing, if a complete member or directory was cut: no writer leaves that,
        whose members are whole before their sizes are told."""
        with path.open("rb") as file:
            offset: int | None = 0
            while offset is not None:
                offset = self._scan(file, path.stat().st_size, offset)

    def _scan(self, file: BinaryIO, file_bytes: int, offset: int) -> int | None:
        """Notes the member whose header is at `offset`; where it ends, or None if nothing whole is
        there.
        """
        file.seek(offset)
        header = file.read(_LOCAL_HEADER.size)
        if len(header) < _LOCAL_HEADER.size:
            return None
        fields = _LOCAL_HEADER.unpack(header)
        signature, method, crc = fields[0], fields[3], fields[6]
        packed, size, name, extra = map(int, fields[7:])
        content = offset + _LOCAL_HEADER.size + name + extra
        # The directory is written when the file is complete.
        if signature == _DIRECTORY:
            self.cut = "its directory"
        # Sizes are filled in once a member is written, and none is empty.
        if signature != _SIGNATURE or size == 0 or packed == 0:
            return None
        text = file.read(name).decode(errors="replace")
        if content + packed > file_bytes:
            self.cut = f"its member {text}"
            return None
        self._members[text] = _Member(content, packed, size, method, crc)
        return content + packed

    def namelist(self) -> list[str]:
        """Names of the members, in the order in which they were written."""
        return list(self._members)

    def sizes(self) -> dict[str, int]:
        """Of the members, as their headers tell them."""
        return {name: member.size_bytes for name, member in self._members.items()}

    def read(self, name: str) -> bytes:
        """A member. Raises: KeyError if it is missing, BadZipFile if it is damaged."""
        member = self._members[name]
        with self._path.open("rb") as file:
            file.seek(member.offset)
            packed = file.read(member.compressed_bytes)
        is_packed = member.method == zipfile.ZIP_DEFLATED
        content = packed
        if is_packed:  # no more than its header says
            content = zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, member.size_bytes + 1)
        if zlib.crc32(content) != member.crc or len(content) != member.size_bytes:
            raise zipfile.BadZipFile(f"Bad CRC-32 for file {name!r}")
        return content

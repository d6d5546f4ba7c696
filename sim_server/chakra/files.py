"""Files of Chakra: messages, each after its length; and attributes as values."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from google.protobuf.message import DecodeError

from sim_server.chakra.execution_trace_pb2 import AttributeProto, GlobalMetadata, Node
from sim_server.errors import UsageError

VERSION = "0.0.4"
"""Of the schema that is written."""
VERSIONS = (VERSION, "1.0", "1.0.0")
"""That are read: 1.0 has renamed nothing that is used here (assumed)."""
_MOST_LENGTH_BYTES = 5
_MOST_BYTES = 1 << 32
_LISTS = {"int32_list", "int64_list", "uint64_list", "bool_list", "string_list"}

Value = bool | int | float | str | list[int] | list[bool] | list[str]


@dataclass
class Trace:
    """A file of one rank."""

    path: Path
    metadata: Mapping[str, Value]
    nodes: list[Node]


def attribute(name: str, value: Value | Sequence[int]) -> AttributeProto:
    """A named value: whole numbers with 64 bits, as tools read most of what they know."""
    if isinstance(value, bool):
        return AttributeProto(name=name, bool_val=value)
    if isinstance(value, int):
        return AttributeProto(name=name, int64_val=value)
    if isinstance(value, float):
        return AttributeProto(name=name, double_val=value)
    if isinstance(value, str):
        return AttributeProto(name=name, string_val=value)
    made = AttributeProto(name=name)
    made.int64_list.values.extend(map(int, value))
    if not value:
        made.int64_list.SetInParent()
    return made


def values_of(attributes: Iterable[AttributeProto]) -> dict[str, Value]:
    """By name. An attribute of a type that is not read here is left out."""
    found: dict[str, Value] = {}
    for one in attributes:
        kind = one.WhichOneof("value")
        if kind is not None:
            value = getattr(one, kind)
            found[one.name] = list(value.values) if kind in _LISTS else value
    return found


def write_trace(file: BinaryIO, metadata: Mapping[str, Value], nodes: Iterable[Node]) -> int:
    """Writes a file. Returns: its bytes."""
    head = GlobalMetadata(version=VERSION)
    head.attr.extend(attribute(name, value) for name, value in metadata.items())
    written = 0
    for message in (head, *nodes):
        content = message.SerializeToString(deterministic=True)
        written += file.write(_varint(len(content)) + content)
    return written


def read_trace(path: Path) -> Trace:
    """Reads a file, packed by gzip or not.

    Raises: UsageError if it cannot be read, is cut short, is of another format or version.
    """
    content = _read(path)
    if not content:
        raise UsageError(f"{path} is empty: a Chakra trace begins with its metadata.")
    messages = _messages(path, memoryview(content))
    head = GlobalMetadata()
    try:
        head.ParseFromString(next(messages))
    except (DecodeError, StopIteration) as error:
        raise UsageError(f"{path} is not a Chakra trace: it has no metadata ({error})") from error
    if head.version not in VERSIONS:
        raise UsageError(
            f"{path} is not a Chakra trace of a known version: its metadata says "
            f"{head.version[:20]!r}, and {' and '.join(VERSIONS[:2])} are read."
        )
    nodes = []
    for number, message in enumerate(messages):
        try:
            nodes.append(Node.FromString(message))
        except DecodeError as error:
            raise UsageError(f"{path} is damaged: node {number} of it is none") from error
    return Trace(path, values_of(head.attr), nodes)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            is_packed = file.read(2) == b"\x1f\x8b"
        if not is_packed:
            return path.read_bytes()
        with gzip.open(path) as unpacked:
            content = unpacked.read(_MOST_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UsageError(f"{path} is cut short or damaged: {error}") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    if len(content) > _MOST_BYTES:
        raise UsageError(f"{path} is larger than {_MOST_BYTES:,} bytes when unpacked.")
    return content


def _messages(path: Path, content: memoryview) -> Iterator[bytes]:
    at = 0
    while at < len(content):
        length, at = _length(path, content, at)
        if length > len(content) - at:
            raise UsageError(
                f"{path} is cut short, or no Chakra trace: {length:,} bytes should follow byte "
                f"{at:,}, and {len(content) - at:,} do."
            )
        yield bytes(content[at : at + length])
        at += length


def _length(path: Path, content: memoryview, at: int) -> tuple[int, int]:
    """A length and where its message begins."""
    length = 0
    for position, byte in enumerate(content[at : at + _MOST_LENGTH_BYTES]):
        length |= (byte & 0x7F) << (7 * position)
        if byte < 0x80:
            return length, at + position + 1
    raise UsageError(f"{path} is cut short, or no Chakra trace: no length at byte {at:,}.")


def _varint(value: int) -> bytes:
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)

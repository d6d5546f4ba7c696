"""Makes what follows from the schema of the record stream: a header for C++ and a page of docs.

python tools/record_schema.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum, IntFlag
from pathlib import Path

from sim_server.records import RECORD_TYPE, schema
from sim_server.records.schema import LAYOUTS, WAIT_LAYOUTS, Arg, Layout, RecordKind

ROOT = Path(__file__).resolve().parents[1]
HEADER = ROOT / "csrc/protocol/record_kinds.h"
PAGE = ROOT / "docs/record-kinds.md"
Enumeration = type[IntEnum] | type[IntFlag]

_HEADER_HEAD = """\
// What one rank tells the simulator: every kind of record, and where it keeps what it says.
// Made by tools/record_schema.py from sim_server/records/schema.py, which says what it means.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ph {
"""
_PAGE_HEAD = """\
# Records

Every kind of record that a rank can write, and what its fields hold. Made by
`python tools/record_schema.py` from `sim_server/records/schema.py`; a test compares.
[Payloads](records.md) has the JSON that follows some of them.

A record is a cell of 64 bytes, little endian:

| field | bytes | holds |
| --- | --- | --- |
| `kind` | 1 | see below |
| `flags` | 1 | see below |
| `device` | 2 | the CUDA device as the rank numbers it |
| `stream` | 4 | the stream in the rank; 0 is the legacy default stream of `device` |
| `host_gap_ns` | 8 | host time since the record before |
| `id` | 4 | see below |
| `site` | 4 | the line of the program; 0: unknown |
| `arg` | 5 x 8 | see below |
"""
_TYPES = {1: "std::uint8_t", 2: "std::uint16_t", 4: "std::uint32_t", 8: "std::uint64_t"}


def enumerations() -> list[Enumeration]:
    """Of the schema, in its order."""
    return [
        one
        for name, one in vars(schema).items()
        if isinstance(one, type) and issubclass(one, (IntEnum, IntFlag))
        if one.__module__ == schema.__name__
        if not name.startswith("_")
    ]


def camel(name: str) -> str:
    """UPPER_CASE or lower_case as C++ writes enumerators."""
    return "".join(word.capitalize() for word in name.lower().split("_"))


def header() -> Iterator[str]:
    """The C++ header, line by line."""
    yield _HEADER_HEAD
    yield f"inline constexpr std::uint32_t kProtocolVersion = {schema.PROTOCOL_VERSION};"
    yield f"inline constexpr std::size_t kCellBytes = {schema.CELL_BYTES};"
    yield f"inline constexpr std::size_t kRecordArgs = {schema.ARGS};"
    yield f"inline constexpr std::uint8_t kFirstWithoutPayload = {schema.FIRST_WITHOUT_PAYLOAD};"
    yield f"inline constexpr std::uint64_t kPremulSum = {schema.PREMUL_SUM};"
    for one in enumerations():
        yield from _enumeration(one)
    yield from _record()
    yield "\n// Positions in `arg`, by the kind of record."
    yield _positions("Payload", LAYOUTS[RecordKind.SIGNATURE].args)
    for kind, layout in LAYOUTS.items():
        if layout.args and not kind.has_payload:
            yield _positions(camel(kind.name), layout.args)
    yield "\n// And by the kind of wait."
    for wait, layout in WAIT_LAYOUTS.items():
        if layout.args:
            yield _positions(f"{camel(wait.name)}Wait", layout.args)
    yield "\n}  // namespace ph"


def _enumeration(one: Enumeration) -> Iterator[str]:
    name, width = one.__name__, _TYPES[_width(one)]
    if issubclass(one, IntFlag):
        prefix = f"k{name.removesuffix('Flags')}"
        members = ", ".join(f"{prefix}{camel(each.name or '')} = {each.value}" for each in one)
        yield f"\nenum {name} : {width} {{ {members} }};"
        return
    yield f"\nenum class {name} : {width} {{"
    for each in one:
        if what := getattr(each, "what", ""):
            yield from _comment(what)
        yield f"  {camel(each.name)} = {each.value},"
    yield "};"


def _comment(text: str) -> Iterator[str]:
    line = "  //"
    for word in text.split():
        if len(line) + len(word) > 118:
            yield line
            line = "  //"
        line += f" {word}"
    yield line


def _width(one: Enumeration) -> int:
    """Bytes of the field that holds it."""
    if one is RecordKind or any(layout.flags is one for layout in LAYOUTS.values()):
        return 1
    return 4


def _record() -> Iterator[str]:
    yield "\nstruct alignas(kCellBytes) Record {"
    for name in RECORD_TYPE.names or ():
        field = RECORD_TYPE[name]
        kind = "RecordKind" if name == "kind" else _TYPES[field.base.itemsize]
        yield f"  {kind} {name}{'[kRecordArgs]' if field.shape else ''};"
    yield "};"
    yield "static_assert(sizeof(Record) == kCellBytes);"


def _positions(name: str, args: Mapping[str, Arg]) -> str:
    members = ", ".join(f"{camel(arg)} = {place.position}" for arg, place in args.items())
    return f"struct {name}Arg {{\n  enum : std::size_t {{ {members} }};\n}};"


def page() -> Iterator[str]:
    """The page, line by line."""
    yield _PAGE_HEAD
    yield "## Kinds\n\n| kind | what it says | fields |\n| --- | --- | --- |"
    for kind, layout in LAYOUTS.items():
        yield _row(kind, kind.what, layout)
    yield "\n## Waits\n\nThe `id` of a wait.\n"
    yield "| kind | it ends when | fields |\n| --- | --- | --- |"
    for wait, layout in WAIT_LAYOUTS.items():
        yield _row(wait, wait.what, layout)
    shown = {RecordKind, schema.WaitKind}
    for one in enumerations():
        if one not in shown:
            yield f"\n## {one.__name__}\n\n{' '.join((one.__doc__ or '').split())}\n"
            for each in one:
                what = getattr(each, "what", "")
                yield f"- {each.value}: {each.name}{what and ', '}{what}"


def _row(kind: IntEnum, what: str, layout: Layout) -> str:
    fields = ["`stream`"] if layout.on_stream else []
    for name, held in (("flags", layout.flags), ("id", layout.id)):
        if held:
            fields.append(f"`{name}`: {held if isinstance(held, str) else held.__name__}")
    fields += [
        f"`{name}` (`arg[{place.position}]`): {place.what}" for name, place in layout.args.items()
    ]
    return f"| {kind.value} {kind.name} | {what} | {'; '.join(fields)} |"


def main() -> None:
    """Writes both."""
    HEADER.write_text("\n".join(header()) + "\n", encoding="utf-8")
    PAGE.write_text("\n".join(page()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

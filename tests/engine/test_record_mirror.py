"""sim_server.records is records.h, value by value."""

import re
from enum import IntEnum, IntFlag
from pathlib import Path

import pytest

from sim_server import records

HEADER = (Path(__file__).parents[2] / "csrc/protocol/records.h").read_text()
CODE = re.sub(r"//.*", "", HEADER)


def header_enum(name: str) -> dict[str, int]:
    """Enumerators of the header, in Python's spelling."""
    found = re.search(rf"enum (?:class )?{name} : [\w:]+ {{(.*?)}};", CODE, re.DOTALL)
    assert found is not None
    pairs = re.findall(r"(\w+) = (\d+)", found[1])
    return {_upper(key): int(value) for key, value in pairs}


def _upper(name: str) -> str:
    name = re.sub(r"^k(Stream|Event|Copy|Wait)(?=[A-Z])", "", name)
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


ENUMS = [
    value
    for value in vars(records).values()
    if isinstance(value, type) and issubclass(value, int) and value not in (IntEnum, IntFlag)
]


@pytest.mark.parametrize("mirror", ENUMS, ids=lambda mirror: mirror.__name__)
def test_an_enumeration_equals_the_headers(mirror: type[IntEnum]) -> None:
    """Every enumerator, and no other."""
    assert {member.name: member.value for member in mirror} == header_enum(mirror.__name__)


def test_every_enumeration_of_the_header_is_mirrored() -> None:
    """None is missing in Python."""
    names = re.findall(r"enum (?:class )?(\w+) :", CODE)
    assert sorted(names) == sorted(mirror.__name__ for mirror in ENUMS)


def test_constants_and_layout_equal_the_headers() -> None:
    """Version, sizes, and the fields of a cell in their order."""
    assert f"kProtocolVersion = {records.PROTOCOL_VERSION};" in CODE
    assert f"kCellBytes = {records.CELL_BYTES};" in CODE
    assert f"kPremulSum = {records.PREMUL_SUM};" in CODE
    body = re.search(r"struct alignas\(kCellBytes\) Record {(.*?)};", CODE, re.DOTALL)
    assert body is not None
    widths = {
        "std::uint8_t": 1,
        "RecordKind": 1,
        "std::uint16_t": 2,
        "std::uint32_t": 4,
        "std::uint64_t": 8,
    }
    fields = re.findall(r"([\w:]+) (\w+)(?:\[(\d+)\])?;", body[1])
    expected = [(name, widths[kind] * int(count or 1)) for kind, name, count in fields]
    dtype = records.RECORD_TYPE
    assert [(name, dtype[name].itemsize) for name in dtype.names or ()] == expected
    assert dtype.itemsize == records.CELL_BYTES

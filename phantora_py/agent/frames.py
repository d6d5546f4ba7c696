"""CPython's frames in the memory of another process.

`layout`: addresses and offsets as csrc/shim/python/python_layout.cc gives them, which knows
CPython's versions and has checked its own account of this interpreter.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from phantora_py.agent.process_memory import ProcessMemory, Unreadable

_OBJECT_TYPE = 8
_SIZE = 16  # of what has a variable size: bytes, code
_BYTES_CONTENT = 32
_TEXT_LENGTH = 16
_TEXT_STATE = 32
_TEXT_CODINGS = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}
_OWNED_BY_C_STACK = 3  # the entry of an evaluation loop, no frame of the program
_UNIT_BYTES = 2  # of an instruction

# More than any program has (assumed): what is not so was read amid a change.
_DEEPEST = 1 << 14
_LONGEST_TEXT = 1 << 13
_LONGEST_TABLE_BYTES = 1 << 22
_MOST_BITS = 64  # of a number of lines

Layout = Mapping[str, int]


class Frame(NamedTuple):
    """A frame of a Python function, by its address, with its code object and its instruction."""

    address: int
    code: int
    instruction: int

    def is_same(self, other: Frame) -> bool:
        """Whether both are the same frame, perhaps at another line."""
        return self[:2] == other[:2]


def look(memory: ProcessMemory, layout: Layout, codes: set[int]) -> list[Frame]:
    """The main thread's frames, innermost first. `codes`: addresses of code objects, which each
    look adds to: the quicker it is, the less changes meanwhile. Raises: Unreadable.
    """
    frame = memory.pointer(layout["thread"] + layout["thread_frames"])
    if layout["cframe_current"] >= 0:
        frame = memory.pointer(frame + layout["cframe_current"])
    frames: list[Frame] = []
    offsets = [value for name, value in layout.items() if name.startswith("frame_")]
    frame_bytes = max(offsets) + 8
    for _ in range(_DEEPEST):
        if frame == 0:
            return frames
        content = memory.read(frame, frame_bytes)
        owner = content[layout["frame_owner"]] if layout["frame_owner"] >= 0 else 0
        (code,) = struct.unpack_from("<Q", content, layout["frame_code"])
        if code not in codes and memory.pointer(code + _OBJECT_TYPE) == layout["code_type"]:
            codes.add(code)
        if owner != _OWNED_BY_C_STACK and code in codes:
            frames.append(Frame(frame, code, _instruction(content, layout)))
        (frame,) = struct.unpack_from("<Q", content, layout["frame_previous"])
    raise Unreadable


def common(inner: Sequence[Frame], outer: Sequence[Frame]) -> list[Frame]:
    """The outer frames that two looks share, as the second saw them."""
    count = 0
    for one, other in zip(reversed(inner), reversed(outer), strict=False):
        if not one.is_same(other):
            break
        count += 1
    return list(outer[len(outer) - count :])


def line_of(memory: ProcessMemory, layout: Layout, frame: Frame) -> str:
    """`file:line function`. Raises: Unreadable."""
    code = memory.read(frame.code, max(layout["code_file"], layout["code_name"]) + 8)
    (file,) = struct.unpack_from("<Q", code, layout["code_file"])
    (name,) = struct.unpack_from("<Q", code, layout["code_name"])
    number = _line_number(memory, layout, frame)
    return f"{_text(memory, layout, file)}:{number} {_text(memory, layout, name)}"


def _instruction(content: bytes, layout: Layout) -> int:
    """Of a frame: an address, in 3.10 the number of an instruction."""
    form = "<i" if layout["code_instructions"] < 0 else "<Q"
    (found,) = struct.unpack_from(form, content, layout["frame_instruction"])
    return int(found)


def _line_number(memory: ProcessMemory, layout: Layout, frame: Frame) -> int:
    first = memory.number(frame.code + layout["code_first_line"], "<i")
    table = memory.pointer(frame.code + layout["code_line_table"])
    size_bytes = memory.number(table + _SIZE, "<q")
    if not 0 <= size_bytes <= _LONGEST_TABLE_BYTES:
        raise Unreadable
    content = memory.read(table + _BYTES_CONTENT, size_bytes) if size_bytes else b""
    if layout["code_instructions"] < 0:
        offset = frame.instruction * _UNIT_BYTES
        ranges = _ranges_of_pairs(content)
    else:
        offset = frame.instruction - frame.code - layout["code_instructions"]
        ranges = _ranges_of_locations(content)
    line = found = first
    begin = 0
    for range_bytes, step in ranges:
        if begin > offset:
            break
        if step is not None:  # it has a line
            line += step
            found = line
        begin += range_bytes
    # A function that has not begun is before its first instruction.
    if not -_UNIT_BYTES <= offset < max(begin, 1):
        raise Unreadable
    return found or first  # since 3.11 a module begins in line 0


def _ranges_of_pairs(table: bytes) -> Iterator[tuple[int, int | None]]:
    """Of 3.10: bytes of code, and how many lines further they are. Source: PEP 626."""
    if len(table) % 2:
        raise Unreadable
    for range_bytes, step in struct.iter_unpack("<Bb", table):
        yield range_bytes, None if step == -128 else step


def _ranges_of_locations(table: bytes) -> Iterator[tuple[int, int | None]]:
    """Since 3.11. Source: Objects/locations.md of CPython."""
    position = 0
    while position < len(table):
        head = table[position]
        kind, range_bytes = head >> 3 & 15, (head & 7) + 1
        position += 1
        step: int | None = 0
        if kind == 15:
            step = None
        elif kind >= 13:
            step = _signed_number(table, position)
        elif kind >= 10:
            step = kind - 10
        while position < len(table) and table[position] < 0x80:
            position += 1
        yield range_bytes * _UNIT_BYTES, step


def _signed_number(table: bytes, position: int) -> int:
    """Six bits a byte, the lowest first, of which the very lowest is the sign.

    Raises: Unreadable
    """
    value = shift = 0
    while position < len(table):
        byte = table[position]
        value |= (byte & 63) << shift
        if not byte & 64:
            break
        shift += 6
        if shift > _MOST_BITS:
            raise Unreadable
        position += 1
    return -(value >> 1) if value & 1 else value >> 1


def _text(memory: ProcessMemory, layout: Layout, address: int) -> str:
    """A str. Raises: Unreadable if there is none that a file or a function could be called."""
    length = memory.number(address + _TEXT_LENGTH, "<q")
    state = memory.number(address + _TEXT_STATE, "<I")
    # Bits: 2 whether it is interned, 3 the bytes of a character, 1 compact, 1 ASCII.
    kind, is_compact, is_ascii = state >> 2 & 7, state >> 5 & 1, state >> 6 & 1
    if not 0 < length <= _LONGEST_TEXT or kind not in _TEXT_CODINGS or not is_compact:
        raise Unreadable
    content = address + layout["text_ascii" if is_ascii else "text_wide"]
    return memory.read(content, length * kind).decode(_TEXT_CODINGS[kind], "replace")

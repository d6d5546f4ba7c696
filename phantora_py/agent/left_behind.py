"""What a rank has left behind of its interpreter, for others to read its memory by.

The rank owns the file, so it may hold anything by now, or be no file at all: all of it is checked.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from phantora_py.agent.process_memory import Unreadable

_MOST_BYTES = 1 << 14
_MOST_ADDRESS = 1 << 47  # user space of x86-64
_MOST_OFFSET = 1 << 12  # of a field in a structure of CPython's (assumed)
_ADDRESSES = ("thread", "code_type")
# As csrc/shim/python/python_layout.cc names them.
_OFFSETS = (
    *("thread_frames", "frame_code", "frame_previous", "frame_instruction", "code_file"),
    *("code_name", "code_first_line", "code_line_table", "text_ascii", "text_wide"),
)
_OFFSETS_OR_NONE = ("cframe_current", "frame_owner", "code_instructions")


class LeftBehind(NamedTuple):
    """By one rank. `pid`: in its own namespace. `call`: where the name of its call is pointed to.
    `python`: addresses and offsets of its interpreter, nothing if it has none.
    """

    pid: int
    call: int
    python: Mapping[str, int]


def left_behind(path: Path) -> LeftBehind:
    """Raises: FileNotFoundError; Unreadable, if a rank of ours would not write that."""
    try:
        found = json.loads(_content(path))
        python = found.get("python", {})
        if python:
            _check(python, _ADDRESSES, 0, _MOST_ADDRESS)
            _check(python, _OFFSETS, 0, _MOST_OFFSET)
            _check(python, _OFFSETS_OR_NONE, -1, _MOST_OFFSET)
        _check(found, ("pid", "call"), 0, _MOST_ADDRESS)
    except (ValueError, RecursionError, AttributeError) as error:
        raise Unreadable from error
    return LeftBehind(found["pid"], found["call"], python)


def _content(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Unreadable from error
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Unreadable
        return file.read(_MOST_BYTES)


def _check(numbers: Mapping[str, object], names: tuple[str, ...], least: int, most: int) -> None:
    for name in names:
        number = numbers.get(name)
        if type(number) is not int or not least <= number <= most:
            raise Unreadable

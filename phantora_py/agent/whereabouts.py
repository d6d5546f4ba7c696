"""Where a rank is: the Python line of its main thread, and the call it is in of a GPU's library.

The rank has no part in it. When it started, it left behind what there is to know about its
interpreter (csrc/shim/python/whereabouts.cc); the kernel copies the memory that this names. The
frames are in use meanwhile: an address that is stale is an error here, and what has been read
counts as far as two looks agree.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from phantora_py.agent.frames import Frame, common, line_of, look
from phantora_py.agent.left_behind import LeftBehind, left_behind
from phantora_py.agent.process_memory import ProcessMemory, Unreadable
from phantora_py.machine.process_tree import find_process

# Frames that are made and freed all the time need many tries, each of less than a millisecond
# (assumed enough).
_TRYING_S = 0.1
_LEAST_TRIES = 20
# A thread that lost its processor between two frames seems to have none until its next turn: so
# long between tries that found none, twenty of which outlast a turn of others (assumed).
_TURN_S = 0.002
_LONGEST_NAME_BYTES = 100
_IMPORT_SYSTEM = "<frozen importlib"
_PACKAGE = re.compile(r"/(?:site|dist)-packages/(\w+)")
_NOT_THE_USERS = ("/site-packages/", "/dist-packages/", "/lib/python3", "/phantora_py/", "<frozen")


def whereabouts(run_directory: Path, rank: int, pid: int) -> str:
    """As the end of a phrase, of a rank whose first process is `pid`."""
    try:
        return _found(left_behind(run_directory / f"rank-{rank}.whereabouts"), pid)
    except FileNotFoundError:
        return ", before its first line of Python and its first GPU call"
    except PermissionError:
        return ", at a line that this machine does not let us read"
    except (Unreadable, ProcessLookupError):
        return ", at a line that could not be read"


def _found(left: LeftBehind, pid: int) -> str:
    process = find_process(pid, left.pid)
    if process is None:
        return ", without the process that has used the GPU"
    memory = ProcessMemory(process)
    call = _call(memory, left.call)
    line = _users_line(memory, left.python) if left.python else ""
    if line:
        return f", at {line} (in {call})" if call else f", at {line}"
    return f", in {call}" if call else ", outside Python"


def _call(memory: ProcessMemory, address: int) -> str:
    """The name of the call that the main thread is in, or nothing."""
    name = memory.pointer(address)
    if name == 0:
        return ""
    # It may end at the end of a mapping.
    text = b""
    while b"\0" not in text and len(text) < _LONGEST_NAME_BYTES:
        text += memory.read(name + len(text), 1)
    return text.rstrip(b"\0").decode("ascii", "replace")


def _users_line(memory: ProcessMemory, layout: Mapping[str, int]) -> str:
    """The innermost line of the user's, any line if there is none; nothing if no Python runs.

    Raises: Unreadable if the frames never stood still for long enough.
    """
    is_idle = True
    codes: set[int] = set()
    end_s = time.monotonic() + _TRYING_S
    for tries in itertools.count():
        if tries >= _LEAST_TRIES and (is_idle or time.monotonic() > end_s):
            break
        try:
            before, frames = look(memory, layout, codes), look(memory, layout, codes)
            is_idle = is_idle and not before and not frames
            if is_idle:
                time.sleep(_TURN_S)
            frames = common(before, frames)
            while frames:
                # A name that was read counts if its frame is still there afterwards.
                frame, line = _innermost(memory, layout, frames)
                frames = common(frames, look(memory, layout, codes))
                if frame in frames:
                    return line
        except Unreadable:
            is_idle = False
    if not is_idle:
        raise Unreadable
    return ""


def _innermost(
    memory: ProcessMemory, layout: Mapping[str, int], frames: Sequence[Frame]
) -> tuple[Frame, str]:
    """The first of `frames` that is the user's, else the first; and what it imports."""
    lines: list[str] = []
    for frame in frames:
        line = line_of(memory, layout, frame)
        if not any(part in line for part in _NOT_THE_USERS):
            return frame, line + _imported(lines)
        lines.append(line)
    return frames[0], lines[0] + _imported(lines)


def _imported(lines: Sequence[str]) -> str:
    """The package that is being imported, by the lines from the innermost on; nothing if none is.

    It is the outermost of those that are at work: others are imported by it.
    """
    if not any(line.startswith(_IMPORT_SYSTEM) for line in lines):
        return ""
    packages = [found[1] for line in lines if (found := _PACKAGE.search(line))]
    return f", importing {packages[-1]}" if packages else ", importing"

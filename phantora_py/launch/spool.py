"""Files of the run directory that ranks write their output into, and who reads them.

A rank never writes into a pipe or a terminal: there it may have to wait for the reader, and a rank
that waits is set aside, which virtual time would notice. A file takes everything at once; what has
been read is given back to the file system.
"""

import contextlib
import ctypes
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# With less than this a rank's line is lost (assumed: a few pages).
_LEAST_ROOM_BYTES = 1 << 14
# Read at one time, and given back at one time (assumed: small against what a rank takes itself).
_PIECE_BYTES = 1 << 20
# Source: linux/falloc.h.
_FALLOC_FL_KEEP_SIZE = 1
_FALLOC_FL_PUNCH_HOLE = 2

_libc = ctypes.CDLL(None)


@dataclass(frozen=True)
class Stream:
    """One stream of the ranks. `descriptor`: ours, where it is shown; `name`: of its files."""

    name: str
    descriptor: int


BOTH = "log"
"""Name of the stream that holds standard output and standard error in the order of writing."""


def choose_streams(ranks: int, json: bool, kept: bool) -> tuple[Stream, ...]:
    """Into which files a rank's standard output and standard error go: both into one where ours
    lead to one place, so that their order is kept.

    None: a single rank has the terminal for itself, as if there were no phantora, unless its output
    is to be `kept` in files. `json`: our own standard output is not for the ranks.
    """
    out = 2 if json else 1
    if ranks == 1 and not kept and os.isatty(out) and os.isatty(2):
        return ()
    if out == 2 or os.path.samestat(os.fstat(1), os.fstat(2)):
        return (Stream(BOTH, out),)
    return (Stream("stdout", 1), Stream("stderr", 2))


def spool_path(run_dir: Path, rank: int, stream: Stream) -> Path:
    """Where a rank's stream goes."""
    return run_dir / f"rank-{rank}.{stream.name}"


def output_paths(run_dir: Path, rank: int, streams: Sequence[Stream]) -> list[str]:
    """The files of a rank's standard output and standard error; none where it has the terminal."""
    paths = [str(spool_path(run_dir, rank, stream)) for stream in streams]
    return paths * 2 if len(paths) == 1 else paths


class Spool:
    """The reader's side of one such file, which it makes."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        self._read_bytes = 0
        self._kept_from = 0

    def read(self) -> bytes:
        """What is new, a limited piece of it; empty if there is nothing. Raises: OSError."""
        size_bytes = os.fstat(self._file).st_size
        if size_bytes < self._read_bytes:
            self._read_bytes = self._kept_from = 0  # a program cut it: `> /dev/stderr` does
        if size_bytes == self._read_bytes:
            return b""
        data = os.pread(self._file, _PIECE_BYTES, self._read_bytes)
        self._read_bytes += len(data)
        if self._read_bytes - self._kept_from >= _PIECE_BYTES:
            self._give_back()
        return data

    def _give_back(self) -> None:
        """Frees what has been read. Where the file system cannot do it, the file just grows."""
        mode = _FALLOC_FL_PUNCH_HOLE | _FALLOC_FL_KEEP_SIZE
        length = ctypes.c_int64(self._read_bytes)
        _libc.fallocate(self._file, mode, ctypes.c_int64(0), length)
        self._kept_from = self._read_bytes

    def close(self) -> None:
        os.close(self._file)


class Room:
    """Whether ranks had room for what they print. To be looked at before that is read, which makes
    room again.
    """

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self.lack = ""
        """A sentence, once there was none."""

    def look(self) -> None:
        """Raises: OSError."""
        disk = os.statvfs(self._run_dir)
        blocks = disk.f_bfree if os.geteuid() == 0 else disk.f_bavail
        if blocks * disk.f_frsize < _LEAST_ROOM_BYTES:
            self.lack = f"There is no room left in {self._run_dir.parent} for what it prints."


def open_for_writing(paths: Sequence[str]) -> list[int]:
    """A rank's side of such files. Raises: OSError."""
    return [os.open(path, os.O_WRONLY | os.O_APPEND) for path in paths]


def redirect(paths: Sequence[str]) -> None:
    """Makes files the standard output and standard error of this process. Raises: OSError."""
    for descriptor, file in zip((1, 2), open_for_writing(paths), strict=True):
        os.dup2(file, descriptor)
        os.close(file)
    # A line is there once it is printed, as on a terminal.
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):  # a replacement that has no such thing
            stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]

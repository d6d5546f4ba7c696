"""A run of one rank whose agent answers at once, for tests of the shim alone."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from stand_in_agent import CALLS_AT, LOOKING_UP_AT, StandInAgent, write_settings

from phantora_py.launch.libraries import CORE, preload_value, shim_directory

HOST_CLOCK_AT = 32  # ph::Channel::host_clock_ns
CELL_BYTES = 64
ANNOUNCEMENTS = 16  # kinds below carry a payload

EPOCH_REALTIME_NS = 1_900_000_000 * 10**9
EPOCH_MONOTONIC_NS = 5_000 * 10**9
CLOCK_READ_NS = 50


@dataclass(frozen=True)
class FakeRecord:
    """One record of the stream; `payload` of announcements only."""

    kind: int
    flags: int
    id: int
    site: int
    host_gap_ns: int
    arguments: tuple[int, ...]
    payload: str

    @classmethod
    def parse(cls, cell: bytes) -> FakeRecord:
        """`cell`: a record and the cells of its payload."""
        kind, flags, _, _, gap_ns, ident, site, *arguments = struct.unpack_from("<BBHIQII5Q", cell)
        payload = cell[CELL_BYTES:][: arguments[0] if kind < ANNOUNCEMENTS else 0]
        return cls(kind, flags, ident, site, gap_ns, tuple(arguments), payload.decode())


class FakeRun:
    """Rank 0 of a run of one. Raises: InternalError if the shim is not installed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.core = shim_directory() / CORE
        self._cells: list[bytes] = []
        changes = {
            "host.clock_read_ns": CLOCK_READ_NS,
            "epoch.realtime_ns": EPOCH_REALTIME_NS,
            "epoch.monotonic_ns": EPOCH_MONOTONIC_NS,
        }
        settings = {key: str(value) for key, value in changes.items()}
        write_settings(directory, ranks=1, changes=settings)

    @property
    def environment(self) -> dict[str, str]:
        """For a process that is, or attaches as, rank 0."""
        return {
            **os.environ,
            "LD_PRELOAD": preload_value([self.core], os.environ),
            "PHANTORA_RUN_DIR": str(self.directory),
            "PHANTORA_RANK": "0",
            "NVTX_INJECTION64_PATH": str(self.core),
        }

    def start(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs a command under the shim to its end."""
        agent = StandInAgent(self.directory, ranks=1)
        try:
            return subprocess.run(
                command,
                env={**self.environment, **variables},
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )
        finally:
            agent.close()
            self._cells = agent.records[0]

    def python(self, code: str, *arguments: str) -> str:
        """The output of Python code that runs in the attached rank.

        The code may use `host_clock_ns()` (virtual, without moving it), `real_s()`,
        `looking_up()` and `calls_to_itself()`, those that have ended.
        """
        result = self.start(sys.executable, "-c", PRELUDE + code, *arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout.strip()

    def records(self) -> list[FakeRecord]:
        """All records of the last start."""
        return [FakeRecord.parse(cell) for cell in self._cells]


PRELUDE = f"""
import ctypes, os, struct, sys, threading, time
shim = ctypes.CDLL(None)
assert shim.ph_attach(os.environb[b"PHANTORA_RUN_DIR"], 0) == 1
channel = open(os.environ["PHANTORA_RUN_DIR"] + "/rank-0.channel", "rb", buffering=0)
def host_clock_ns():
    return struct.unpack("<Q", os.pread(channel.fileno(), 8, {HOST_CLOCK_AT}))[0]
def looking_up():
    return struct.unpack("<I", os.pread(channel.fileno(), 4, {LOOKING_UP_AT}))[0]
board = open(os.environ["PHANTORA_RUN_DIR"] + "/switchboard", "rb", buffering=0)
def calls_to_itself():
    return struct.unpack("<II", os.pread(board.fileno(), 8, {CALLS_AT}))[1]
def real_s():
    return float(open("/proc/uptime").read().split()[0])
"""

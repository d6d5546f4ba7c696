"""A run directory with one rank's channel and nobody behind it, for tests of the shim alone.

Mirrors `csrc/protocol/channel.h`: offsets in bytes.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from phantora_py.libraries import CORE, shim_directory

MAGIC = 0x314E4E4148434850
PROTOCOL_VERSION = 1
HOST_CLOCK, HEAD, CELLS = 32, 64, 266240
RING_CELLS, CELL_BYTES = 1 << 16, 64
ANNOUNCEMENTS = 16  # kinds below carry a payload

EPOCH_REALTIME_NS = 1_900_000_000 * 10**9
EPOCH_MONOTONIC_NS = 5_000 * 10**9
CLOCK_READ_NS = 50
COSTS = ("light", "launch", "copy", "event", "sync", "alloc", "collective", "setup")


@dataclass(frozen=True)
class FakeRecord:
    """One record of the stream; `payload` of announcements only."""

    kind: int
    id: int
    site: int
    host_gap_ns: int
    arguments: tuple[int, ...]
    payload: str


class FakeRun:
    """Rank 0 of a run of one. Raises: InternalError if the shim is not installed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.channel = directory / "rank-0.channel"
        self.core = shim_directory() / CORE
        with self.channel.open("wb") as file:
            file.write(struct.pack("<QII", MAGIC, PROTOCOL_VERSION, 0))
            file.truncate(CELLS + RING_CELLS * CELL_BYTES)
        (directory / "doorbell").write_bytes(bytes(4096))
        settings = {
            "ranks": 1,
            "gpu.count": 1,
            "host_time": "fixed",
            "host.cpu_factor": "1.0",
            "host.clock_read_ns": CLOCK_READ_NS,
            "values.threshold_bytes": 65536,
            "epoch.realtime_ns": EPOCH_REALTIME_NS,
            "epoch.monotonic_ns": EPOCH_MONOTONIC_NS,
            **{f"host.{name}_ns": 1000 for name in COSTS},
        }
        lines = (f"{key} = {value}\n" for key, value in settings.items())
        (directory / "shim.conf").write_text("".join(lines))

    @property
    def environment(self) -> dict[str, str]:
        """For a process that is, or attaches as, rank 0."""
        return {
            **os.environ,
            "LD_PRELOAD": str(self.core),
            "PHANTORA_RUN_DIR": str(self.directory),
            "PHANTORA_RANK": "0",
            "NVTX_INJECTION64_PATH": str(self.core),
        }

    def start(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs a command under the shim to its end."""
        return subprocess.run(
            command,
            env={**self.environment, **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def python(self, code: str, *arguments: str) -> str:
        """The output of Python code that runs in the attached rank.

        The code may use `host_clock_ns()` (virtual, without moving it) and `real_s()`.
        """
        result = self.start(sys.executable, "-c", PRELUDE + code, *arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout.strip()

    @property
    def host_clock_ns(self) -> int:
        """Virtual time that the rank has reached."""
        return int(struct.unpack_from("<Q", self.channel.read_bytes(), HOST_CLOCK)[0])

    def records(self) -> list[FakeRecord]:
        """All records so far; the ring must not have wrapped."""
        data = self.channel.read_bytes()
        (head,) = struct.unpack_from("<Q", data, HEAD)
        assert head <= RING_CELLS
        records = []
        cell = 0
        while cell < head:
            at = CELLS + cell * CELL_BYTES
            kind, _, _, _, gap_ns, ident, site, *arguments = struct.unpack_from(
                "<BBHIQII5Q", data, at
            )
            payload_bytes = arguments[0] if kind < ANNOUNCEMENTS else 0
            payload = data[at + CELL_BYTES : at + CELL_BYTES + payload_bytes].decode()
            records.append(FakeRecord(kind, ident, site, gap_ns, tuple(arguments), payload))
            cell += 1 + -(-payload_bytes // CELL_BYTES)
        return records


PRELUDE = f"""
import ctypes, os, struct, sys, threading, time
shim = ctypes.CDLL(None)
assert shim.ph_attach(os.environb[b"PHANTORA_RUN_DIR"], 0) == 1
channel = open(os.environ["PHANTORA_RUN_DIR"] + "/rank-0.channel", "rb", buffering=0)
def host_clock_ns():
    return struct.unpack("<Q", os.pread(channel.fileno(), 8, {HOST_CLOCK}))[0]
def real_s():
    return float(open("/proc/uptime").read().split()[0])
"""

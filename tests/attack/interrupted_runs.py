"""Commands of phantora that somebody interrupts or whose processes somebody kills."""

from __future__ import annotations

import contextlib
import getpass
import json
import mmap
import os
import re
import signal
import struct
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from phantora_py.launch.fork_servers import FOLDER

COMMAND = Path(sys.executable).with_name("phantora")
LIMIT_S = 5.0  # for the end and for whatever is cleaned up after it
_GIVEN_UP_S = 30.0
_LAST_CHILD_S = 10.0  # none is made so long after another (assumed)
_ALL_THERE_S = 1.0  # nor this long, once all ranks run their program
_SHARED_MEMORY = Path("/dev/shm")
_PAUSE_S = 0.01
# PyTorch's own cache of compiled code stays.
_OTHERS = (f"torchinductor_{getpass.getuser()}",)
# Of how many records a rank has written, in its channel (csrc/protocol/channel.h).
_HEAD_AT = 64


@dataclass(frozen=True)
class End:
    """How a command ended. `code`: as a shell tells it. `took_s`: since the signal."""

    code: int
    took_s: float
    output: str


class Command:
    """One command under way. Its processes are known by a mark in their environment."""

    def __init__(self, arguments: Sequence[str], directory: Path) -> None:
        self._mark = f"PHANTORA_TEST_MARK={uuid.uuid4()}"
        name, value = self._mark.split("=")
        self._directories = _run_directories()
        self._output = directory / "output.txt"
        # Its own: other runs of this machine use theirs.
        self._temporary = directory / "temporary"
        self._temporary.mkdir(exist_ok=True)
        environment = {**os.environ, name: value, "TMPDIR": str(self._temporary)}
        # A starter is found below its run.
        environment.pop(FOLDER, None)
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [str(COMMAND), *arguments],
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        """What it has printed so far."""
        return self._output.read_text(errors="replace")

    def find(self, part: str) -> int | None:
        """The process that plays a part in a run, once it is there."""
        leader = self._process.pid
        if part == "leader":
            return leader
        marked = self._marked()
        words = {"server": "sim_server", "starter": "launch.starter", "sweeper": "sweeper.py"}
        if part in words:
            found = [pid for pid in marked if words[part] in _words(pid) and _parent(pid) == leader]
            return found[0] if found else None
        if part == "started":  # whatever the command was to do has begun
            sleeping = [pid for pid in marked if _words(pid).startswith("sleep ")]
            listens = (self._output.parent / "server.sock").exists()
            return sleeping[0] if sleeping else leader if listens else None
        starter = self.find("starter")
        below = [pid for pid in marked if starter is not None and _parent(pid) == starter]
        first = [pid for pid in below if _own_pid(pid) == 1]
        chosen = first if part == "helper" else [pid for pid in below if _leads_session(pid)]
        return chosen[0] if chosen else None

    def whereabouts(self, look: Callable[[Path, int, int], str]) -> list[str]:
        """What `look` says of each rank that has begun: of a run directory, a rank and its pid."""
        found = []
        for pid in self._marked():
            entries = dict(entry.partition("=")[::2] for entry in _environment(pid))
            directory = Path(entries.get("PHANTORA_RUN_DIR", "/nowhere"))
            for path in directory.glob("rank-*.whereabouts"):
                rank = int(path.stem.partition("-")[2])
                with contextlib.suppress(FileNotFoundError):  # the run has just ended
                    if json.loads(path.read_text())["pid"] == _own_pid(pid):
                        found.append(look(directory, rank, pid))
        return found

    def wait_for(self, part: str) -> int:
        """Waits until that process is there."""
        deadline_s = time.monotonic() + _GIVEN_UP_S
        while (pid := self.find(part)) is None:
            assert time.monotonic() < deadline_s, f"no {part}: {self.output}"
            assert self._process.poll() is None, self.output
            time.sleep(_PAUSE_S)
        return pid

    def wait_for_record(self, rank: int, number: int) -> None:
        """Waits until a rank has written this record: 1 is its first."""
        deadline_s = time.monotonic() + _GIVEN_UP_S
        channel = self._channel(rank, deadline_s)
        with channel.open("rb") as file, mmap.mmap(file.fileno(), 128, prot=mmap.PROT_READ) as seen:
            while struct.unpack_from("<Q", seen, _HEAD_AT)[0] < number:
                self._check_under_way(deadline_s)

    def _channel(self, rank: int, deadline_s: float) -> Path:
        while True:
            for directory in set(filter(None, map(_run_directory, self._marked()))):
                path = directory / f"rank-{rank}.channel"
                if path.exists() and path.stat().st_size:
                    return path
            self._check_under_way(deadline_s)

    def _check_under_way(self, deadline_s: float) -> None:
        assert time.monotonic() < deadline_s, self.output
        assert self._process.poll() is None, self.output

    def wait_for_child(self, of: int, number: int, ranks: int) -> int:
        """Waits until a starter makes this child: 1 is its first. Some end at once: where they were
        not seen, the last that was. `ranks`: so many run `sleep` in the end.
        """
        deadline_s = time.monotonic() + _GIVEN_UP_S
        seen: list[int] = []
        seen_s = deadline_s
        children = Path(f"/proc/{of}/task/{of}/children")
        while len(seen) < number and time.monotonic() < seen_s + _LAST_CHILD_S:
            self._check_under_way(deadline_s)
            new = [pid for pid in map(int, children.read_text().split()) if pid not in seen]
            seen += new
            seen_s = time.monotonic() if new else seen_s
            if time.monotonic() > seen_s + _ALL_THERE_S:
                sleeping = [pid for pid in self._marked() if _words(pid).startswith("sleep ")]
                if len(sleeping) == ranks:
                    break
        return seen[min(number, len(seen)) - 1]

    def end(self, pid: int, number: signal.Signals) -> End:
        """Sends a signal to one of its processes and waits until the command has ended."""
        with contextlib.suppress(ProcessLookupError):  # it was faster
            os.kill(pid, number)
        return self.wait()

    def wait(self) -> End:
        """Waits until the command has ended."""
        since_s = time.monotonic()
        try:
            code = self._process.wait(_GIVEN_UP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        return End(code if code >= 0 else 128 - code, time.monotonic() - since_s, self.output)

    def is_under_way(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def left(self) -> list[str]:
        """What is left of it in the end: processes, run directories, temporary files."""
        deadline_s = time.monotonic() + LIMIT_S
        while (found := self._look()) and time.monotonic() < deadline_s:
            time.sleep(_PAUSE_S)
        return found

    def kill(self) -> None:
        """Ends whatever is left."""
        for pid in self._marked():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def _look(self) -> list[str]:
        processes = [f"{pid}: {_words(pid)}" for pid in self._marked()]
        # Other runs of this machine may be under way.
        theirs = {_run_directory(pid) for pid in _processes()}
        new = _run_directories() - self._directories - theirs
        temporary = [path for path in self._temporary.iterdir() if path.name not in _OTHERS]
        return processes + sorted(map(str, [*new, *temporary]))

    def _marked(self) -> list[int]:
        return [pid for pid in _processes() if self._mark in _environment(pid)]


def _leads_session(pid: int) -> bool:
    """Whether it is a rank: other children of the starter are in its session, and soon gone."""
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return False


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _environment(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
    except OSError:
        return []


def _run_directory(pid: int) -> Path | None:
    for entry in _environment(pid):
        if entry.startswith("PHANTORA_RUN_DIR="):
            return Path(entry.partition("=")[2])
    return None


def _run_directories() -> set[Path]:
    return {path for path in _SHARED_MEMORY.glob("phantora-*") if path.is_dir()}


def _words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
    except OSError:
        return ""


def _status(pid: int, key: str) -> str:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return ""
    found = re.search(rf"^{key}:(.*)$", status, re.MULTILINE)
    return found[1].split()[-1] if found else ""


def _parent(pid: int) -> int:
    return int(_status(pid, "PPid") or 0)


def _own_pid(pid: int) -> int:
    return int(_status(pid, "NSpid") or 0)

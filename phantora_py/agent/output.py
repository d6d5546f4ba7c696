"""Reads what ranks print as it comes: shows it, keeps it in the data file, copies it to files.

It has a thread of its own, so that a terminal that stands still does not hold up the simulation.
"""

import re
import threading
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

from phantora_py.agent.datafile import DataSink
from phantora_py.launch.spool import Room, Spool, Stream, spool_path
from sim_server.errors import UsageError

# How soon a line is seen; a look at 64 ranks takes some 0.2 ms.
_LOOK_EVERY_S = 0.05
# A member of the data file holds about so much, unless the run ends before.
_MEMBER_BYTES = 1 << 16
# What a message about a failed rank repeats of its output.
_LAST_LINES = 20
SAID_ABOVE = "What it said is above."
LAST_WORDS = re.compile(r"Its last lines:\n.*", re.DOTALL)
"""As in a message, for who has them on the screen already."""
_LAST_BYTES = 1 << 14
_LINE_LENGTH = 400


class Listener(Protocol):
    """Shows what ranks print."""

    def said(self, rank: int, descriptor: int, data: bytes) -> None:
        """`data` is for our own `descriptor`."""

    def rest(self) -> None:
        """That is all for the moment."""


class _Log:
    """One stream of one rank."""

    def __init__(self, rank: int, stream: Stream, path: Path) -> None:
        self.rank = rank
        self.stream = stream
        self.name = f"rank-{rank}.{stream.name}"
        self.spool = Spool(path)
        self.tail = b""
        self._unsaved = bytearray()
        self._members = 0

    def take(self) -> bytes:
        data = self.spool.read()
        if data:
            self.tail = (self.tail + data)[-_LAST_BYTES:]
        return data

    def save(self, data: bytes, sink: DataSink, at_end: bool) -> None:
        self._unsaved += data
        if len(self._unsaved) >= _MEMBER_BYTES or (at_end and self._unsaved):
            sink.write(f"logs/{self.name}/{self._members:06}", bytes(self._unsaved))
            self._members += 1
            self._unsaved.clear()


class RankOutput:
    """While entered, what ranks print is shown and kept."""

    def __init__(  # noqa: PLR0917
        self,
        run_dir: Path,
        streams: Sequence[Stream],
        ranks: Sequence[int],
        shown: Collection[int],
        data: DataSink,
        listener: Listener,
        copies: Path | None = None,
    ) -> None:
        """`shown`: ranks whose output the listener gets. `copies`: a directory for files of it.

        Raises: UsageError if the directory cannot be made.
        """
        self._room = Room(run_dir)
        self._logs = [
            _Log(rank, stream, spool_path(run_dir, rank, stream))
            for rank in ranks
            for stream in streams
        ]
        self._shown = set(shown)
        self._data = data
        self._listener = listener
        self._copies = copies
        self._make_copies()
        self._lock = threading.Lock()  # of reading; nobody holds it while he writes
        self._taken: list[tuple[_Log, bytes, bool]] = []  # and whether it is to be shown
        self._error: Exception | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def _make_copies(self) -> None:
        if self._copies is None:
            return
        try:
            self._copies.mkdir(parents=True, exist_ok=True)
            for log in self._logs:
                (self._copies / log.name).write_bytes(b"")
        except OSError as error:
            raise self._cannot_copy(error) from error

    def last_words(self, rank: int) -> str:
        """What a rank has printed last, as the end of a message."""
        if not self._logs:
            return SAID_ABOVE
        lines = self._last_lines(rank)
        text = "\n  ".join(["Its last lines:", *lines]) if lines else "It printed nothing."
        return f"{self._room.lack} {text}".lstrip()

    def _last_lines(self, rank: int) -> list[str]:
        """Of errors, if there are any, else of output."""
        with self._lock:
            self._room.look()
            logs = [log for log in self._logs if log.rank == rank]
            for log in logs:
                while self._take(log):
                    pass
            texts = [log.tail.decode(errors="replace") for log in reversed(logs)]
        text = next((text for text in texts if text.strip()), "")
        lines = [_as_seen(line)[:_LINE_LENGTH] for line in text.rstrip().split("\n")]
        return lines[-_LAST_LINES:] if text.strip() else []

    def show_only(self, rank: int) -> None:
        """What others print from now on, because they are stopped, is kept but not shown."""
        with self._lock:
            for log in self._logs:
                while self._take(log):
                    pass
            self._shown &= {rank}

    def check(self) -> None:
        """Raises: what kept the output from being shown or kept."""
        if self._error is not None:
            raise self._error

    def __enter__(self) -> "RankOutput":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Once all ranks have ended: brings out the rest of their output."""
        self._done.set()
        # Who could not be interrupted for good reasons waits for his terminal.
        self._thread.join(None if kind is None else 1.0)
        for log in self._logs:
            log.spool.close()
        if kind is None:
            self.check()

    def _serve(self) -> None:
        try:
            while not self._done.wait(_LOOK_EVERY_S):
                while self._look():
                    pass
            while self._look():
                pass
            for log in self._logs:
                log.save(b"", self._data, at_end=True)
        except Exception as error:  # for the agent's loop, which asks
            self._error = error

    def _look(self) -> bool:
        """Brings out what is new; whether there was anything."""
        with self._lock:
            self._room.look()
            for log in self._logs:
                self._take(log)
            taken, self._taken = self._taken, []
        for log, data, shown in taken:
            log.save(data, self._data, at_end=False)
            self._copy(log, data)
            if shown:
                self._listener.said(log.rank, log.stream.descriptor, data)
        self._listener.rest()
        return bool(taken)

    def _take(self, log: _Log) -> bool:
        data = log.take()
        if data:
            self._taken.append((log, data, log.rank in self._shown))
        return bool(data)

    def _copy(self, log: _Log, data: bytes) -> None:
        if self._copies is None:
            return
        try:
            with (self._copies / log.name).open("ab") as file:
                file.write(data)
        except OSError as error:
            raise self._cannot_copy(error) from error

    def _cannot_copy(self, error: OSError) -> UsageError:
        return UsageError(
            f"The ranks' output cannot be written to {self._copies}: {error.strerror}. Make room, "
            "or choose another place with --log-dir."
        )


def _as_seen(line: str) -> str:
    """What a terminal shows of a line that has been rewritten, as progress bars do."""
    return line.rstrip("\r").rpartition("\r")[2]

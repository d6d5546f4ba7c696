"""Writes a run's data file: a zip archive that grows while the run goes on.

Members are written whole, one after the other, so that a file whose writer was killed can be read
up to there (`phantora_py.data`). Under its final name the file exists once it is complete, or once
the sweeper has found that nobody is left to complete it.
"""

import contextlib
import json
import queue
import threading
import zipfile
from pathlib import Path
from typing import Any, Protocol

from sim_server.errors import UsageError
from sim_server.files.output_file import partial_path, put_in_place

# Records and spans are regular: the fastest level already shrinks them several times (assumed).
_COMPRESSION_LEVEL = 1
# Members that may wait to be written; a caller that adds more waits until there is room.
_PENDING = 8


def cannot_write(path: Path, error: OSError) -> UsageError:
    """What the user is told if the data file cannot be written."""
    return UsageError(
        f"The data file {path} cannot be written: {error.strerror}. Make room, or choose another "
        "place with -o."
    )


class DataSink(Protocol):
    """Takes the members of the run's data file."""

    def write(self, name: str, content: bytes) -> None:
        """Keeps a member. Waits if those before are not yet written."""

    def check(self) -> None:
        """Raises: UsageError if a member could not be written."""


class DataFile:
    """A data file in the making.

    `partial`: the unfinished file. `digest`: what the server sent under that name, one number for
    the whole history of the run.
    """

    def __init__(self, path: Path, start: dict[str, Any], settings: str) -> None:
        """`start`, `settings`: what is known of the run before it begins; see docs/data-file.md.

        Raises: UsageError if it cannot be written.
        """
        self.path = path
        self.digest = ""
        self.partial = partial_path(path)
        self._file = self.partial.open("w+b")
        self._archive = zipfile.ZipFile(
            self._file, "w", zipfile.ZIP_DEFLATED, compresslevel=_COMPRESSION_LEVEL
        )
        try:
            self._add("start.json", json.dumps(start, indent=1).encode())
            self._add("settings.json", settings.encode())
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.close()
            raise cannot_write(path, error) from error
        self._pending: queue.Queue[tuple[str, bytes] | None] = queue.Queue(_PENDING)
        self._error: OSError | None = None
        # Compression must not hold up those who bring data: they also bring answers to ranks.
        self._writer = threading.Thread(target=self._write_pending, daemon=True)
        self._writer.start()

    def write(self, name: str, content: bytes) -> None:
        """Adds the member `name`; waits while many are pending.

        Raises: UsageError if an earlier one could not be written.
        """
        self.check()
        if name == "digest":
            self.digest = content.decode()
        self._pending.put((name, content))

    def check(self) -> None:
        """Raises: UsageError if a member could not be written."""
        if self._error is not None:
            raise cannot_write(self.path, self._error)

    def complete(self, run: dict[str, Any]) -> None:
        """Adds run.json and gives the file its name.

        Raises: UsageError if a member could not be written.
        """
        self._end_writer()
        self.check()
        try:
            self._add("run.json", json.dumps(run, indent=1).encode())
            self._archive.close()
            self._file.close()
            put_in_place(self.partial, self.path)
        except OSError as error:
            raise cannot_write(self.path, error) from error

    def discard(self) -> None:
        """Removes what there is of a file that was not completed."""
        self._end_writer()
        with contextlib.suppress(OSError):  # no room for its directory, which is not needed
            self._archive.close()
        with contextlib.suppress(OSError):  # nor for what is still to be written
            self._file.close()
        self.partial.unlink(missing_ok=True)

    def _write_pending(self) -> None:
        while (member := self._pending.get()) is not None:
            try:
                if self._error is None:
                    self._add(*member)
            except OSError as error:  # a full disk: the call that adds the next member raises it
                self._error = error

    def _add(self, name: str, content: bytes) -> None:
        self._archive.writestr(name, content)
        self._file.flush()

    def _end_writer(self) -> None:
        if self._writer.is_alive():
            self._pending.put(None)
            self._writer.join()

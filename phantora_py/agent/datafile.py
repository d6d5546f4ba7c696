"""Writes a run's data file: a zip archive, complete or not there."""

import json
import zipfile
from pathlib import Path
from typing import IO, Any

# Records and spans are regular: the fastest level already shrinks them several times (assumed).
_COMPRESSION_LEVEL = 1


class DataFile:
    """A data file in the making. Under its final name it exists only once it is complete.

    `partial`: the unfinished file. `digest`: what the server sent under that name, one number for
    the whole history of the run.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.digest = ""
        self.partial = path.with_name(f".{path.name}.partial")
        self._archive = zipfile.ZipFile(
            self.partial, "w", zipfile.ZIP_DEFLATED, compresslevel=_COMPRESSION_LEVEL
        )
        self._open: dict[str, IO[bytes]] = {}

    def write(self, name: str, content: bytes, last: bool) -> None:
        """Appends to the member `name`; members come one after the other. `last` ends it."""
        if name not in self._open:
            assert not self._open, f"{name} begins before {list(self._open)} ended"
            self._open[name] = self._archive.open(name, "w", force_zip64=True)
        self._open[name].write(content)
        if name == "digest":
            self.digest += content.decode()
        if last:
            self._open.pop(name).close()

    def complete(self, run: dict[str, Any]) -> None:
        """Adds run.json and gives the file its name."""
        self._close_members()
        self._archive.writestr("run.json", json.dumps(run, indent=1))
        self._archive.close()
        self.partial.replace(self.path)

    def discard(self) -> None:
        """Removes what there is of a file that was not completed."""
        self._close_members()
        self._archive.close()
        self.partial.unlink(missing_ok=True)

    def _close_members(self) -> None:
        for member in self._open.values():
            member.close()
        self._open.clear()

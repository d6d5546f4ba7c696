"""The run's data file (`.phr`): reading it.

A zip archive whose members docs/data-file.md describes. Members are read when they are first asked
for.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sim_server.errors import UsageError

SCHEMA = 1


class RunData:
    """One run, as its data file tells it."""

    def __init__(self, path: Path) -> None:
        """Open `path`.

        Raises: UsageError if it is missing, not a data file, or of a later version.
        """
        self.path = path
        try:
            self._archive = zipfile.ZipFile(path)
            self.run: dict[str, Any] = self._json("run.json")
        except FileNotFoundError as error:
            raise UsageError(f"{path}: no such file; `phantora run -o FILE` writes one") from error
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}") from error
        except zipfile.BadZipFile as error:
            raise UsageError(
                f"{path} is not a data file of phantora, or is not complete: {error}"
            ) from error
        if self.run["schema"] > SCHEMA:
            raise UsageError(
                f"{path} was written by a later version of phantora (schema {self.run['schema']}, "
                f"this one reads up to {SCHEMA}); install that version to read it"
            )

    @property
    def ranks(self) -> int:
        """Ranks of the run."""
        return int(self.run["ranks"])

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What the server simulated: cluster, GPU profile, NCCL_* variables."""
        return dict(self._json("settings.json"))

    @cached_property
    def spans(self) -> npt.NDArray[np.void]:
        """Finished work and host waits: one structured row each, sorted by rank and issue time."""
        rows = np.load(io.BytesIO(self._read("spans.npy")), allow_pickle=False)
        return np.asarray(rows)

    @cached_property
    def timings(self) -> list[dict[str, Any]]:
        """Kernels: name, class, tier, duration, count; kernel spans have indexes here as `id`."""
        return list(self._json("timings.json"))

    @cached_property
    def operations(self) -> list[dict[str, Any]]:
        """Communication operations; the `id` of communication spans is an index here."""
        return list(self._json("operations.json"))

    @cached_property
    def markers(self) -> list[tuple[int, int, int, str]]:
        """Markers of the program: rank, host time in ns, MarkerKind, name."""
        return [
            (rank, time_ns, kind, name) for rank, time_ns, kind, name in self._json("markers.json")
        ]

    @cached_property
    def memory(self) -> dict[str, Any]:
        """Capacity of a device, and per rank the peaks and what did not fit."""
        return dict(self._json("memory.json"))

    @cached_property
    def calls(self) -> dict[str, dict[str, dict[str, int]]]:
        """Counts of calls: library, support, symbol."""
        return dict(self._json("calls.json"))

    @cached_property
    def synthetic_reads(self) -> list[dict[str, Any]]:
        """Values that the program read back and no rule had produced, by rank and Python line."""
        return list(self._json("synthetic.json"))

    @cached_property
    def host_gaps(self) -> dict[str, Any]:
        """Host time by key: `measured`, as a run with that model found it; `replayed`, as a run
        with recorded host time charged it, by where the gaps came from.
        """
        return dict(self._json("host_gaps.json"))

    def _json(self, name: str) -> Any:
        return json.loads(self._read(name))

    def _read(self, name: str) -> bytes:
        """A member. Raises: UsageError if it is missing or damaged."""
        try:
            return self._archive.read(name)
        except KeyError as error:
            raise UsageError(
                f"{self.path} is not a data file of phantora, or of a run that broke off: it has "
                f"no {name}"
            ) from error
        except (zipfile.BadZipFile, zlib.error) as error:
            raise UsageError(f"{self.path} is damaged: {name}: {error}") from error

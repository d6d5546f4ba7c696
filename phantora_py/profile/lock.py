"""One executor at a time on a GPU, whoever started them."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

# Often enough that whoever waits for an answer hears of it (assumed).
_LOOK_EVERY_S = 0.5


class GpuLock:
    """A lock on the file of one GPU, in the directory that all users share."""

    def __init__(self, uuid: str) -> None:
        path = Path(tempfile.gettempdir()) / f"phantora-gpu-{uuid}.lock"
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            os.fchmod(self._file, 0o644)  # whatever the umask
        except PermissionError:  # another user's
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    @contextmanager
    def held(self, wait: Callable[[], None]) -> Iterator[None]:
        """Calls `wait` now and then until it is ours."""
        while not self._try():
            wait()
            time.sleep(_LOOK_EVERY_S)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _try(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

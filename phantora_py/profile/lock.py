"""One executor at a time on a machine's GPUs, whoever started them and in whatever container."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Often enough that whoever waits for an answer hears of it (assumed).
_LOOK_EVERY_S = 0.5


class GpuLock:
    """A lock on the driver's library, which all containers have from the machine: to lock a file
    takes no right to write to it. docs/decisions/kernels-by-name.md tells why this file.
    """

    def __init__(self, library: str) -> None:
        self._file = os.open(library, os.O_RDONLY | os.O_CLOEXEC)

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

"""What may not be left half done when somebody asks for an end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Those that ask for an end."""


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Signals that ask for an end come after this. What is started meanwhile never gets them.

    Blocking them is not enough: any other thread of the process, of a library perhaps, may take
    one, and Python then calls the handler in the main thread all the same.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    handlers: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        found = {number: signal.getsignal(number) for number in SIGNALS}
        handlers = {number: one for number, one in found.items() if callable(one)}
    try:
        for number in handlers:
            signal.signal(number, note)
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if came:
            signal.raise_signal(came[0])

"""Ctrl-C once ends a run in good order, with its data so far; twice ends it at once."""

import signal
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """While entered, the first signal that asks for an end sets `asked`.

    The next is for who handled it before: for the command line it is a KeyboardInterrupt. What was
    ignored stays so.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Interrupts":
        self._before = {
            number: handler
            for number in SIGNALS
            if (handler := signal.getsignal(number)) is not signal.SIG_IGN
        }
        for number in self._before:
            signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        self._give_back()

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True
        self._give_back()

    def _give_back(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

"""What happens at Ctrl-C, and at the other signals that ask for an end.

The command line's own work is `Interruptible`: a signal is a KeyboardInterrupt. Within that, a run
has `Interrupts`: the first ends it in good order, with its data so far; the second is a
KeyboardInterrupt. What may not be left half done is `sim_server.processes.signals.uninterrupted`.
"""

import signal
from types import FrameType
from typing import Any, TypeVar

from sim_server.errors import Interrupted
from sim_server.processes.signals import SIGNALS

_Self = TypeVar("_Self", bound="_Handlers")


class _Handlers:
    """While entered, `_heed` handles the signals that ask for an end. What is ignored stays so."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self: _Self) -> _Self:
        self._before = {
            number: handler
            for number in SIGNALS
            if (handler := signal.getsignal(number)) is not signal.SIG_IGN
        }
        for number in self._before:
            signal.signal(number, self._heed)
        return self

    def __exit__(self, *_: object) -> None:
        self._give_back()

    def _heed(self, number: int, frame: FrameType | None) -> None:
        raise NotImplementedError

    def _give_back(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}


class Interruptible(_Handlers):
    """While entered, a signal that asks for an end is a KeyboardInterrupt; its `number` is noted.

    The number also tells that there was one where it has become another exception on its way, as in
    some compiled modules while they are imported.
    """

    def error(self) -> Interrupted:
        """What the user is told."""
        return Interrupted("everything was stopped at once.", self.number or signal.SIGINT)

    def _heed(self, number: int, frame: FrameType | None) -> None:
        # One is enough: cleaning up is under way and takes seconds at most.
        for other in SIGNALS:
            signal.signal(other, _disregard)
        self.number = number
        raise KeyboardInterrupt


def _disregard(number: int, frame: FrameType | None) -> None:
    """Does nothing. SIG_IGN would be inherited by a process that is being started just now, and
    nobody could end that by a signal.
    """


class Interrupts(_Handlers):
    """While entered, the first signal that asks for an end is noted as `number`.

    The next is for who handled it before: for the command line it is a KeyboardInterrupt.
    """

    def _heed(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        self._give_back()

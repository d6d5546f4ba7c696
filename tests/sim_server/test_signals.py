"""What may not be left half done is done before a signal counts."""

from __future__ import annotations

import signal
import socket
import threading
from types import FrameType

import pytest

from sim_server.processes.signals import SIGNALS, uninterrupted

# Until a handler would have been called, many times over.
BYTECODES = 100_000


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_that_another_thread_takes_waits(number: signal.Signals) -> None:
    """Blocked in the main thread, it goes to any other, and the handler to the main thread."""
    came: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        came.append(number)

    before = signal.signal(number, handle)
    is_over = threading.Event()
    other = threading.Thread(target=is_over.wait)
    other.start()
    taken, tell = socket.socketpair()
    tell.setblocking(False)
    told_before = signal.set_wakeup_fd(tell.fileno())
    try:
        with uninterrupted():
            signal.pthread_kill(other.ident or 0, number)
            assert taken.recv(1) == bytes([number])  # the other thread has taken it
            assert sum(1 for _ in range(BYTECODES)) == BYTECODES
            assert came == []
        assert came == [number]
        assert signal.getsignal(number) is handle
    finally:
        signal.set_wakeup_fd(told_before)
        signal.signal(number, before)
        taken.close()
        tell.close()
        is_over.set()
        other.join()


def interrupted_work(error: Exception | None) -> None:
    """Is interrupted at once, and then does its work or fails."""
    with uninterrupted():
        signal.raise_signal(signal.SIGINT)
        if error is not None:
            raise error


@pytest.mark.parametrize("error", [None, ValueError("broken")])
def test_an_interrupt_comes_as_such(error: Exception | None) -> None:
    """Also one that the system gave the main thread; an error is its context."""
    with pytest.raises(KeyboardInterrupt) as raised:
        interrupted_work(error)
    assert raised.value.__context__ is error


def test_other_threads_may_use_it() -> None:
    """They have no handlers."""
    done = []

    def work() -> None:
        with uninterrupted():
            done.append(signal.pthread_sigmask(signal.SIG_BLOCK, []) >= set(SIGNALS))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]

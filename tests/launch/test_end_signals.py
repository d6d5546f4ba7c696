"""Signals that ask for an end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from phantora_py.launch.interrupts import Interruptible
from sim_server.processes.signals import SIGNALS


@pytest.mark.parametrize("number", SIGNALS)
def test_one_interrupt_is_enough(number: signal.Signals) -> None:
    """The first is a KeyboardInterrupt; those that follow do not disturb what cleans up."""
    with Interruptible() as interruptible:
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
        for other in SIGNALS:
            os.kill(os.getpid(), other)
        assert interruptible.number == number


@pytest.mark.parametrize("number", SIGNALS)
def test_what_is_started_after_an_interrupt_can_be_ended(number: signal.Signals) -> None:
    """A process that is being started while the interrupt comes inherits no ignored signal."""
    with Interruptible():
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        code = f"import signal; print(signal.getsignal({int(number)}) is signal.SIG_IGN)"
        words = [sys.executable, "-S", "-c", code]
        found = subprocess.run(words, capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"

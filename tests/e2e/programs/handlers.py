"""Puts all signal handlers back to what Python takes for the first ones, between two time-outs."""

import signal
import threading

threading.Event().wait(1)
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    if (handler := signal.getsignal(number)) is not None:
        signal.signal(number, handler)
threading.Event().wait(1)
print("waited twice")

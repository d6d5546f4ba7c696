"""Where the command `phantora` begins: it can be interrupted from here on, before anything else.

Nothing is imported before the handlers are there, but what they need. Until the command's own work
begins (`phantora_py.cli`) there is nothing to be cleaned up, so they end the process at once: an
exception would have to find its way through imports, some of which turn it into another.
"""

import contextlib
import os
import signal
import sys
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> int:
    """Carries out the command line of this process; returns its exit code."""
    for number in SIGNALS:
        # What is ignored, because a shell started us in the background, stays so.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    # The launcher has held them back until now.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    from phantora_py.__main__ import main as carry_out  # noqa: PLC0415 - it takes a while

    code = carry_out()
    if code in (128 + number for number in SIGNALS):
        # Everything was stopped; threads that were cut off before their end are not waited for.
        sys.stdout.flush()
        os._exit(code)
    return code


def _end(number: int, frame: FrameType | None) -> None:
    with contextlib.suppress(OSError):  # nobody reads it
        os.write(2, b"phantora: interrupted: nothing had been started.\n")
    os._exit(128 + number)

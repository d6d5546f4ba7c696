"""Where the command `phantora` begins, and `python -m phantora_py`.

It can be interrupted from here on: of ours nothing is imported before the handlers are there. Until
the command's own work begins (`phantora_py.cli`) there is nothing to be cleaned up, so they end the
process at once: an exception would have to find its way through imports, some of which turn it into
another.

In a checkout Python may find the checkout's packages first, which lack the compiled modules. Then
the installed ones are meant.
"""

import contextlib
import gc
import importlib.util
import os
import signal
import sys
from pathlib import Path
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PACKAGES = ("phantora_py", "sim_server")


def main() -> int:
    """Carries out the command line of this process; returns its exit code."""
    for number in SIGNALS:
        # What is ignored, because a shell started us in the background, stays so.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    # The launcher has held them back until now.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    if importlib.util.find_spec("phantora_py._channel") is None:
        _leave_checkout()
    gc.disable()  # What is imported stays.
    from phantora_py.cli import main as carry_out  # noqa: PLC0415 - it takes a while

    gc.freeze()
    gc.enable()
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


def _leave_checkout() -> None:
    """Has Python look for our packages elsewhere."""
    checkout = Path(__file__).resolve().parents[1]
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != checkout]
    for name in [one for one in sys.modules if one.partition(".")[0] in _PACKAGES]:
        del sys.modules[name]
    if importlib.util.find_spec("phantora_py") is None:
        sys.exit(
            f"phantora: usage: {checkout} is a checkout without its compiled modules, and no other "
            "phantora is installed. Install it: pip install ."
        )


if __name__ == "__main__":
    sys.exit(main())

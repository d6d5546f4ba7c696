"""A command of Slurm's that asks for hosts and runs something there, held by who started it.

    python -m phantora_py.hosts.held salloc WORD...

When our standard input ends, whoever holds its other end was interrupted, or is gone, killed for
one: the run is interrupted, or, before there is one, hosts are waited for no longer.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import psutil

_PAUSE_S = 0.2


def main() -> int:
    """Exit code of the command, as a shell tells it. A signal to end us ends it at once."""
    process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    threading.Thread(target=_await_end, args=(process,), daemon=True).start()
    code = process.wait()
    return code if code >= 0 else 128 - code


def _await_end(process: subprocess.Popen[bytes]) -> None:
    while os.read(0, 1):  # not by `sys.stdin`, whose lock Python would wait for at its end
        pass
    # Between its wait and its run it ignores what is sent.
    while process.poll() is None and not _interrupt(process.pid):
        time.sleep(_PAUSE_S)


def _interrupt(pid: int) -> bool:
    """Asks the run to end, if there is one; of signals that end something srun hands on this one
    alone.
    """
    with contextlib.suppress(psutil.NoSuchProcess):
        salloc = psutil.Process(pid)
        runs = salloc.children()
        for process in runs or [salloc]:
            process.send_signal(signal.SIGINT)
        return bool(runs)
    return True


if __name__ == "__main__":
    sys.exit(main())

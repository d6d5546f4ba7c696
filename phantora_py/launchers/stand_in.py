"""Takes a launcher's place in a script: hands its command line over to the run that the script was
started by, waits for its end, and ends with its code.

    python -I -S stand_in.py NAME [ARGUMENT ...]

The run's end is `phantora_py.launch.script`. Imports the standard library only: a Python that the
script starts may be any (`hand_over` is called by rank/site/sitecustomize.py).
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

SOCKET = "PHANTORA_SCRIPT"
_LOST = 70


def hand_over(words: list[str]) -> int | None:
    """Tells the run what was to be started; None: the run has nothing to do with it, go on.

    Returns the code to end with.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(os.environ[SOCKET])
            told = {"words": words, "environment": dict(os.environ), "directory": os.getcwd()}
            connection.sendall(json.dumps(told).encode("utf-8", "surrogateescape"))
            connection.shutdown(socket.SHUT_WR)
            answer = json.loads(_read(connection))
            if answer.get("launch"):
                # The run hears of Ctrl-C itself.
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                answer = json.loads(_read(connection))
        except (OSError, ValueError):
            return _LOST  # The run has ended, and with it what we were started for.
    if answer.get("message"):
        print(answer["message"], file=sys.stderr)
    status: int | None = answer.get("status")
    return status


def _read(connection: socket.socket) -> bytes:
    """One line."""
    line = b""
    while not line.endswith(b"\n"):
        part = connection.recv(4096)
        if not part:
            break
        line += part
    return line


if __name__ == "__main__":
    status = hand_over(sys.argv[1:])
    sys.exit(_LOST if status is None else status)

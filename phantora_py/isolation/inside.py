"""The first process of a container that an engine started: starts the rank and tells of its end.

    python -I -S inside.py RUN_DIR RANK

It has nothing of phantora, and nothing of the shim. The rank gets its command from a file in the
run directory and its output files through the starter's socket, over which the kernel tells the
starter its pid. See `phantora_py.launch.container_starter`.
"""

import json
import os
import signal
import socket
import sys
from types import FrameType
from typing import NoReturn

OUTPUTS = 2
_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def socket_path(run_dir: str) -> str:
    """Where the starter listens."""
    return f"{run_dir}/containers.sock"


def start_path(run_dir: str, rank: int) -> str:
    """What a rank is to execute, as JSON: command, environment, directory."""
    return f"{run_dir}/rank-{rank}.start"


def main() -> None:
    """Ends with the rank."""
    run_dir, rank = sys.argv[1], int(sys.argv[2])
    # The kernel withholds from a namespace's first process what that has no handler for.
    before = {number: signal.signal(number, _end) for number in _ENDS}
    report = _connect(run_dir, {"rank": rank, "part": "first"})
    child = os.fork()
    if child == 0:
        for number, handler in before.items():
            signal.signal(number, handler)
        report.close()
        _become(run_dir, rank)
    while True:
        pid, status = os.wait()  # Orphans of the rank are ours.
        if pid == child:
            break
    report.send(json.dumps(status).encode())
    report.recv(1)  # The starter has it; the container may go, and what the rank left with it.


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    os._exit(128 + number)


def _become(run_dir: str, rank: int) -> NoReturn:
    connection = _connect(run_dir, {"rank": rank, "part": "rank"})
    message, descriptors, _, _ = socket.recv_fds(connection, 1, OUTPUTS)
    if not message:
        os._exit(1)  # The run ended before the rank was to start.
    with open(start_path(run_dir, rank), encoding="utf-8") as file:
        start = json.load(file)
    connection.close()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number + 1)
    os.setsid()
    os.chdir(start["directory"])
    os.execve(start["command"][0], start["command"], start["environment"])


def _connect(run_dir: str, greeting: dict[str, object]) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(socket_path(run_dir))
    connection.send(json.dumps(greeting).encode())
    return connection


if __name__ == "__main__":
    main()

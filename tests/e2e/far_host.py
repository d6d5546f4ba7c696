"""Stands in for ssh: `far_host.py -o OPTION -o OPTION -- HOST COMMAND`.

The command runs on this machine, but its agent reaches the server through a link that takes
PHANTORA_FAR_HOST_MS each way, and that is cut as soon as the file PHANTORA_FAR_HOST_CUT exists.
What the agent sends is also added to the file PHANTORA_FAR_HOST_HEARD. The clocks of the host are
PHANTORA_FAR_HOST_CLOCK off (`-3d`), by the library PHANTORA_FAR_HOST_FAKETIME. A host named
"unreachable" is, and one named "bare" has no Python where this one has it.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

_LOOK_EVERY_S = 0.05


def is_cut() -> bool:
    cut = os.environ.get("PHANTORA_FAR_HOST_CUT")
    return cut is not None and Path(cut).exists()


def carry(source: socket.socket, target: socket.socket, delay_s: float, heard: Path) -> None:
    """Until the end of `source`. `heard`: what has come is added to it."""
    under_way: queue.Queue[tuple[float, bytes]] = queue.Queue()

    def deliver() -> None:
        while True:
            due_s, data = under_way.get()
            time.sleep(max(due_s - time.monotonic(), 0.0))
            while is_cut():
                time.sleep(_LOOK_EVERY_S)
            try:
                if not data:
                    target.shutdown(socket.SHUT_WR)
                    return
                target.sendall(data)
            except OSError:
                return  # The other side has gone.

    threading.Thread(target=deliver, daemon=True).start()
    while True:
        try:
            data = source.recv(1 << 16)
        except OSError:
            data = b""
        with heard.open("ab") as copy:
            copy.write(data)
        under_way.put((time.monotonic() + delay_s, data))
        if not data:
            return


def link(listener: socket.socket, address: tuple[str, int], delay_s: float) -> None:
    while True:
        ends = (listener.accept()[0], socket.create_connection(address))
        for end in ends:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        heard = os.environ.get("PHANTORA_FAR_HOST_HEARD", os.devnull)
        for source, target, copy in ((*ends, heard), (*ends[::-1], os.devnull)):
            arguments = (source, target, delay_s, Path(copy))
            threading.Thread(target=carry, args=arguments, daemon=True).start()


def main() -> int:
    host, command = sys.argv[-2:]
    if host == "unreachable":
        print("ssh: connect to host unreachable port 22: No route to host", file=sys.stderr)
        return 255
    if host == "bare":
        print(f"sh: {command.split()[0]}: not found", file=sys.stderr)
        return 127
    job = json.loads(sys.stdin.buffer.readline())
    name, _, port = job["address"].rpartition(":")
    listener = socket.create_server(("127.0.0.1", 0))
    job["address"] = f"127.0.0.1:{listener.getsockname()[1]}"
    job["versions"] |= json.loads(os.environ.get("PHANTORA_FAR_HOST_VERSIONS", "{}"))
    job["environment"] |= json.loads(os.environ.get("PHANTORA_FAR_HOST_ENVIRONMENT", "{}"))
    delay_s = float(os.environ.get("PHANTORA_FAR_HOST_MS", "0")) / 1e3
    arguments = (listener, (name, int(port)), delay_s)
    threading.Thread(target=link, args=arguments, daemon=True).start()
    clock = {}
    if (library := os.environ.get("PHANTORA_FAR_HOST_FAKETIME")) is not None:
        clock = {"LD_PRELOAD": library, "FAKETIME": os.environ["PHANTORA_FAR_HOST_CLOCK"]}
    words = ["sh", "-c", f"exec {command}"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, env=os.environ | clock) as agent:
        assert agent.stdin is not None
        agent.stdin.write(json.dumps(job).encode() + b"\n")
        agent.stdin.flush()
        threading.Thread(target=hang_up, args=(agent,), daemon=True).start()
        return agent.wait() % 256


def hang_up(agent: subprocess.Popen[bytes]) -> None:
    """With our own standard input that of the agent ends."""
    sys.stdin.buffer.read()
    assert agent.stdin is not None
    agent.stdin.close()


if __name__ == "__main__":
    sys.stdout.flush()
    os._exit(main())

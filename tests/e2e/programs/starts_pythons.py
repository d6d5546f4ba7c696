"""Starts Pythons in many ways, and tells what they and it see: `starts_pythons.py`.

What it prints is the same whoever makes the processes. With `had torch` last on a line, it is told
whether the process had PyTorch before it had imported it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from types import MappingProxyType
from typing import Any

TELL = """
import json, os, signal, sys
had_torch = "torch" in sys.modules
print(json.dumps([
    os.getpid() == int(sys.stdin.readline()) if "pid" in sys.argv else None,
    os.getppid() == int(os.environ.get("PARENT", "0")), os.getcwd(), sys.argv,
    os.environ.get("MINE"), os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid(),
    signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN, __name__,
]), "had torch" if had_torch else "")
sys.exit(7)
"""


def tell(end: Connection) -> None:
    end.send((__name__, os.getppid(), "torch" in sys.modules))


def run(words: list[str], more: Mapping[str, str] = MappingProxyType({}), **how: Any) -> None:
    environment = {**os.environ, "PARENT": str(os.getpid()), "MINE": "yes", **more}
    process = subprocess.Popen(
        [sys.executable, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        **how,
    )
    output, _ = process.communicate(f"{process.pid}\n")
    print(process.returncode, output.rstrip(), flush=True)


def main() -> None:
    folder = Path("folder")
    folder.mkdir(exist_ok=True)
    (folder / "told.py").write_text(TELL)
    run(["-c", TELL, "pid", "a b"])
    run(["-u", "told.py", "pid"], cwd=folder)
    run(["-m", "told", "pid"], cwd=folder, start_new_session=True)
    run(["-c", TELL], more={"OMP_NUM_THREADS": "3"})
    run(["-I", "-c", TELL])
    run(["-c", TELL], preexec_fn=os.setsid)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    run(["-c", TELL])
    killed = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    killed.terminate()
    print("killed", killed.wait(), flush=True)
    try:
        subprocess.Popen([sys.executable, "-c", "pass"], cwd="nowhere")
    except FileNotFoundError:
        print("no such folder", flush=True)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    worker = context.Process(target=tell, args=(theirs,))
    worker.start()
    name, parent, had_torch = ours.recv()
    worker.join()
    mark = "had torch" if had_torch else ""
    print(name, parent == os.getpid(), worker.exitcode, mark, flush=True)
    words = [sys.executable, "-c", "raise ValueError('bad')"]
    failing = subprocess.run(words, capture_output=True, text=True, check=False)
    print(failing.returncode, failing.stderr.splitlines()[-1], flush=True)
    from multiprocessing import resource_tracker  # noqa: PLC0415

    resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]
    try:
        os.wait()
    except ChildProcessError:
        print("no child is left", flush=True)
    run(["-c", TELL])


if __name__ == "__main__":
    main()

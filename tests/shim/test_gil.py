"""Threads that want Python's lock, while a driver that holds it waits for the server."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from fake_run import PRELUDE, FakeRun
from stand_in_agent import StandInAgent

THREADS = 20
WATCHED_S = 1.0
CODE = """
class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]
nccl = ctypes.PyDLL(sys.argv[1])
nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, Id, ctypes.c_int]
communicator, name = ctypes.c_void_p(), Id()
gate = threading.Barrier(int(sys.argv[2]) + 1)
for _ in range(int(sys.argv[2])):
    threading.Thread(target=gate.wait, daemon=True).start()
nccl.ncclGetUniqueId(ctypes.byref(name))
print("begins", flush=True)
gate.wait()
nccl.ncclCommInitRank(ctypes.byref(communicator), 2, name, 0)
"""


def turns(pid: int) -> int:
    """How often threads of a process have got a processor."""
    files = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[2]) for file in files)


def test_they_sleep(tmp_path: Path) -> None:
    """They ask for it every 5 ms otherwise. The other rank, which is waited for, never comes."""
    run = FakeRun(tmp_path)
    words = [sys.executable, "-c", PRELUDE + CODE, str(run.core.with_name("libnccl.so.2"))]
    agent = StandInAgent(tmp_path, ranks=1)
    try:
        with subprocess.Popen(
            [*words, str(THREADS)], env=run.environment, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "begins\n"
            time.sleep(1)
            before = turns(process.pid)
            time.sleep(WATCHED_S)
            asked = turns(process.pid) - before
            assert process.poll() is None
            process.kill()
    finally:
        agent.close()
    assert asked < THREADS * WATCHED_S / 0.005 / 4

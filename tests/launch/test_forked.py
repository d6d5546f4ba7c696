"""A function as a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from phantora_py.launch.forked import may_fork

LIMIT_S = 20.0
# A process with one thread, which pytest need not be. It forks `main`, prints its pid and does
# what follows.
BEGIN = """
import json, os, signal, subprocess, sys, time
from pathlib import Path
from phantora_py.launch.forked import Forked, may_fork
assert may_fork()

def main(words):
    {body}

signal.signal(signal.SIGTERM, lambda *_: None)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
reader, writer = os.pipe()
with open("output", "wb") as output:
    child = Forked(main, ["a name", "-x"], {{"OF_THE_CHILD": "1"}}, output.fileno())
print(child._pid, flush=True)
"""


def run(folder: Path, body: str, after: str) -> subprocess.CompletedProcess[str]:
    """Runs a program that forks a child with this body."""
    program = BEGIN.format(body=body) + after
    words = [sys.executable, "-P" if sys.version_info >= (3, 11) else "-s", "-c", program]
    return subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )


def test_a_child_is_as_a_new_program(tmp_path: Path) -> None:
    """Its words, environment, files, session and signals are its own, and its status is told."""
    body = """print(json.dumps({
        "words": words,
        "environment": dict(os.environ),
        "files": [os.readlink(f"/proc/self/fd/{number}") for number in range(3)],
        "open": len(os.listdir("/proc/self/fd")),
        "leads": os.getsid(0) == os.getpid(),
        "signals": [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGHUP)],
        "blocked": [str(one) for one in signal.pthread_sigmask(signal.SIG_BLOCK, ())],
        "shown": Path("/proc/self/cmdline").read_text().rstrip(chr(0)).split(chr(0)),
    }), flush=True)
    return 7"""
    ended = run(tmp_path, body, "print(child.wait(10), child.poll())")
    assert ended.stderr == ""
    assert ended.stdout.splitlines()[1:] == ["7 7"]
    output = str(tmp_path / "output")
    assert json.loads((tmp_path / "output").read_text()) == {
        "words": ["-x"],
        "environment": {"OF_THE_CHILD": "1"},
        "files": ["/dev/null", output, output],
        "open": 4,  # and the list itself
        "leads": True,
        "signals": [signal.SIG_DFL, signal.SIG_IGN],
        "blocked": [str(one) for one in signal.pthread_sigmask(signal.SIG_BLOCK, ())],
        "shown": ["a name", "-x"],
    }


@pytest.mark.parametrize(("what", "status"), [("terminate", -15), ("kill", -9)])
def test_a_child_is_ended(tmp_path: Path, what: str, status: int) -> None:
    after = f"""
try:
    child.wait(0.1)
except subprocess.TimeoutExpired:
    print(child.poll())
child.{what}()
print(child.wait(10))
child.{what}()
"""
    ended = run(tmp_path, "time.sleep(60)", after)
    assert ended.stderr == ""
    assert ended.stdout.splitlines()[1:] == ["None", str(status)]


def test_a_fault_is_told(tmp_path: Path) -> None:
    ended = run(tmp_path, "raise KeyError(words)", "print(child.wait(10))")
    assert ended.stdout.splitlines()[1:] == ["1"]
    assert (tmp_path / "output").read_text().endswith("KeyError: ['-x']\n")


def test_a_child_ends_with_its_parent(tmp_path: Path) -> None:
    ended = run(tmp_path, "time.sleep(60)", "os.kill(os.getpid(), signal.SIGKILL)")
    assert ended.returncode == -9
    try:
        psutil.Process(int(ended.stdout)).wait(LIMIT_S)
    except psutil.NoSuchProcess:
        return  # it has ended already


def test_threads_are_in_the_way() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert not may_fork()
    finally:
        done.set()
        thread.join()

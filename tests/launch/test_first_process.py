"""The first process of a pid namespace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from phantora_py.isolation import first


@pytest.fixture
def killed() -> int:
    """The pid of a process that has been killed and waits for its parent."""
    child = os.fork()
    if child == 0:
        while True:
            signal.pause()
    os.kill(child, signal.SIGKILL)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    return child


def _ends_without_a_word(child: int) -> bool:
    """Whether a child waits to be killed; kills it."""
    deadline = time.monotonic() + 0.5
    while time.monotonic() < deadline:
        if os.waitpid(child, os.WNOHANG)[0]:
            return False
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def test_a_rank_waits_for_its_end_with_its_namespaces(killed: int) -> None:
    """A rank that cannot enter namespaces because they are going is silent until it is killed."""
    child = os.fork()
    if child == 0:
        first._join(killed, frozenset({"net"}))
        os._exit(1)
    assert _ends_without_a_word(child)
    os.waitpid(killed, 0)


def test_a_rank_says_why_it_cannot_enter() -> None:
    """Where the first process lives, a namespace that cannot be joined is an error."""
    as_nobody = ("setpriv", "--reuid=65534", "--clear-groups") if os.geteuid() == 0 else ()
    code = "from phantora_py.isolation import first; first._join(1, frozenset({'net'}))"
    found = subprocess.run(
        [*as_nobody, sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False
    )
    assert found.returncode == 1
    assert "PermissionError" in found.stderr

"""Idleness: a process tree that waits outside is told from one that works."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from phantora_py.agent.idle import QUIET_NS, IdleWatch


class Clock:
    """A wall clock that a test moves."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


@contextmanager
def running(script: str) -> Iterator[int]:
    """A shell script that says when it has begun; its pid."""
    with subprocess.Popen(
        ["sh", "-c", f"echo; {script}"], stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            subprocess.run(["kill", "-9", "--", f"-{process.pid}"], check=True)


def becomes_idle(pid: int) -> bool:
    """Whether the watch, looking every 20 ms as the agent does, finds it idle in a second."""
    watch = IdleWatch()
    deadline_s = time.monotonic() + 1
    while time.monotonic() < deadline_s:
        if watch.is_idle(0, pid):
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("script", ["read x", "sleep 60", "sleep 60 & wait", "exec sleep 60"])
def test_a_waiting_tree_is_idle(script: str) -> None:
    """A process that waits for a pipe, for time or for a child that waits is idle."""
    with running(script) as pid:
        assert becomes_idle(pid)


@pytest.mark.parametrize("script", ["while :; do :; done", "(while :; do :; done) & wait"])
def test_a_working_tree_is_not(script: str) -> None:
    """CPU used anywhere in the tree is a sign of life."""
    with running(script) as pid:
        assert not becomes_idle(pid)


def test_quiet_must_last() -> None:
    """One look is not enough, and a sign of life starts the wait anew."""
    clock = Clock()
    watch = IdleWatch(clock)
    with running("sleep 60") as pid:
        assert becomes_idle(pid)
        assert not watch.is_idle(0, pid)
        clock.now_ns += QUIET_NS - 1
        assert not watch.is_idle(0, pid)
        clock.now_ns += 1
        assert watch.is_idle(0, pid)
        watch.forget(0)
        assert not watch.is_idle(0, pid)

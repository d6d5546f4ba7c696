"""Idleness: a process tree that waits outside is told from one that works."""

import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from phantora_py.agent.idle import QUIET_NS, IdleWatch, Signs, find_still


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


SILENT = Signs(acting=0, relays=0, naps=0, napping=0)


def becomes_still(
    candidates: dict[int, int],
    ranks: dict[int, int],
    signs: Callable[[int], Signs] = lambda _: SILENT,
) -> set[int]:
    """What is found still within a second, at the first look that finds something."""
    deadline_s = time.monotonic() + 1
    while time.monotonic() < deadline_s:
        still = find_still(candidates, ranks, signs)
        if still:
            return still
        time.sleep(0.001)
    return set()


@pytest.mark.parametrize("script", ["read x", "sleep 60 & wait"])
def test_a_tree_that_sleeps_is_still(script: str) -> None:
    """No time need pass: two looks are enough."""
    with running(script) as pid:
        assert becomes_still({0: pid}, {0: pid}) == {0}


@pytest.mark.parametrize(
    "script", ["while :; do :; done", "(while :; do :; done) & wait", "while :; do /bin/true; done"]
)
def test_a_tree_that_works_is_not_still(script: str) -> None:
    """Nor one whose children work, or come and go."""
    with running(script) as pid:
        assert becomes_still({0: pid}, {0: pid}) == set()


def test_a_rank_is_still_beside_one_that_works_in_its_main_thread() -> None:
    """What that one does outside is still to come, unless it is about to do it."""
    with running("read x") as waits, running("while :; do :; done") as works:
        ranks = {0: waits, 1: works}
        assert becomes_still(ranks, ranks) == {0}
        acts = SILENT._replace(acting=1)
        assert becomes_still(ranks, ranks, lambda rank: acts if rank == 1 else SILENT) == set()


HELPER = """
import threading, time
def work():
    while True: sum(range(1000))
threading.Thread(target=work, daemon=True).start()
print(flush=True)
time.sleep(60)
"""


def test_no_rank_is_still_beside_a_helper_thread_that_works() -> None:
    """It may have a message in its hands for anybody."""
    with (
        running("read x") as waits,
        subprocess.Popen([sys.executable, "-c", HELPER], stdout=subprocess.PIPE) as helper,
    ):
        assert helper.stdout is not None
        helper.stdout.readline()
        assert becomes_still({0: waits}, {0: waits, 1: helper.pid}) == set()
        helper.kill()


def test_no_rank_is_still_while_messages_are_passed_on() -> None:
    """A helper may take one after its thread was looked at, and be asleep again."""
    relays = itertools.count()

    def pass_on(_: int) -> Signs:
        return SILENT._replace(relays=next(relays))

    with running("read x") as pid:
        assert becomes_still({0: pid}, {0: pid}, pass_on) == set()

"""Child processes of a rank: they are let work, and the rank hears when they have nothing to do."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from rank_processes import DOZE, running

from phantora_py.agent.children import ChildWatch, who_works
from phantora_py.launch.ranks import Beside

LOOP = "while :; do :; done"


class Channels:
    """A rank that asks once."""

    def __init__(self, threads: int = 1, beside: bool = False) -> None:
        self.threads = threads
        self.beside = beside
        self.number = 7
        self.told: list[tuple[int, int, bool]] = []

    def gives_way(self, rank: int) -> tuple[int, int, bool]:
        return (self.threads, self.number, self.beside) if rank == 0 else (0, 0, False)

    def clock(self, _rank: int) -> int:
        return 0

    def tell_children(self, rank: int, question: int, sleep: bool) -> None:
        self.told.append((rank, question, sleep))


def answers(
    pids: dict[int, int], channels: Any, limit_s: float = 1.0, beside: Beside | None = None
) -> bool:
    """Whether the rank is told something within this time."""
    watch = ChildWatch(channels)
    deadline_s = time.monotonic() + limit_s
    while not channels.told and time.monotonic() < deadline_s:
        watch.answer(pids, beside)
        time.sleep(watch.due_ms() / 1000)
    return bool(channels.told)


@pytest.mark.parametrize("script", ["read x", "read x & wait", "(exit 3) & read x"])
def test_children_that_wait_are_told(script: str) -> None:
    """Also one that has ended, and of which the rank has not heard yet."""
    channels = Channels()
    with running(script) as pid:
        assert answers({0: pid}, channels)
    assert channels.told == [(0, 7, False)]


@pytest.mark.parametrize("script", ["sleep 60 & wait", f"{sys.executable} -S -c '{DOZE}' & wait"])
def test_children_that_sleep_by_the_clock_are_told_as_such(script: str) -> None:
    """Whether our library is in them or not."""
    channels = Channels()
    with running(script) as pid:
        time.sleep(0.5)
        assert answers({0: pid}, channels)
    assert channels.told == [(0, 7, True)]


def test_a_child_that_works_is_waited_for() -> None:
    """However long that takes."""
    channels = Channels()
    with running(f"({LOOP}) & wait") as pid:
        assert not answers({0: pid}, channels)


def test_what_works_below_another_rank_is_its_own() -> None:
    """A process that has started others, which are ranks, is the parent of all."""
    channels = Channels()
    with running(f"({LOOP}) & read x") as pid:
        deadline_s = time.monotonic() + 5
        while not (below := children(pid)) and time.monotonic() < deadline_s:
            time.sleep(0.01)
        assert answers({0: pid, 1: below[0]}, channels)


def children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


@pytest.mark.parametrize(
    ("script", "asks", "told"),
    [
        (f"({LOOP}) & read x", True, []),
        (f"({LOOP}) & read x", False, [(0, 7, False)]),
        ("sleep 60 & wait", True, [(0, 7, True)]),
        ("sleep 60", True, [(0, 7, True)]),
        ("sleep 60", False, [(0, 7, False)]),
        ("read x", True, [(0, 7, False)]),
    ],
)
def test_processes_that_are_no_ranks(
    script: str, asks: bool, told: list[tuple[int, int, bool]]
) -> None:
    """They are waited for as children are, for a rank that asks."""
    channels = Channels(beside=asks)
    with running("read x") as rank, running(script) as beside:
        time.sleep(0.5)
        assert answers({0: rank}, channels, beside=Beside(beside, ())) == bool(told)
    assert channels.told == told


def test_ranks_are_not_beside_themselves() -> None:
    """What works below one that others have started does so for that one."""
    channels = Channels(beside=True)
    with running(f"({LOOP}) & read x") as pid:
        deadline_s = time.monotonic() + 5
        while not (below := children(pid)) and time.monotonic() < deadline_s:
            time.sleep(0.01)
        with running("read x") as rank:
            assert answers({0: rank}, channels, beside=Beside(pid, below))


def test_a_rank_that_works_itself_is_waited_for_a_while() -> None:
    """A thread of its own may be about to hand a child its work, or may be busy for ever."""
    channels = Channels()
    with running(LOOP) as pid:
        start_s = time.monotonic()
        assert answers({0: pid}, channels)
        assert time.monotonic() - start_s >= 0.2


def test_nobody_is_looked_at_unasked() -> None:
    """A rank that does not sleep goes on as it did."""
    channels = Channels(threads=0)
    assert not answers({0: 1 << 30}, channels, limit_s=0.1)
    asked: Any = channels
    assert not ChildWatch(asked).is_asked(0)


def told_of(script: str, is_there: Callable[[str], bool]) -> str:
    """What is said of a process, once it is."""
    with running(script) as pid:
        deadline_s = time.monotonic() + 5
        while not is_there(text := who_works(pid, ())) and time.monotonic() < deadline_s:
            time.sleep(0.01)
        return text.replace(str(pid), "RANK")


def test_the_user_hears_what_makes_a_rank_count_as_running() -> None:
    """A child that works, by its name; or that nothing does."""
    text = told_of(f"({LOOP}) & read x", lambda text: "process" in text)
    assert text.startswith(", while its process ")
    assert text.endswith(" (sh) works")
    assert told_of("read x", lambda text: "asleep" in text) == ", all its threads asleep"
    assert told_of(LOOP, lambda text: not text) == ""


def test_the_user_hears_of_a_process_that_is_no_rank() -> None:
    """For which a rank waits that sleeps."""
    with running("read x") as rank, running(LOOP) as pid:
        text = who_works(rank, (), Beside(pid, ()))
    assert text == f", while process {pid} (sh), which is no rank, works"

"""Programs that start their own ranks: which processes these are, and how they end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from phantora_py.agent import own_ranks
from phantora_py.agent.own_ranks import OwnRanks


class Channels:
    """Tells who uses which GPU, as a test has put in."""

    def __init__(self) -> None:
        self.owners: dict[int, int] = {}
        self.left: set[int] = set()
        self.waiting_ranks: set[int] = set()

    def owner_pid(self, rank: int) -> int:
        return self.owners.get(rank, 0)

    def release(self, rank: int, pid: int) -> bool:
        if self.owners[rank] == pid and pid in self.left:
            self.owners[rank] = 0
        return self.owners[rank] != pid

    def waiting(self, rank: int) -> int:
        return int(rank in self.waiting_ranks)


class Processes:
    """The starter's side: one process."""

    def __init__(self, pid: int) -> None:
        self.pids = {0: pid}
        self.ended: list[tuple[int, int]] = []
        self.stopped: list[float] = []

    def take_ended(self) -> Iterator[tuple[int, int]]:
        ended, self.ended = self.ended, []
        yield from ended

    def stop(self, grace_s: float) -> None:
        self.stopped.append(grace_s)


def make(directory: Path = Path("nowhere")) -> tuple[OwnRanks, Processes, Channels]:
    channels, processes = Channels(), Processes(os.getpid())
    ranks = OwnRanks(processes, channels, 3, directory)  # type: ignore[arg-type]
    return ranks, processes, channels


def child() -> subprocess.Popen[bytes]:
    """It lives until its standard input ends."""
    return subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    )


def end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait()


def test_whoever_uses_a_gpu_is_its_rank() -> None:
    """A rank without a process has the first one; one that ends is told once, rank 0 at the end."""
    ranks, processes, channels = make()
    assert ranks.pids == dict.fromkeys(range(3), os.getpid())
    first, second = child(), child()
    channels.owners = {0: first.pid, 1: second.pid}
    assert list(ranks.take_ended()) == []
    assert ranks.pids == {0: first.pid, 1: second.pid, 2: os.getpid()}
    end(second)
    assert list(ranks.take_ended()) == [(1, 0)]
    end(first)
    assert list(ranks.take_ended()) == []
    assert ranks.pids == {0: os.getpid(), 2: os.getpid()}
    processes.ended = [(0, 3)]
    assert list(ranks.take_ended()) == [(0, 3), (2, 0)]
    assert ranks.pids == {}


def test_one_that_has_ended_before_it_is_seen() -> None:
    """Its rank has ended."""
    ranks, _, channels = make()
    gone = child()
    end(gone)
    channels.owners = {1: gone.pid}
    assert list(ranks.take_ended()) == [(1, 0)]
    assert list(ranks.take_ended()) == []


def test_who_is_no_rank() -> None:
    """The first process and what it has started, but for ranks, by their ids as seen from here; and
    nobody if the first one is a rank itself.
    """
    ranks, _, channels = make()
    first, gone = child(), child()
    end(gone)
    channels.owners = {0: first.pid, 1: gone.pid}
    assert list(ranks.take_ended()) == [(1, 0)]
    assert ranks.beside == (os.getpid(), {first.pid})
    end(first)
    itself, _, channels = make()
    channels.owners = {0: os.getpid()}
    assert list(itself.take_ended()) == []
    assert itself.beside is None


def test_all_are_stopped_with_the_first() -> None:
    """What lies below the first process ends with it, and is weighed with it."""
    ranks, processes, _ = make()
    ranks.stop(0.5)
    assert processes.stopped == [0.5]
    assert ranks.tops == {0: os.getpid()}
    assert ranks.tell_end(1, "ended.") == "The program ended."


def test_one_process_after_another() -> None:
    """A rank whose process has ended well stays for the next, also for one that was quicker."""
    ranks, _, channels = make()
    first, second, third = child(), child(), child()
    channels.owners = {1: first.pid}
    assert list(ranks.take_ended()) == []
    channels.left = {first.pid}
    end(first)
    assert list(ranks.take_ended()) == []
    assert (ranks.pids[1], channels.owners[1]) == (os.getpid(), 0)
    channels.owners[1] = second.pid
    assert list(ranks.take_ended()) == []
    assert ranks.pids[1] == second.pid
    end(second)
    channels.owners[1] = third.pid
    assert list(ranks.take_ended()) == []
    assert list(ranks.take_ended()) == []
    assert ranks.pids[1] == third.pid
    end(third)
    assert list(ranks.take_ended()) == [(1, 0)]


def test_nobody_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """While others wait for it and nothing moves, a rank without a process is given up; later if
    the program sleeps and may start one when it wakes, and not at all while it is at work.
    """
    at_work: str | None = "/proc/1/task/1"
    sleeps = True
    monkeypatch.setattr(own_ranks, "thread_at_work", lambda *_, **__: at_work)
    monkeypatch.setattr(own_ranks, "sleeps_by_clock", lambda *_, **__: sleeps)
    ranks, _, channels = make()
    first, second = child(), child()
    channels.owners = {1: first.pid, 2: second.pid}
    assert list(ranks.take_ended()) == []
    channels.left = {first.pid}
    end(first)
    assert list(ranks.take_ended()) == []
    at_work, sleeps = None, False
    assert list(ranks.give_up(10.0)) == []
    channels.waiting_ranks = {2}
    at_work, sleeps = "/proc/1/task/1", True
    assert list(ranks.give_up(1000.0)) == []
    at_work = None
    assert list(ranks.give_up(59.0)) == []
    sleeps = False
    assert list(ranks.give_up(10.0)) == [1]
    assert ranks.pids.keys() == {0, 2}
    end(second)


def test_how_long_time_outs_wait_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """For processes at work, less for those that sleep by the clock, not for those that wait; the
    time in between does not count.
    """
    at_work: str | None = None
    sleeps = False
    now_s = 0.0
    monkeypatch.setattr(own_ranks, "thread_at_work", lambda *_, **__: at_work)
    monkeypatch.setattr(own_ranks, "sleeps_by_clock", lambda *_, **__: sleeps)
    played = Processes(os.getpid()), Channels()
    ranks = OwnRanks(*played, 3, Path("nowhere"), lambda: now_s)  # type: ignore[arg-type]

    def waits(seconds: float) -> bool:
        nonlocal now_s
        answers = []
        for _ in range(round(seconds / 0.05)):
            now_s += 0.05
            answers.append(ranks.others_go_on())
        return answers[-1]

    assert not waits(1)
    sleeps = True
    assert waits(4)
    now_s += 1000
    assert waits(0.5)
    assert not waits(1)
    at_work = "/proc/1/task/1"
    assert waits(59)
    assert not waits(2)


def test_what_a_refused_process_has_left(tmp_path: Path) -> None:
    """Its word is the refusal; there is none without it, before it is written, or where a rank has
    failed before.
    """
    ranks, _, channels = make(tmp_path)
    assert ranks.refusal() == ""
    (tmp_path / "refusal").touch()
    assert ranks.refusal() == ""
    (tmp_path / "refusal").write_text("process 7 uses GPU 0")
    assert ranks.refusal() == "process 7 uses GPU 0"
    gone = child()
    end(gone)
    channels.owners = {1: gone.pid}
    assert list(ranks.take_ended()) == [(1, 0)]
    assert ranks.refusal() == ""

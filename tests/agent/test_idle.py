"""Idleness: a process tree that waits outside is told from one that works."""

import itertools
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rank_processes import DOZE, running

from phantora_py.agent import idle, packets
from phantora_py.agent.idle import (
    QUIET_LOOKS,
    QUIET_NS,
    IdleWatch,
    StillWatch,
    Task,
    is_asleep,
    is_proven_still,
)


class Clock:
    """A wall clock that a test moves."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


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
        assert not any(watch.is_idle(0, pid) for _ in range(QUIET_LOOKS))
        clock.now_ns += QUIET_NS - 1
        assert not watch.is_idle(0, pid)
        clock.now_ns += 1
        assert watch.is_idle(0, pid)
        watch.forget(0)
        assert not watch.is_idle(0, pid)


def test_few_looks_are_no_guess() -> None:
    """However long the time between them: a thread that wakes now and then, and waits for a busy
    machine's processor, may be awake at each. More are made soon.
    """
    clock = Clock()
    watch = IdleWatch(clock)
    with running("sleep 60") as pid:
        assert becomes_idle(pid)
        for _ in range(QUIET_LOOKS - 1):
            assert not watch.is_idle(0, pid)
            assert watch.is_in_doubt([0])
            clock.now_ns += QUIET_NS
        assert watch.is_idle(0, pid)
    assert not watch.is_in_doubt([0, 1])


def test_a_host_is_not_taken_to_be_quiet_after_a_few_looks() -> None:
    """A look that proves it starts anew."""
    watch = IdleWatch()
    for _ in range(2):
        assert not any(watch.host_seems_quiet(False) for _ in range(QUIET_LOOKS - 1))
        assert watch.is_in_doubt([])
        assert not watch.host_seems_quiet(True)
        assert not watch.is_in_doubt([])
    assert [watch.host_seems_quiet(False) for _ in range(QUIET_LOOKS)][-1]


def test_a_thread_that_waits_for_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has not run since it was looked at before; one that sleeps, or has run, does not wait."""
    looks = iter([(True, 5), (True, 5), (False, 5), (False, 5), (False, 6), (True, 6)])

    def tasks(_pid: int) -> Iterator[tuple[str, Task]]:
        sleeps, wanted_ns = next(looks)
        yield "thread", Task(True, sleeps, 0, wanted_ns)

    monkeypatch.setattr(idle, "_tasks_of_tree", tasks)
    watch = IdleWatch()
    said = [watch.all_have_run([1]) for _ in range(6)]
    assert said == [False, True, True, False, True, True]


class Calls:
    """What the channels say of ranks that a test plays: nobody calls, nobody poll_sleeps."""

    def __init__(self) -> None:
        self.begun: Counter[int] = Counter()
        self.answers: Counter[int] = Counter()
        self.under_way: set[int] = set()
        self.told_poll_sleeps = iter(lambda: (0, 0), None)
        self.blocks: set[int] = set()
        self.giving_way: set[int] = set()
        self.look_up: set[int] = set()

    def looking_up(self, rank: int) -> int:
        return int(rank in self.look_up)

    def calls(self) -> dict[int, tuple[int, int, bool]]:
        return {
            rank: (self.begun[rank], self.answers[rank], rank in self.under_way)
            for rank in range(2)
        }

    def poll_sleeps(self, rank: int) -> tuple[int, int]:
        return next(self.told_poll_sleeps)

    def blocked(self, rank: int) -> int:
        return int(rank in self.blocks)

    def gives_way(self, rank: int) -> tuple[int, int, bool]:
        return int(rank in self.giving_way), 1, False


def watch(calls: Any) -> StillWatch:
    return StillWatch(calls)


def becomes_still(
    still: StillWatch, candidates: dict[int, int], ranks: dict[int, int] | None = None
) -> set[int]:
    """What is found still within a second, at the first look that finds something."""
    deadline_s = time.monotonic() + 1
    while time.monotonic() < deadline_s:
        found = still.find(candidates, ranks or candidates)
        if found:
            return found
        time.sleep(0.001)
    return set()


@pytest.mark.parametrize("script", ["read x", "sleep 60 & wait"])
def test_a_tree_that_sleeps_is_still(script: str) -> None:
    """No time need pass: two looks are enough."""
    with running(script) as pid:
        assert becomes_still(watch(Calls()), {0: pid}) == {0}


@pytest.mark.parametrize(
    "script", ["while :; do :; done", "(while :; do :; done) & wait", "while :; do /bin/true; done"]
)
def test_a_tree_that_works_is_not_still(script: str) -> None:
    """Nor one whose children work, or come and go."""
    with running(script) as pid:
        assert becomes_still(watch(Calls()), {0: pid}) == set()


def test_a_rank_is_still_beside_one_that_works_in_its_main_thread() -> None:
    """What that one does outside is still to come, unless it is under way."""
    with running("read x") as waits, running("while :; do :; done") as works:
        calls, ranks = Calls(), {0: waits, 1: works}
        assert becomes_still(watch(calls), ranks) == {0}
        calls.under_way = {0}
        assert becomes_still(watch(calls), ranks) == set()
        calls.under_way, calls.blocks = set(), {1}
        assert becomes_still(watch(calls), ranks) == set()


HELPER = """
import threading, time
def work():
    time.sleep(0.1)  # The main thread goes to sleep, and lets go of the interpreter's lock.
    print(flush=True)
    while True: sum(range(1000))
threading.Thread(target=work, daemon=True).start()
time.sleep(60)
"""


@contextmanager
def helper_that_works() -> Iterator[int]:
    """A process whose helper thread works; its pid."""
    with subprocess.Popen([sys.executable, "-c", HELPER], stdout=subprocess.PIPE) as helper:
        assert helper.stdout is not None
        helper.stdout.readline()
        try:
            yield helper.pid
        finally:
            helper.kill()


def test_no_rank_is_still_beside_a_helper_thread_that_works() -> None:
    """It may have a message in its hands for anybody."""
    with running("read x") as waits, helper_that_works() as helper:
        assert becomes_still(watch(Calls()), {0: waits}, {0: waits, 1: helper}) == set()


def test_who_runs_is_remembered() -> None:
    """The main thread, until another one is found at work."""
    still = watch(Calls())
    with running("while :; do :; done") as works, helper_that_works() as helper:
        assert still.runs(0, works)
        deadline_s = time.monotonic() + 5
        while still.runs(1, helper) and time.monotonic() < deadline_s:
            time.sleep(0.001)  # its main thread is about to sleep
        assert not still.runs(1, helper)
        while not still.runs(1, helper) and time.monotonic() < deadline_s:
            assert still.find({1: helper}, {0: works, 1: helper}) == set()
        assert still.runs(1, helper)


def test_no_rank_is_still_while_calls_are_made() -> None:
    """A helper may make one after its thread was looked at, and be asleep again."""

    class Busy(Calls):
        def calls(self) -> dict[int, tuple[int, int, bool]]:
            self.begun[0] += 1
            return super().calls()

    with running("read x") as pid:
        assert becomes_still(watch(Busy()), {0: pid}) == set()


def test_no_rank_is_still_while_one_looks_up_a_name() -> None:
    """Its thread sleeps until a name server has answered, and then goes on by itself."""
    calls = Calls()
    still = watch(calls)
    with running("read x") as asks, running("read x") as waits:
        calls.look_up.add(0)
        assert becomes_still(still, {0: asks}) == set()
        assert becomes_still(still, {1: waits}, {0: asks, 1: waits}) == set()
        calls.look_up.clear()
        assert becomes_still(still, {0: asks, 1: waits}) == {0, 1}


# Two processors, as Linux 6.18 and 5.4 show them.
QUEUES = "0000d9f3 00000000 {} 0000000c 00000001 00000000 00000000\n"
FIELDS = "00000000 " * 9


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([FIELDS + "00000000", FIELDS + "00000000"], {0}),
        ([FIELDS + "00000000", FIELDS + "0000000a"], set()),
    ],
)
def test_no_rank_is_still_while_a_packet_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], expected: set[int]
) -> None:
    """The kernel has it in the queue of some processor."""
    queues = tmp_path / "softnet_stat"
    queues.write_text("".join(map(QUEUES.format, lines)))
    monkeypatch.setattr(packets, "QUEUES", queues)
    with running("read x") as pid:
        assert becomes_still(watch(Calls()), {0: pid}) == expected


def test_a_packet_may_come_up_during_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread of the rank has sent it to another one of the rank, after the first check."""
    answers = itertools.cycle([False, True])
    monkeypatch.setattr(packets, "are_under_way", lambda: next(answers))
    with running("read x") as pid:
        assert becomes_still(watch(Calls()), {0: pid}) == set()


def test_an_old_kernel_does_not_tell_of_packets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lines are shorter."""
    queues = tmp_path / "softnet_stat"
    queues.write_text("0000d9f3 " + "00000001 " * 10)
    monkeypatch.setattr(packets, "QUEUES", queues)
    assert not packets.are_under_way()


def test_a_rank_stays_still_until_something_comes_to_it_or_it_goes_on() -> None:
    """It is not even looked at: here a process that works takes the place of one that slept."""
    calls = Calls()
    still = watch(calls)
    with running("read x") as waits, running("while :; do :; done") as works:
        assert becomes_still(still, {0: waits}) == {0}
        assert still.find({0: works}, {0: works}) == {0}
        calls.begun[0] += 1
        assert becomes_still(still, {0: works}) == set()
        assert becomes_still(still, {0: waits}) == {0}
        calls.answers[0] += 1
        assert becomes_still(still, {0: works}) == set()
        assert becomes_still(still, {0: waits}) == {0}
        still.got_on(0)
        assert becomes_still(still, {0: works}) == set()


def test_a_rank_that_lets_its_children_work_is_not_still() -> None:
    """It may have begun to since it became a candidate. It goes on by itself, and nobody hears."""
    calls = Calls()
    still = watch(calls)
    with running("read x") as waits, running("while :; do :; done") as works:
        calls.giving_way = {0}
        assert becomes_still(still, {0: waits}) == set()
        calls.giving_way = set()
        assert becomes_still(still, {0: works}) == set()
        assert becomes_still(still, {0: waits}) == {0}


def test_helpers_are_looked_at_once_after_they_were_called() -> None:
    """What slept since the last call has no message, whatever it does of its own later."""
    calls = Calls()
    still = watch(calls)
    with running("read x") as waits, running("read x") as sleeps, helper_that_works() as helper:
        assert becomes_still(still, {0: waits}, {0: waits, 1: sleeps}) == {0}
        still.got_on(0)
        assert becomes_still(still, {0: waits}, {0: waits, 1: helper}) == {0}
        calls.begun[1] += 1
        still.got_on(0)
        assert becomes_still(still, {0: waits}, {0: waits, 1: helper}) == set()


@pytest.mark.parametrize(("poll_sleeps", "expected"), [([3], set()), ([3, 3, 4], {0})])
def test_a_rank_that_naps_is_still_after_a_turn_of_its_loop(
    poll_sleeps: list[int], expected: set[int]
) -> None:
    """It looks outside only then: what it waits for may have happened while it slept."""
    calls = Calls()
    calls.told_poll_sleeps = (
        (slept, 1) for slept in itertools.chain(poll_sleeps, itertools.repeat(poll_sleeps[-1]))
    )
    with running("read x") as pid:
        assert becomes_still(watch(calls), {0: pid}) == expected


@pytest.mark.parametrize(
    ("script", "proven"),
    [("exec sleep 60", True), (f"{sys.executable} -c '{DOZE}' & wait", False)],
)
def test_a_child_that_sleeps_by_the_real_clock_is_no_proof(script: str, proven: bool) -> None:
    """A data loader's worker will go on by itself. Programs that know no shim do not count."""
    with running(script) as pid:
        deadline_s = time.monotonic() + 20
        while not is_asleep(pid) and time.monotonic() < deadline_s:
            time.sleep(0.02)
        time.sleep(0.5)
        assert is_asleep(pid)
        assert is_proven_still(pid) == proven

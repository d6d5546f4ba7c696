"""Tells whether a rank waits for something outside: a store, a lock, a pipe, another rank.

Where the simulation waits for such a rank, the agent sets it aside. That must be right: a rank that
is set aside comes back when another rank acts, and would come back too late if a message that had
already been sent were still on its way to it.

* `StillWatch` proves it. A rank is asleep if all its threads sleep at one instant, and that is so
  if two looks find none that runs, nor one that has run in between; and if between these looks the
  kernel has no packet in a queue, which one of its threads may have sent to another. What has been
  found asleep stays asleep until a call (csrc/protocol/switchboard.h) to it begins, the simulation
  answers it, or it goes on by itself. A message on its way is in the hands of a thread that runs:
  one that makes a call, which is counted, or a helper that was called or set to work and has not
  made its own call yet; or the kernel has it in a queue. So if no packet and no call is under way,
  and the helpers of all ranks have slept since the last that concerned them, then there is no
  message.
* `IdleWatch` guesses, where some thread is busy all the time: a rank that has hardly wanted the
  processor for a while cannot go on by itself, if meanwhile all threads of all ranks had the
  processor when they wanted it, so that none still has a message for it. Hardly, because threads
  of the framework (NCCL's watchdog, the heartbeat of its monitor) wake now and then in a rank that
  waits. On a busy machine such a thread, once woken, also waits for the processor, so that a few
  looks in a row may find it awake: many have to.
"""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from phantora_py.agent import packets
from phantora_py.agent.channels import Channels

# What a guess wants: so long, and so many looks at which nothing was proven (assumed).
QUIET_NS = 400_000_000
QUIET_LOOKS = 20
# Share of one processor that watchdogs may want in a rank that waits. Assumed; they take under 1 %.
QUIET_SHARE = 0.05

# Of a file about one thread.
_ENOUGH_BYTES = 4096
# States of a thread: it runs or is ready to, or waits for a disk; only its entry is left.
_BUSY = (b"R", b"D")
_ENDED = (b"Z", b"X")
# Where the kernel has a thread that sleeps by the clock: children of ranks, as `sleep_as_child` in
# csrc/shim/libc/virtual_clock.cc has it, and programs that our library is not in.
_CHILD_SLEEPS = b"do_sigtimedwait"
_OTHERS_SLEEP = (b"hrtimer_nanosleep", b"do_nanosleep")


class Task(NamedTuple):
    """A thread as the kernel accounts for it. `wanted_ns`: it ran, or was ready to."""

    is_main: bool
    sleeps: bool
    timeslices: int
    wanted_ns: int


class _State(NamedTuple):
    """What must be as it was for a rank that was asleep to be so still: calls to it that had begun,
    answers that it had got, and how often it had gone on.
    """

    calls: int
    answers: int
    is_called: bool
    steps: int


class StillWatch:
    """Finds the ranks that only an act still to come can set going again."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._steps: Counter[int] = Counter()
        self._asleep: dict[int, _State] = {}
        self._helpers_asleep: dict[int, _State] = {}
        self._poll_sleeps: dict[int, tuple[_State, int]] = {}
        self._at_work: dict[int, str] = {}
        self.is_quiet = False
        """Nothing went on at the last look, beside main threads of ranks."""

    def forget(self, polls: bool) -> None:
        """Something has come from another host, which no counter shows. `polls`: it is more than
        attempts to connect, so that also ranks that poll in loops have to look again.
        """
        self._asleep.clear()
        self._helpers_asleep.clear()
        if polls:
            self._poll_sleeps.clear()

    def got_on(self, rank: int) -> None:
        """A rank has done something."""
        self._steps[rank] += 1

    def runs(self, rank: int, pid: int) -> bool:
        """Whether the thread that was last seen at work still is. Cheap."""
        try:
            return _state(self._at_work.get(rank) or _thread(pid, pid)) in _BUSY
        except OSError:  # It ended just now.
            self._at_work.pop(rank, None)
            return True

    def find(
        self, candidates: Mapping[int, int], ranks: Mapping[int, int], others_too: bool = False
    ) -> set[int]:
        """Those of `candidates` that are still.

        Both mappings are from a rank to its pid; `ranks`: all that live on this host. `others_too`:
        they are looked at though no candidate is still. One that lets its children work, maybe
        since it became a candidate, goes on by itself.
        Raises: OSError or ValueError if the kernel's account of packets cannot be read.
        """
        self.is_quiet = False
        states = self._states(ranks)
        if packets.are_under_way():
            return set()
        known = {rank for rank in candidates if self._asleep.get(rank) == states[rank]}
        found = {
            rank
            for rank, pid in candidates.items()
            if rank not in known
            and self._is_asleep(rank, pid)
            and not self._is_between_looks(rank, states)
        }
        if not known and not found and not others_too:
            return set()
        # What a main thread that runs does outside, it does in its turn: that is still to come. Not
        # so if it has waited for its turn already, and in the kernel since.
        others = {
            rank
            for rank in ranks.keys() - known - found
            if self._helpers_asleep.get(rank) != states[rank]
        }
        quiet = {
            rank
            for rank in others
            if self._at_work_now(rank, ranks[rank], but_main=not self._channels.blocked(rank))
            is None
        }
        after = self._states(ranks)
        for rank in quiet | found:
            if after[rank] == states[rank] and not after[rank].is_called:
                self._helpers_asleep[rank] = states[rank]
        if quiet != others or any(state.is_called for state in after.values()):
            return set()
        if any(after[rank].calls != states[rank].calls for rank in ranks):
            return set()
        still = {
            rank
            for rank in known | found
            if after[rank] == states[rank] and not self._channels.gives_way(rank)[0]
        }
        self._asleep.update({rank: states[rank] for rank in still})
        self.is_quiet = True
        return still

    def _states(self, ranks: Iterable[int]) -> dict[int, _State]:
        calls = self._channels.calls()
        return {rank: _State(*calls[rank], self._steps[rank]) for rank in ranks}

    def _is_asleep(self, rank: int, pid: int) -> bool:
        if self.runs(rank, pid):
            return False
        at_work = self._at_work_now(rank, pid)
        if at_work is not None:
            self._at_work[rank] = at_work
        return at_work is None

    def _at_work_now(self, rank: int, pid: int, *, but_main: bool = False) -> str | None:
        """A thread that is, as of `thread_at_work`."""
        return thread_at_work(
            pid, but_main=but_main, is_served=lambda: self._channels.looking_up(rank) > 0
        )

    def _is_between_looks(self, rank: int, states: Mapping[int, _State]) -> bool:
        """Whether a rank sleeps in a loop that has not looked outside since it was last called."""
        poll_sleeps, polls_asleep = self._channels.poll_sleeps(rank)
        if not polls_asleep:
            return False
        state, seen = self._poll_sleeps.get(rank, (None, poll_sleeps))
        if state != states[rank]:
            seen = poll_sleeps
            self._poll_sleeps[rank] = states[rank], poll_sleeps
        return poll_sleeps < seen + polls_asleep


def is_asleep(pid: int, *, but_main: bool = False) -> bool:
    """Whether all threads of a process tree sleep at one instant. `but_main`: all but main ones."""
    return thread_at_work(pid, but_main=but_main) is None


def thread_at_work(
    pid: int,
    *,
    but_main: bool = False,
    but_first: bool = False,
    but: Collection[int] = (),
    is_served: Callable[[], bool] | None = None,
) -> str | None:
    """A thread of a process tree, as its directory in /proc; none if all sleep at one instant, at
    which the kernel has no packet for them either. While it has one, the first thread.

    `but_main`: all but main threads; `but_first`: but those of `pid` itself; `but`: but those of
    these processes and all below them; `is_served`: whether one of them waits for a process that is
    no rank.
    Raises: OSError or ValueError if the kernel's account of packets cannot be read.
    """
    directory = _thread(pid, pid)
    own = f"/proc/{pid}/"
    seen = {}
    try:
        for directory, task in _tasks_of_tree(pid, but):
            if (but_main and task.is_main) or (but_first and directory.startswith(own)):
                continue
            if not task.sleeps:
                return directory
            seen[directory] = task.timeslices
    except (OSError, ValueError):
        return directory  # One ended just now: something happened.
    # One of them may have sent it since it was looked for, and sleep now as its receiver does.
    if packets.are_under_way() or (is_served is not None and is_served()):
        return _thread(pid, pid)
    try:
        # If none of them has run since, there are no others.
        for directory, timeslices in seen.items():
            if _account(directory)[2] != timeslices or _state(directory) in _BUSY:
                return directory
    except (OSError, ValueError):
        return directory  # One ended just now: something happened.
    return None


def is_proven_still(pid: int) -> bool:
    """Whether no thread of a rank's processes is going to go on by itself, as seen now.

    A child process that sleeps by the real clock is; no other sleep is made in this way (see
    `sleep_as_child` in csrc/shim/libc/virtual_clock.cc).
    """
    try:
        tasks = _tasks_of_tree(pid)
        if any(_wchan(path).startswith(_CHILD_SLEEPS) for path, _ in tasks):
            return False
    except (OSError, ValueError):
        return False  # One ended just now: something happened.
    return is_asleep(pid)


def thread_works(directory: str) -> bool:
    """Whether a thread, by its directory in /proc, runs or is ready to. Cheap."""
    try:
        return _state(directory) in _BUSY
    except OSError:
        return False  # It has ended.


def name_of(directory: str) -> str:
    """Of a thread, by its directory in /proc."""
    try:
        return _read(f"{directory}/comm").decode(errors="replace").strip()
    except OSError:
        return "which has just ended"


def sleeps_by_clock(pid: int, but: Collection[int] = (), *, itself: bool = False) -> bool:
    """Whether a process below `pid` sleeps by the real clock, or `itself`, which in a rank never
    does; `but`: as of `thread_at_work`.
    """
    own = f"/proc/{pid}/"
    try:
        return any(
            _wchan(path).startswith((_CHILD_SLEEPS, *_OTHERS_SLEEP))
            for path, _ in _tasks_of_tree(pid, but)
            if itself or not path.startswith(own)
        )
    except (OSError, ValueError):
        return True  # One ended just now: it is looked at again.


@dataclass
class _Window:
    start_ns: int
    wanted_ns: int
    looks: int = 0


class IdleWatch:
    """Remembers, per rank, what its processes have wanted of the processor, by the wall clock."""

    def __init__(self, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._clock_ns = clock_ns
        self._windows: dict[int, _Window] = {}
        self._ready: dict[str, int] | None = None
        self._unproven = 0

    def is_in_doubt(self, ranks: Iterable[int]) -> bool:
        """Whether one of them, or the host, may be idle, so that more looks will tell."""
        looks = [self._windows[rank].looks for rank in ranks if rank in self._windows]
        return any(0 < seen < QUIET_LOOKS for seen in (self._unproven, *looks))

    def host_seems_quiet(self, is_quiet: bool) -> bool:
        """Whether a host is taken to be quiet though no look, as with `is_quiet`, proves it."""
        self._unproven = 0 if is_quiet else self._unproven + 1
        return self._unproven >= QUIET_LOOKS

    def all_have_run(self, pids: Iterable[int]) -> bool:
        """Whether no thread of these process trees has been waiting for the processor since the
        last time that this was asked: it may have a message for another rank in its hands. False
        at the first time.
        """
        ready = {}
        try:
            for pid in pids:
                tasks = _tasks_of_tree(pid)
                ready.update({path: task.wanted_ns for path, task in tasks if not task.sleeps})
        except (OSError, ValueError):
            return False  # One ended just now: something happened.
        before, self._ready = self._ready, ready
        if before is None:
            return False
        return all(before.get(path) != wanted_ns for path, wanted_ns in ready.items())

    def is_idle(self, rank: int, pid: int) -> bool:
        """Whether the process tree of `pid` has been quiet for QUIET_NS, at QUIET_LOOKS looks."""
        now_ns = self._clock_ns()
        wanted_ns = 0
        try:
            for _, task in _tasks_of_tree(pid):
                if not task.sleeps:
                    self.forget(rank)
                    return False
                wanted_ns += task.wanted_ns
        except (OSError, ValueError):
            self.forget(rank)
            return False  # One ended just now: something happened.
        window = self._windows.setdefault(rank, _Window(now_ns, wanted_ns))
        window.looks += 1
        lasted_ns = now_ns - window.start_ns
        # Processes that have ended no longer count, so the time may shrink.
        wanted_meanwhile_ns = wanted_ns - window.wanted_ns
        if not 0 <= wanted_meanwhile_ns <= QUIET_SHARE * max(lasted_ns, QUIET_NS):
            self._windows[rank] = _Window(now_ns, wanted_ns)
            return False
        return lasted_ns >= QUIET_NS and window.looks >= QUIET_LOOKS

    def forget(self, rank: int) -> None:
        """Starts again for a rank that did something."""
        self._windows.pop(rank, None)


def _tasks_of_tree(pid: int, but: Collection[int] = ()) -> Iterator[tuple[str, Task]]:
    """All threads of a process and its descendants, by their directories in /proc. `but`: without
    these processes and their descendants.

    Raises: OSError or ValueError if one ends meanwhile.
    """
    pending = [str(pid)]
    while pending:
        process = pending.pop()
        for thread in os.listdir(f"/proc/{process}/task"):
            directory = _thread(process, thread)
            ran_ns, queued_ns, timeslices = _account(directory)
            yield (
                directory,
                Task(thread == process, _sleeps(directory), timeslices, ran_ns + queued_ns),
            )
            below = _read(f"{directory}/children").decode().split()
            pending += [child for child in below if int(child) not in but]


def _thread(process: int | str, thread: int | str) -> str:
    return f"/proc/{process}/task/{thread}"


def _wchan(directory: str) -> bytes:
    return _read(f"{directory}/wchan")


def _sleeps(directory: str) -> bool:
    """Whether a thread has left the processor by itself; waiting for a disk is not sleeping.

    A thread that was about to sleep and lost the processor before looks as if it slept; but the
    kernel tells where a thread sleeps only if it is not about to run.
    Source: get_wchan in the kernel's sched/core.c.
    """
    state = _state(directory)
    if state in _ENDED:
        return True
    return state not in _BUSY and (_wchan(directory) != b"0" or not _tells_wchan())


def _account(directory: str) -> tuple[int, int, int]:
    """Time on the processor, time in the queue for it, and how often a thread got it."""
    ran_ns, queued_ns, timeslices = map(int, _read(f"{directory}/schedstat").split())
    return ran_ns, queued_ns, timeslices


def _state(directory: str) -> bytes:
    """It follows the name, which is in parentheses."""
    return _read(f"{directory}/stat").rpartition(b") ")[2][:1]


@cache
def _tells_wchan() -> bool:
    """Whether this kernel tells us where threads sleep, as found with one of our own."""
    sleeper = threading.Thread(target=threading.Event().wait, daemon=True)
    sleeper.start()
    for _ in range(100):
        if _read(f"/proc/self/task/{sleeper.native_id}/wchan") != b"0":
            return True
        time.sleep(0.001)
    return False


def _read(path: str) -> bytes:
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, _ENOUGH_BYTES)
    finally:
        os.close(file)

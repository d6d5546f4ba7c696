"""The ranks of a program that starts its own processes: whoever uses a GPU first is its rank.

The starter has started one process, the program's first. Which of the processes below it are ranks,
their channels tell (csrc/shim/calls/call.cc); their ends are seen from outside.
"""

import os
import select
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from phantora_py.agent.channels import Channels
from phantora_py.agent.idle import sleeps_by_clock, thread_at_work
from phantora_py.launch.ranks import GRACE_S, Beside, RankProcesses
from phantora_py.machine.process_tree import find_process

# How long others wait for a rank without a process while the program sleeps by the clock. It may
# start one when it wakes, or look every second whether all have ended (assumed).
_PATIENCE_WITH_SLEEPERS_S = 60.0
# How long time-outs of ranks wait for processes that are no ranks, altogether: for those at work,
# and for those that sleep by the clock, as a client that tries to connect again does and a launcher
# for as long as it lives (assumed: longer than a start of Python, than the pause between attempts).
_WORK_S = 60.0
_SLEEP_S = 5.0
_LOOK_S = 0.1
_REFUSAL = "refusal"
_LONGEST_REFUSAL = 1000


class OwnRanks:
    """Stands in for `RankProcesses`. `pids`: by rank, its process, or the program's first one for
    as long as it has none.
    """

    def __init__(
        self,
        processes: RankProcesses,
        channels: Channels,
        ranks: int,
        run_directory: Path,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._refusal = run_directory / _REFUSAL
        self._clock_s = clock_s
        self._waited_s = {_WORK_S: 0.0, _SLEEP_S: 0.0}
        self._waits_since_s: float | None = None
        self._processes = processes
        self._channels = channels
        (self._first,) = processes.pids.values()
        self.pids = dict.fromkeys(range(ranks), self._first)
        self._ends: dict[int, int | None] = {}
        self._owners: dict[int, int] = {}
        self._between: set[int] = set()
        self._gone: set[int] = set()

    @property
    def beside(self) -> Beside | None:
        """See RankProcesses. What the first process has started is below a rank if it is one."""
        ranks = self._processes_of_ranks()
        return None if self._first in ranks else Beside(self._first, ranks)

    @property
    def tops(self) -> Mapping[int, int]:
        """See RankProcesses."""
        return self._processes.pids

    def tell_end(self, _rank: int, how: str) -> str:
        """See RankProcesses. A rank that fails tells so itself; what is seen here to fail is the
        first process.
        """
        return f"The program {how}"

    def take_ended(self) -> Iterator[tuple[int, int]]:
        """Ranks that ended since the last call; the first process ends those that are left.

        How a rank ended is for the program to know, whose child it is. One whose process has ended
        well stays, for another may follow; rank 0 stays in any case.
        """
        self._find_new()
        for rank in [rank for rank in self._ends if self._has_ended(rank)]:
            end, pid = self._ends.pop(rank), self._owners.pop(rank)
            if end is not None:
                os.close(end)
            if self._channels.release(rank, pid):
                self._between.add(rank)
            else:
                self._gone.add(rank)
            if rank == 0 or rank in self._between:
                self.pids[rank] = self._first
            else:
                del self.pids[rank]
                yield rank, 0
        for _, status in self._processes.take_ended():
            left = sorted(self.pids)
            self.pids.clear()
            for rank in left:
                yield rank, status if rank == left[0] else 0

    def give_up(self, silence_s: float) -> Iterator[int]:
        """Ranks whose process has ended, while others wait for them and nothing has moved for
        `silence_s`: none has followed, and none is waited for any more.

        One may still follow while a process of the program that is no rank is at work or sleeps.
        """
        waiting = [rank for rank in self._ends if self._channels.waiting(rank)]
        if not waiting or len(waiting) < len(self._ends):
            return
        ranks = self._processes_of_ranks()
        if thread_at_work(self._first, but=ranks) is not None:
            return
        sleeps = sleeps_by_clock(self._first, but=ranks, itself=True)
        if sleeps and silence_s < _PATIENCE_WITH_SLEEPERS_S:
            return
        for rank in sorted(self._between - {0}):
            self._between.discard(rank)
            self._gone.add(rank)
            del self.pids[rank]
            yield rank

    def others_go_on(self) -> bool:
        """Whether processes of the program that are no ranks work, or sleep by the clock. What they
        do takes no virtual time, so that no time-out of a rank ends before it is done; but for so
        long only as is said above.
        """
        ranks = self._processes_of_ranks()
        if thread_at_work(self._first, but=ranks) is not None:
            limit_s = _WORK_S
        elif sleeps_by_clock(self._first, but=ranks, itself=True):
            limit_s = _SLEEP_S
        else:
            self._waits_since_s = None
            return False
        now_s = self._clock_s()
        since_s, self._waits_since_s = self._waits_since_s, now_s
        if since_s is not None:
            # The agent looks again within this time, if it still waits.
            self._waited_s[limit_s] += min(now_s - since_s, _LOOK_S)
        return self._waited_s[limit_s] < limit_s

    def refusal(self) -> str:
        """Why the first process was ended that does what cannot be simulated, which it has left
        word of (csrc/shim/core/failure.cc); empty if there is none. Where a rank has failed before,
        as where workers are started again, that is what ends the run.
        """
        if self._gone:
            return ""
        try:
            text = self._refusal.read_text(encoding="ascii", errors="replace")
        except FileNotFoundError:
            return ""
        return text[:_LONGEST_REFUSAL]

    def stop(self, grace_s: float = GRACE_S) -> None:
        """See RankProcesses."""
        self._processes.stop(grace_s)

    def _processes_of_ranks(self) -> set[int]:
        return {self.pids[rank] for rank, end in self._ends.items() if end is not None}

    def _has_ended(self, rank: int) -> bool:
        end = self._ends[rank]
        return end is None or bool(select.select([end], [], [], 0)[0])

    def _find_new(self) -> None:
        for rank in self.pids.keys() - self._ends.keys() - self._gone:
            own_pid = self._channels.owner_pid(rank)
            if own_pid == 0:
                continue
            self._between.discard(rank)
            pid = find_process(self._first, own_pid)
            self._owners[rank] = own_pid
            self._ends[rank] = None  # It has ended already, if it is not found.
            if pid is not None:
                with suppress(ProcessLookupError):
                    self._ends[rank] = os.pidfd_open(pid)
                    self.pids[rank] = pid

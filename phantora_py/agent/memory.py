"""Watches the memory that a run takes of this machine, and says so before it runs out.

Otherwise the kernel would choose which process to kill, and nobody would know why.
"""

import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psutil

from phantora_py.machine.host_memory import available_bytes, oom_kills, pss_bytes
from phantora_py.machine.process_tree import tree
from phantora_py.text.units import size_text

# How often it is looked how much is left: a process fills some hundred MiB meanwhile (assumed).
_LOOK_EVERY_S = 0.1
# What is left to the machine: a share of its memory, at least and at most so much, but never more
# than a share of what there is when the run starts (assumed).
_MARGIN_SHARE = 0.05
_LEAST_MARGIN_BYTES = 512 << 20
_MOST_MARGIN_BYTES = 4 << 30
_MARGIN_OF_AVAILABLE = 0.25
# The user is told when less than this share of what the run may take is left.
_SHORT_SHARE = 0.1
# Ranks are weighed in their first iteration, or after a while if they have none, and again each
# time that the run has lasted half as long again. To weigh one takes the kernel milliseconds; at
# most this share of one processor goes into it. The start of many ranks is spared for longer.
_FIRST_WEIGHED_S = 10.0
_FIRST_WEIGHED_PER_RANK_S = 0.5
_WEIGH_AGAIN = 1.5
_WEIGH_SHARE = 0.02
# Another host than the first is weighed again when it seems to have so much more or less of what
# the run may take there: that is how far the sum over hosts may be off (assumed).
_STEP_SHARE = 1 / 32


def margin_bytes(available_at_start_bytes: int) -> int:
    """What a run leaves to the machine."""
    share_bytes = int(_MARGIN_SHARE * psutil.virtual_memory().total)
    wanted_bytes = max(_LEAST_MARGIN_BYTES, min(share_bytes, _MOST_MARGIN_BYTES))
    return min(wanted_bytes, int(_MARGIN_OF_AVAILABLE * available_at_start_bytes))


@dataclass(frozen=True)
class Elsewhere:
    """The other hosts of a run, seen from the first one, which holds the limit of all. `names`:
    by one of their ranks; `taken_bytes`: likewise what the run takes of them, by their last word;
    `processes`: those below ours in which their agents may run, if this is their host, too.
    """

    names: Mapping[int, str] = field(default_factory=dict)
    taken_bytes: dict[int, int] = field(default_factory=dict)
    processes: Sequence[int] = ()

    @property
    def total_bytes(self) -> int:
        """Of all of them."""
        return sum(self.taken_bytes.values())


class MemoryWatch:
    """While entered, it watches. `warning`: for the user, to be told once; `over`: why the run must
    stop.

    What the run takes between two weighings is estimated by what the machine has less.
    """

    def __init__(
        self,
        limit_bytes: int | None,
        pids: Mapping[int, int],
        available: Callable[[], int] = available_bytes,
        weigh: Callable[[Iterable[int]], int] = pss_bytes,
        *,
        elsewhere: Elsewhere | None = None,
        told_bytes: float = math.inf,
    ) -> None:
        """`limit_bytes`: of the whole run; None: what the machine has, but for a margin. `pids`: of
        the ranks that live. `told_bytes`: what the run may take of this host by its share, where
        another holds the limit.
        """
        self.warning = ""
        self.over = ""
        self._limit_bytes = limit_bytes
        self._elsewhere = elsewhere or Elsewhere()
        self._step_bytes = _STEP_SHARE * told_bytes
        self._pids = pids
        self._available = available
        self._weigh_processes = weigh
        self._oom_kills = oom_kills()
        self._start_s = time.monotonic()
        first_s = max(_FIRST_WEIGHED_S, _FIRST_WEIGHED_PER_RANK_S * len(pids))
        self._weigh_at_s = self._start_s + first_s
        self._now_bytes: dict[int, int] = {}
        self._peak_bytes: dict[int, int] = {}
        self._available_then_bytes = available()
        self._total_bytes = weigh(self._own_processes())
        self._total_peak_bytes = self._total_bytes
        self._margin_bytes = margin_bytes(self._available_then_bytes)
        self._warned = False
        self._steady = False
        self._asked = False
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def to_dict(self) -> dict[str, Any]:
        """The `host_memory` entry of run.json."""
        return {
            "pss_bytes": {str(rank): self._peak_bytes[rank] for rank in sorted(self._peak_bytes)},
            "total_bytes": self._total_peak_bytes,
            "limit_bytes": self._limit_bytes,
        }

    @property
    def total_bytes(self) -> int:
        """What the run took of this host when it was last weighed."""
        return self._total_bytes

    def iterates(self) -> None:
        """The program has come to its iterations: what a rank takes from now on counts."""
        if not self._steady:
            self._steady = self._asked = True

    def oom_killed(self) -> bool:
        """Whether the kernel has killed a process for lack of memory since the run began."""
        return oom_kills() > self._oom_kills

    def take_warning(self) -> str:
        """What the user should be told, once; empty: nothing."""
        warning, self.warning = self.warning, ""
        return warning

    def look(self) -> None:
        """Compares what the run takes with what it may."""
        available = self._available()
        left_bytes = self._left_bytes(available)
        if left_bytes <= 0 and self._limit_bytes is None:
            self.over = self._over_text(available)
        elif left_bytes <= 0 or self._is_short(available):
            self._weigh()
            available = self._available_then_bytes
            left_bytes = self._left_bytes(available)
            if left_bytes <= 0:
                self.over = self._over_text(available)
            elif self._is_short(available):
                self._warned = True
                self.warning = f"memory runs short: {self._weights_text(left_bytes)}"
        elif self._asked or time.monotonic() >= self._weigh_at_s or self._is_step(available):
            if self._asked:  # what its start took was another matter
                self._asked = False
                self._peak_bytes.clear()
            self._weigh()

    def __enter__(self) -> "MemoryWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _serve(self) -> None:
        while not self.over and not self._done.wait(_LOOK_EVERY_S):
            self.look()

    def _left_bytes(self, available: int) -> int:
        """What the run may take beside what it takes already."""
        left_bytes = available - self._margin_bytes
        if self._limit_bytes is None:
            return left_bytes
        return min(left_bytes, self._limit_bytes - self._used_bytes(available))

    def _used_bytes(self, available: int) -> int:
        own_bytes = self._total_bytes + max(0, self._available_then_bytes - available)
        return own_bytes + self._elsewhere.total_bytes

    def _is_step(self, available: int) -> bool:
        return abs(self._available_then_bytes - available) >= self._step_bytes

    def _own_processes(self) -> set[int]:
        others = (pid for top in self._elsewhere.processes for pid in tree(top))
        return set(tree(os.getpid())).difference(others)

    def _is_short(self, available: int) -> bool:
        left_bytes = self._left_bytes(available)
        whole_bytes = self._used_bytes(available) + left_bytes
        return not self._warned and left_bytes < _SHORT_SHARE * whole_bytes

    def _weigh(self) -> None:
        began_s = time.monotonic()
        available = self._available()
        trees = {rank: set(tree(pid)) for rank, pid in list(self._pids.items())}
        # Those that we have started, beside the ranks: starter, server, sweeper.
        others = self._own_processes().difference(*trees.values())
        weights = {}
        for rank, pids in trees.items():
            if self._available() <= self._margin_bytes:
                return  # there is no time for it
            weights[rank] = self._weigh_processes(pids)
        total_bytes = sum(weights.values()) + self._weigh_processes(others)
        self._available_then_bytes, self._total_bytes = available, total_bytes
        self._now_bytes = {rank: weight for rank, weight in weights.items() if weight}
        for rank, weight in self._now_bytes.items():
            self._peak_bytes[rank] = max(weight, self._peak_bytes.get(rank, 0))
        self._total_peak_bytes = max(total_bytes, self._total_peak_bytes)
        now_s = time.monotonic()
        lasted_s = (now_s - self._start_s) * (_WEIGH_AGAIN - 1)
        self._weigh_at_s = now_s + max(lasted_s, (now_s - began_s) / _WEIGH_SHARE)

    def _over_text(self, available: int) -> str:
        if self._limit_bytes is not None and available > self._margin_bytes:
            taken_bytes = self._total_bytes + self._elsewhere.total_bytes
            took = f"The run takes {size_text(taken_bytes)} of memory, and --memory-limit is "
            text = f"{took}{size_text(self._limit_bytes)}"
        else:
            text = (
                f"Only {size_text(available)} of memory are left on this machine or in this "
                "container; the run was stopped before the kernel would have chosen a process to "
                "kill"
            )
        left_bytes = self._left_bytes(available)
        return f"{text}: {self._weights_text(left_bytes)} Run fewer ranks, or a smaller program."

    def _weights_text(self, left_bytes: int) -> str:
        """What the ranks took when they were last weighed, and how many would do; of several hosts
        what each took.
        """
        if self._elsewhere.names:
            return self._hosts_text()
        if not self._now_bytes:
            return "no rank had come to its iterations yet."
        ranks_bytes = sum(self._now_bytes.values())
        largest = max(self._now_bytes, key=self._now_bytes.__getitem__)
        mean_bytes = ranks_bytes / len(self._now_bytes)
        fit = math.floor((ranks_bytes + left_bytes) / mean_bytes)
        return (
            f"{len(self._now_bytes)} ranks take {size_text(ranks_bytes)}, rank {largest} most with "
            f"{size_text(self._now_bytes[largest])}; about {max(0, fit)} of this size would fit."
        )

    def _hosts_text(self) -> str:
        taken = [("this host", self._total_bytes)]
        for rank, name in self._elsewhere.names.items():
            taken.append((f"host {name}", self._elsewhere.taken_bytes[rank]))
        return f"{', '.join(f'{size_text(size)} on {name}' for name, size in taken)}."

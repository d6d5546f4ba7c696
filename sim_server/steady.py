"""Notices that the iteration time has settled, from virtual times alone.

An iteration ends as in the report (phantora_py/report/iterations.py): when every host has passed
its mark and the devices have done what was issued before. It is looked at once that is certain, in
the order of the iterations, so that it does not matter when records come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sim_server._engine import Announcement
from sim_server.records import MarkerKind, RecordKind

# The time has settled when so many iterations in a row, the first not among them, are so much alike
# (assumed: less than other errors of a simulation).
ALIKE_ITERATIONS = 5
ALIKE_SHARE = 0.01


@dataclass(frozen=True)
class Steady:
    """The iteration time has settled."""

    iterations: int
    """After which it had, the first one counted."""
    time_ns: int
    """When the last of them ended."""
    median_ns: int
    """Of the last ones, which were alike."""


class SteadyWatch:
    """Follows the iterations of a run."""

    def __init__(self, ranks: int) -> None:
        self._marked = _Series(ranks)
        self._stepped = _Series(ranks)
        self._first_mark_ns: int | None = None
        self.steady: Steady | None = None

    def hear(self, announcement: Announcement) -> None:
        """Takes what a rank announced: explicit marks, and steps of its first optimizer."""
        if announcement.kind != RecordKind.MARKER or self.steady is not None:
            return
        rank, time_ns = announcement.rank, announcement.host_time_ns
        if announcement.id == MarkerKind.ITERATION:
            self._marked.add_mark(rank, time_ns)
            first_ns = self._first_mark_ns
            self._first_mark_ns = time_ns if first_ns is None else min(first_ns, time_ns)
        elif announcement.id == MarkerKind.OPTIMIZER_STEP and announcement.payload.endswith(b"#0"):
            self._stepped.add_mark(rank, time_ns)

    def is_due(self, now_ns: int, oldest_issue_ns: Callable[[int], int]) -> bool:
        """Whether an iteration may have ended: then `see` and `judge` are to be called.

        `oldest_issue_ns`: of a rank's work that is not done.
        """
        return self.steady is None and any(
            series.is_done(now_ns, oldest_issue_ns) for series in (self._marked, self._stepped)
        )

    def see(self, spans: np.ndarray) -> None:
        """Takes finished work: all of it, before iterations that it belongs to are judged."""
        if self.steady is None and len(spans):
            spans = spans[np.argsort(spans["rank"], kind="stable")]
            ranks, first = np.unique(spans["rank"], return_index=True)
            for rank, rows in zip(ranks.tolist(), np.split(spans, first[1:]), strict=True):
                for series in (self._marked, self._stepped):
                    series.add_work(rank, rows["issue_ns"], rows["end_ns"])

    def judge(self, now_ns: int, oldest_issue_ns: Callable[[int], int]) -> Steady | None:
        """Looks at the iterations that ended before `now_ns`. Returns what it found, once."""
        for series in (self._stepped, self._marked):
            while self.steady is None and series.is_done(now_ns, oldest_issue_ns):
                if series.next_end_ns() >= now_ns:
                    break  # not all that ends then need be known
                found = series.end_iteration()
                # Who marks iterations means these, not steps of an optimizer.
                if found is not None and (
                    series is self._marked or not self._is_marked_before(found.time_ns)
                ):
                    self.steady = found
        return self.steady

    def _is_marked_before(self, time_ns: int) -> bool:
        return self._first_mark_ns is not None and self._first_mark_ns <= time_ns


class _Series:
    """Iterations by one kind of marker."""

    def __init__(self, ranks: int) -> None:
        self._marks_ns: list[deque[int]] = [deque() for _ in range(ranks)]
        # When work was done that was issued up to each mark; the last: after all of them.
        self._done_ns: list[deque[int]] = [deque([0]) for _ in range(ranks)]
        self._end_ns = 0
        self._count = 0
        self._last_ns: deque[int] = deque(maxlen=ALIKE_ITERATIONS)

    def add_mark(self, rank: int, time_ns: int) -> None:
        """A host has passed its mark."""
        self._marks_ns[rank].append(time_ns)
        self._done_ns[rank].append(0)

    def add_work(self, rank: int, issues_ns: np.ndarray, ends_ns: np.ndarray) -> None:
        """Work that is done. Marks before its issue were told before it."""
        done_ns = self._done_ns[rank]
        places = np.searchsorted(np.array(self._marks_ns[rank], np.int64), issues_ns, side="left")
        for place in np.unique(places).tolist():
            done_ns[place] = max(done_ns[place], int(ends_ns[places == place].max()))

    def is_done(self, now_ns: int, oldest_issue_ns: Callable[[int], int]) -> bool:
        """Whether all work of the next iteration is done."""
        return all(marks and marks[0] < now_ns for marks in self._marks_ns) and all(
            oldest_issue_ns(rank) > marks[0] for rank, marks in enumerate(self._marks_ns)
        )

    def next_end_ns(self) -> int:
        """When the next iteration ended, whose work is done."""
        marks_ns = max(marks[0] for marks in self._marks_ns)
        return max(self._end_ns, marks_ns, *(done[0] for done in self._done_ns))

    def end_iteration(self) -> Steady | None:
        """Goes on to the one after it. Returns whether the iteration time has settled."""
        end_ns = self.next_end_ns()
        for marks, done in zip(self._marks_ns, self._done_ns, strict=True):
            marks.popleft()
            done.popleft()
        if self._count > 0:
            self._last_ns.append(end_ns - self._end_ns)
        self._count += 1
        self._end_ns = end_ns
        if len(self._last_ns) < ALIKE_ITERATIONS:
            return None
        median_ns = int(np.median(self._last_ns))
        if max(self._last_ns) - min(self._last_ns) > ALIKE_SHARE * median_ns:
            return None
        return Steady(self._count, end_ns, median_ns)

"""Counts what in a run may have depended on the machine, and not on the program alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping


class ByMachine:
    """By rank: how often it was set aside by a guess, because some thread stayed awake so that
    nothing could be proven (`phantora_py.agent.idle`).

    A rank may have no process, yet or any more: its GPU is one that the program might use. That
    the others go on without it is a guess only if a process comes after all.
    """

    def __init__(self, note: Callable[[str], None], owner_pid: Callable[[int], int]) -> None:
        """`note`: tells the user, of the first one; `owner_pid`: of a rank, 0 without a process."""
        self._note = note
        self._owner_pid = owner_pid
        self._guesses: Counter[int] = Counter()
        self._without_process: Counter[int] = Counter()

    def guessed(self, ranks: Collection[int]) -> None:
        """These were set aside, and no proof said that nothing was on its way to them."""
        absent = {rank for rank in ranks if self._owner_pid(rank) == 0}
        self._without_process.update(absent)
        self._count(
            Counter(set(ranks) - absent),
            "seems to wait for others, and is taken to. It cannot be proven, since a thread stays "
            "awake: what the rank does next may come at another time in another run",
        )

    def acts(self, rank: int) -> None:
        """It has a process that does something."""
        if self._without_process:
            times = self._without_process.pop(rank, 0)
            self._count(
                Counter({rank: times} if times else {}),
                "has a process now, without which the others had gone on: in another run it may "
                "come at another time",
            )

    def _count(self, guesses: Counter[int], what: str) -> None:
        if guesses and not self._guesses:
            self._note(f"rank {min(guesses)} {what}")
        self._guesses.update(guesses)

    def rows(
        self, slept_s: Mapping[int, float], ran_out: Mapping[int, int]
    ) -> list[dict[str, float]]:
        """`by_machine` of run.json (docs/data-file.md). `slept_s`: of ranks that seem to poll for a
        process that is no rank, how much longer they slept than it took; `ran_out`: how many of
        their sleeps and time-outs this machine's clock has ended.
        """
        ranks = sorted(self._guesses.keys() | slept_s.keys() | ran_out.keys())
        return [
            {
                **{"rank": rank, "guesses": self._guesses[rank]},
                **{"slept_s": slept_s.get(rank, 0.0), "ran_out": ran_out.get(rank, 0)},
            }
            for rank in ranks
        ]

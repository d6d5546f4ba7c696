"""Counts what in a run may have depended on the machine, and not on the program alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping


class ByMachine:
    """By rank: how often it was set aside by a guess, because some thread stayed awake so that
    nothing could be proven (`phantora_py.agent.idle`).
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        """`note`: tells the user, of the first one."""
        self._note = note
        self._guesses: Counter[int] = Counter()

    def guessed(self, ranks: Collection[int]) -> None:
        """These were set aside, and no proof said that nothing was on its way to them."""
        if ranks and not self._guesses:
            self._note(
                f"rank {min(ranks)} seems to wait for others, and is taken to. It cannot be "
                "proven, since a thread stays awake: what the rank does next may come at another "
                "time in another run"
            )
        self._guesses.update(ranks)

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

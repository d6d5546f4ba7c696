"""What of interleaved lookups a cache of rows finds: Che's approximation.

An LRU cache holds the rows of the last t lookups, where t is so many that their working sets fill
it (Che, Tung and Wang, IEEE JSAC 20(7), 2002); equal for all tables that share it. A kernel begins
with none of its rows there, so that until the cache is full every row is missed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sim_server.lookups.working_set import Lookups

_HALVINGS = 60


@dataclass(frozen=True)
class Share:
    """What one of the tables that share a cache does to it.

    `lookups`: of the kernel, spread evenly over its time. `row_bytes`: what a row takes there.
    `streamed_bytes`: what a lookup also loads and no later lookup reads.
    """

    table: Lookups
    lookups: float
    row_bytes: float
    streamed_bytes: float = 0.0

    def filled_bytes(self, part: float) -> float:
        """What this part of all lookups brings into a cache without end."""
        lookups = self.lookups * part
        return self.table.distinct(lookups) * self.row_bytes + lookups * self.streamed_bytes

    def hit_rate(self, window: float, warm: bool) -> float:
        """With a cache that holds what the last `window`, as a part of all lookups, brought."""
        held = self.lookups * min(1.0, window)
        missed = (self.lookups - held) * self.table.miss_rate(self.lookups * window)
        if warm:
            missed += held * self.table.miss_rate(self.lookups * window)
        else:
            missed += self.table.distinct(held)
        return max(0.0, 1 - missed / self.lookups) if self.lookups else 0.0


def hit_rates(shares: Sequence[Share], capacity_bytes: float, warm: bool = False) -> list[float]:
    """Of each table's lookups, those that a cache of this size finds.

    `warm`: the same lookups went on long before; otherwise the cache begins with nothing of them.
    """
    window = _window(shares, capacity_bytes, 1e6 if warm else 1.0)
    return [share.hit_rate(window, warm) for share in shares]


def _window(shares: Sequence[Share], capacity_bytes: float, most: float) -> float:
    """The part of all lookups, up to `most`, that fills the cache."""

    def filled_bytes(part: float) -> float:
        return sum(share.filled_bytes(part) for share in shares)

    if filled_bytes(most) <= capacity_bytes:
        return most
    low, high = 0.0, most
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if filled_bytes(middle) > capacity_bytes:
            high = middle
        else:
            low = middle
    return low

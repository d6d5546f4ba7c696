"""What ranks have told of why the report is to be trusted less."""

from __future__ import annotations

from collections import Counter
from typing import Any

CAVEATS = ("hooks", "watchdog", "host_step", "threads", "workers", "loaded", "tuning")
"""What there is to tell: `what` of Caveat in sim_server/records/payloads.py."""


class CaveatLog:
    """By rank and caveat: how often."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[int, str]] = Counter()

    def add(self, rank: int, statistics: dict[str, Any]) -> None:
        """One telling."""
        self._counts[rank, statistics["what"]] += statistics["count"]

    def to_list(self) -> list[dict[str, Any]]:
        """caveats.json of the data file."""
        return [
            {"rank": rank, "what": what, "count": count}
            for (rank, what), count in sorted(self._counts.items())
        ]

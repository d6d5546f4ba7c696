"""Calls that are not modelled and that ranks went on after.

docs/decisions/unsupported-calls.md says which.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from sim_server._engine import MalformedInput

ANSWERS: Final = ("success", "error")
"""What such a call may have returned."""

Place = tuple[int, str, str, str, str]


class UnsupportedLog:
    """By rank, call and Python line: what the call returned, and how often."""

    def __init__(self) -> None:
        self._calls: dict[Place, dict[str, Any]] = {}

    def add_first(self, rank: int, call: dict[str, str], site: str) -> None:
        """A call that was answered for the first time at that line."""
        place = rank, call["library"], call["symbol"], call["detail"], site
        self._calls[place] = {"rank": rank, **call, "site": site, "count": 1}

    def add_counts(self, rank: int, statistics: dict[str, Any], site: Callable[[int], str]) -> None:
        """How often in all, as a rank told at its end."""
        for library, symbol, detail, where, count in statistics["calls"]:
            known = self._calls.get((rank, library, symbol, detail, site(where)))
            if known is None:
                raise MalformedInput(f"rank {rank} counts calls of {symbol} that it never told of")
            known["count"] = count

    def troubles(self, rank: int) -> list[str]:
        """What may have made a rank fail, in sentences."""
        refused = [one for one in self._calls.values() if one["rank"] == rank]
        return [
            f"It had called {one['symbol']} of {one['library']} at {one['site']}, which is not "
            "modelled and failed as not supported (--unsupported)."
            for one in refused[-1:]
            if one["answer"] == "error"
        ]

    def to_list(self) -> list[dict[str, Any]]:
        """unsupported.json of the data file."""
        return sorted(self._calls.values(), key=operator.itemgetter("rank", "library", "symbol"))

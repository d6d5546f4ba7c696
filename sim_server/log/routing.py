"""Routings of tokens to experts that were made up (docs/decisions/small-operations.md)."""

from __future__ import annotations

from collections import Counter
from typing import Any


class RoutingLog:
    """By experts, choices of a token and whether the user's distribution was followed: calls."""

    def __init__(self) -> None:
        self._calls: Counter[tuple[int, int, bool]] = Counter()

    def add(self, statistics: dict[str, Any]) -> None:
        """What one rank told at its end."""
        for experts, top, follows, calls in statistics["calls"]:
            self._calls[experts, top, follows] += calls

    def to_list(self) -> list[dict[str, Any]]:
        """routing.json of the data file."""
        names = ("experts", "top", "follows", "calls")
        return [
            dict(zip(names, (*key, calls), strict=True))
            for key, calls in sorted(self._calls.items())
        ]

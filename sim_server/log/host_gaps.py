"""The host time of a run by key, as its ranks tell it at their end (docs/records.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

SOURCES = ("signature", "family", "call", "fixed")
"""Where a replayed gap came from: the launch's signature, its family, the call's symbol, or the
table of `--host-time fixed`.
"""


class HostGapLog:
    """Gathers what ranks say; `to_dict` is the content of host_gaps.json."""

    def __init__(self) -> None:
        self._measured: dict[str, list[tuple[int, int]]] = {}
        self._replayed = {source: [0, 0] for source in SOURCES}

    def add_measured(self, gaps: Iterable[tuple[str, int, int]]) -> None:
        """Of one rank: key, calls, typical gap in ns of processor time."""
        for key, calls, gap_ns in gaps:
            self._measured.setdefault(key, []).append((gap_ns, calls))

    def add_replayed(self, totals: Mapping[str, Any]) -> None:
        """Of one rank: calls and charged ns by source."""
        for source in SOURCES:
            calls, charged_ns = totals[source]
            self._replayed[source][0] += calls
            self._replayed[source][1] += charged_ns

    def to_dict(self) -> dict[str, Any]:
        """A key's gap is the median over the ranks, weighted by their calls."""
        return {
            "measured": [
                {
                    "key": key,
                    "calls": sum(calls for _, calls in ranks),
                    "gap_ns": weighted_median(ranks),
                }
                for key, ranks in sorted(self._measured.items())
            ],
            "replayed": {
                source: {"calls": calls, "charged_ns": charged_ns}
                for source, (calls, charged_ns) in self._replayed.items()
            },
        }


def weighted_median(values: Iterable[tuple[int, int]]) -> int:
    """`values`: value and weight; the least value up to which half of the weight lies."""
    ordered = sorted(values)
    whole = sum(weight for _, weight in ordered)
    before = 0
    for value, weight in ordered:
        before += weight
        if 2 * before >= whole:
            return value
    raise ValueError("the median of nothing")

"""Host tensors that ranks left unfilled (docs/decisions/host-memory.md), as they tell."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any


class HostTensorLog:
    """By rank and Python line: operations that were left out, and memory that was used after all.

    Units: bytes.
    """

    def __init__(self) -> None:
        self._skipped: list[dict[str, Any]] = []
        self._used: list[dict[str, Any]] = []

    def add(self, rank: int, statistics: dict[str, Any], site: Callable[[int], str]) -> None:
        """What one rank told at its end. `site`: the line behind a call site of it."""
        for what, where, operations, size_bytes in statistics["skipped"]:
            entry = {"rank": rank, "what": what, "site": site(where)}
            self._skipped.append(entry | {"operations": operations, "bytes": size_bytes})
        for where, tensors, size_bytes in statistics["used"]:
            entry = {"rank": rank, "site": site(where)}
            self._used.append(entry | {"tensors": tensors, "bytes": size_bytes})

    def troubles(self, rank: int) -> list[str]:
        """What may have made a rank fail, in sentences."""
        used = [(entry["bytes"], entry["site"]) for entry in self._used if entry["rank"] == rank]
        if not used:
            return []
        size_bytes, site = max(used)
        return [
            f"It had used {size_bytes:,} bytes of host tensors that {site} was to fill and that "
            "were left as zeros; --host-tensors real fills them."
        ]

    def to_dict(self) -> dict[str, list[dict[str, Any]]]:
        """host_tensors.json of the data file."""
        by_rank = operator.itemgetter("rank")
        return {
            "skipped": sorted(self._skipped, key=by_rank),
            "used": sorted(self._used, key=by_rank),
        }

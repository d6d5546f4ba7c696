"""Whose the members of an operation are.

Members are GPUs by their numbers in the run. A rank's own GPU has the rank's number; where ranks
drive others, too, the operation says who drives each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def ranks_of(operation: Mapping[str, Any]) -> list[int]:
    """The rank of each member."""
    owners = operation.get("owners")
    members: list[int] = operation["members"]
    return members if owners is None else [rank for rank, _ in owners]


def tracks_of(operation: Mapping[str, Any]) -> list[tuple[int, int | None]]:
    """Rank and device of each member; None where each rank has one member."""
    owners = operation.get("owners")
    if owners is None:
        return [(rank, None) for rank in operation["members"]]
    return [(rank, device) for rank, device in owners]

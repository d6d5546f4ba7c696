"""What `fit` and `search` print with `--json` (docs/deciding.md)."""

from __future__ import annotations

from typing import TypedDict

from phantora_py.report.sections.memory import MemoryKinds


class Refusal(TypedDict):
    """The smallest value that does not fit."""

    value: int
    rank: int
    asked_bytes: int
    site: str
    """The Python line that asked for more than was free."""
    went_on: bool
    """PyTorch gave cached memory back and went on, which waits for the device each time."""


class Fitted(TypedDict):
    """The largest value under one condition, each tried."""

    name: str
    """`as given`, or what was tried to make more fit."""
    largest: int | None
    """Null: not even 1 fits."""
    peak_bytes: int | None
    """Of the fullest rank at the largest value."""
    iteration_ns: int | None
    """The median there; null without iterations."""
    kinds: MemoryKinds | None
    refusal: Refusal | None
    """Null: no value was refused up to `--most`."""
    runs: int
    """That were looked at."""
    command: list[str]
    """With the largest value."""
    environment: dict[str, str]


class Fit(TypedDict):
    """`phantora fit`."""

    schema: int
    flag: str
    capacity_bytes: int
    """Of a GPU."""
    tried: list[Fitted]
    """As given first."""
    best: str | None
    """Under which of these most units of the flag are got through in a time."""

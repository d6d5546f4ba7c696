"""What `fit` and `search` print with `--json` (docs/deciding.md)."""

from __future__ import annotations

from typing import TypedDict

from phantora_py.compare.json_types import Changes, ComparedRun, Fastest
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


class Stage(TypedDict):
    """A stage of a search: `cheap 1` and so on, `full`."""

    name: str
    runs: int
    wall_s: float
    """Of its runs together, also of those that were there before."""
    cpu_s: float | None
    """Likewise the processors' time; null where results are older than its record."""


class Candidate(TypedDict):
    """A configuration that was run in full, or whose cheap run is as good."""

    name: str
    in_full: bool
    """False: full runs of others have taken what their cheap runs told."""
    value: float
    """In the units of the objective."""
    cheap_value: float | None
    """Likewise as its cheap runs foretell it, or else of the last of them; null without."""
    pareto: bool
    """None of these is as good in time, peak memory and GPUs, and better in one."""
    file: str
    """Its data file."""
    figures: ComparedRun


class NotRun(TypedDict):
    """A configuration that did not finish."""

    name: str
    why: str


class Search(TypedDict):
    """`phantora search`."""

    schema: int
    objective: str
    configurations: int
    """Of the space, that keep to its constraints."""
    left_out: int
    """Those that do not."""
    stages: list[Stage]
    ended: str
    """Why no more was run."""
    ranking: list[Candidate]
    """The best first."""
    did_not_run: list[NotRun]
    fastest: Fastest | None
    """The fastest of the ranking, and whether it can be told apart from the next."""
    why: Changes | None
    """What differs from the second to the best; null if there is one only."""
    command: list[str]
    """Of the best."""
    run_options: dict[str, str]
    environment: dict[str, str]

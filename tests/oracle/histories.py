"""What came of a program: the same record of oracle and system, so that they can be compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from calls import Answer

COMMUNICATION_SPAN = 4


class Span(NamedTuple):
    """Finished work, or a wait of the host. `kind`: as in spans.npy; `what`: its identifier there,
    of a kernel its duration.
    """

    rank: int
    kind: int
    device: int
    stream: int
    what: int
    issue_ns: int
    start_ns: int
    end_ns: int


class Operation(NamedTuple):
    """A collective, or a pair of send and receive."""

    kind: str
    comm: int
    elements: int
    members: tuple[int, ...]
    arrivals_ns: tuple[int, ...]
    moves_ns: int
    ends_ns: tuple[int, ...] = ()


class News(NamedTuple):
    """Told to a rank at `time_ns`: instance `done` and those before it in the stream are done;
    `pending` (0: none) is not done before `not_before_ns`.
    """

    rank: int
    time_ns: int
    done: int
    pending: int
    not_before_ns: int


@dataclass
class History:
    """Everything that happened."""

    spans: list[Span] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    answers: list[list[Answer]] = field(default_factory=list)
    """Of each rank, in order."""
    clocks_ns: list[int] = field(default_factory=list)
    """Of each rank's host at its end."""
    recorded_ns: list[dict[int, int]] = field(default_factory=list)
    """When each rank's event instances were done; of the oracle only."""
    news: list[News] = field(default_factory=list)
    """What ranks were told about their events; of the system only."""
    digest: str = ""
    """Of the system's data file."""


def differences(expected: History, found: History) -> Iterator[str]:
    """One line for each thing that differs; none if all times, statuses and values agree."""
    expected, found = _numbered_alike(expected), _numbered_alike(found)
    spans, others = Counter(expected.spans), Counter(found.spans)
    yield from (f"oracle only: {span}" for span in sorted((spans - others).elements()))
    yield from (f"system only: {span}" for span in sorted((others - spans).elements()))
    for name in ("operations", "clocks_ns"):
        yield from _pairs(name, getattr(expected, name), getattr(found, name))
    for rank, (one, other) in enumerate(zip(expected.answers, found.answers, strict=True)):
        yield from _pairs(f"rank {rank}, answers", one, other)
    yield from (f"untrue: {news}" for news in found.news if not _is_true(news, expected))


def _numbered_alike(history: History) -> History:
    """The same with operations in the order of what they are: a data file lists those first that
    ended first.
    """
    operations = sorted(history.operations)
    numbers = [operations.index(operation) for operation in history.operations]
    spans = [
        span._replace(what=numbers[span.what]) if span.kind == COMMUNICATION_SPAN else span
        for span in history.spans
    ]
    return replace(history, operations=operations, spans=spans)


def _is_true(news: News, expected: History) -> bool:
    """Whether what a rank was told about its events came true in the oracle."""
    recorded_ns = expected.recorded_ns[news.rank]
    if news.done and recorded_ns[news.done] > news.time_ns:
        return False
    if not news.pending:
        return True
    end_ns = recorded_ns[news.pending]
    return end_ns >= news.time_ns and end_ns >= news.not_before_ns


def _pairs(name: str, expected: Sequence[object], found: Sequence[object]) -> Iterator[str]:
    for number, (one, other) in enumerate(zip(expected, found, strict=False)):
        if one != other:
            yield f"{name} {number}: oracle {one}, system {other}"
    if len(expected) != len(found):
        yield f"{name}: {len(expected)} of the oracle, {len(found)} of the system"

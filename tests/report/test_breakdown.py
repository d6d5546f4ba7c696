"""Where the time of an iteration goes: intervals counted by hand, and all others by brute force."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_runs import COMMUNICATION, COPY, FILL, HOST_WAIT, KERNEL, Span, make_run

from phantora_py.report.breakdown import Breakdown, break_down
from phantora_py.report.iterations import Iterations


def shares(
    directory: Path,
    by_rank: Sequence[Sequence[Span]],
    boundaries_ns: Sequence[int] = (0, 100),
    moves_ns: int = 0,
) -> tuple[int, int, int, int, int, int]:
    """Compute, communication, exposed communication, waiting, host, idle; all operations move from
    `moves_ns` on.
    """
    operations = [{"moves_ns": moves_ns}]
    data = make_run(directory / "a.phr", by_rank, operations=operations)
    found = break_down(data, Iterations("marker", np.array(boundaries_ns, np.int64)))
    assert isinstance(found, Breakdown)
    return (
        found.compute_ns,
        found.communication_ns,
        found.exposed_communication_ns,
        found.waiting_for_ranks_ns,
        found.host_ns,
        found.idle_ns,
    )


CASES: dict[str, tuple[list[Span], tuple[int, int, int, int, int, int]]] = {
    "nothing": ([], (0, 0, 0, 0, 0, 100)),
    "one kernel": ([(KERNEL, 0, 0, 100)], (100, 0, 0, 0, 0, 0)),
    "copies and fills compute": ([(COPY, 0, 0, 30), (FILL, 0, 30, 50)], (50, 0, 0, 0, 0, 50)),
    "the rest is idle": ([(KERNEL, 0, 0, 60)], (60, 0, 0, 0, 0, 40)),
    "one after the other": (
        [(KERNEL, 0, 0, 40), (COMMUNICATION, 0, 40, 100)],
        (40, 60, 60, 0, 0, 0),
    ),
    "hidden communication": (
        [(KERNEL, 0, 0, 100), (COMMUNICATION, 0, 20, 70)],
        (100, 50, 0, 0, 0, 0),
    ),
    "partly hidden": ([(KERNEL, 0, 0, 60), (COMMUNICATION, 0, 20, 90)], (60, 70, 30, 0, 0, 10)),
    "streams side by side count once": (
        [(KERNEL, 0, 0, 60), (KERNEL, 0, 10, 80), (COMMUNICATION, 0, 70, 90)],
        (80, 20, 10, 0, 0, 10),
    ),
    "launch-bound": (
        [(KERNEL, 10, 10, 20), (KERNEL, 50, 50, 70), (KERNEL, 95, 95, 100)],
        (35, 0, 0, 0, 65, 0),
    ),
    "held up by something else": ([(KERNEL, 5, 40, 100)], (60, 0, 0, 0, 0, 40)),
    "a gap that the next iteration's work ends": (
        [(KERNEL, 0, 0, 60), (KERNEL, 120, 120, 130)],
        (60, 0, 0, 0, 40, 0),
    ),
    "work across both boundaries": ([(KERNEL, -50, -50, 150)], (100, 0, 0, 0, 0, 0)),
    "work without duration ends no gap": ([(KERNEL, 50, 50, 50)], (0, 0, 0, 0, 0, 100)),
    "waiting hosts are no work": ([(HOST_WAIT, 0, 0, 100)], (0, 0, 0, 0, 0, 100)),
}


@pytest.mark.parametrize("case", CASES)
def test_counted_by_hand(tmp_path: Path, case: str) -> None:
    """One rank, one iteration of 100 ns."""
    spans, expected = CASES[case]
    later = [(kind, 1000 + issue, 1000 + start, 1000 + end) for kind, issue, start, end in spans]
    assert shares(tmp_path, [later], (1000, 1100)) == expected


def test_means_over_ranks_and_iterations(tmp_path: Path) -> None:
    """One rank computes all the time, the other in half of the second iteration."""
    by_rank = [[(KERNEL, 0, 0, 200)], [(KERNEL, 0, 100, 150)]]
    assert shares(tmp_path, by_rank, (0, 100, 200)) == (62, 0, 0, 0, 0, 38)


def test_no_iterations_no_breakdown(tmp_path: Path) -> None:
    """Zeros would be a claim."""
    data = make_run(tmp_path / "a.phr", [[(KERNEL, 0, 0, 10)]])
    assert break_down(data, Iterations("optimizer", np.array([5], np.int64))) is None


def brute_force(
    spans: Sequence[Span], begin_ns: int, end_ns: int, moves_ns: int
) -> tuple[int, ...]:
    """Nanosecond by nanosecond, as the module's docstring says it."""
    work = [span for span in spans if span[0] != HOST_WAIT and span[3] > span[2]]
    computes = {
        t for kind, _, start, end in work if kind != COMMUNICATION for t in range(start, end)
    }
    communicates = {
        t for kind, _, start, end in work if kind == COMMUNICATION for t in range(start, end)
    }
    moves = {t for t in communicates if t >= moves_ns}
    busy = computes | communicates
    counts = [0] * 6
    for t in range(begin_ns, end_ns):
        next_ns = min((start for _, _, start, _ in work if start > t), default=None)
        by_host = any(issue == start == next_ns for _, issue, start, _ in work)
        counts[0] += t in computes
        counts[1] += t in moves
        counts[2] += t in moves and t not in computes
        counts[3] += t in communicates and t not in moves | computes
        counts[4] += t not in busy and by_host
        counts[5] += t not in busy and not by_host
    return tuple(counts)


@st.composite
def span_lists(draw: st.DrawFn) -> list[Span]:
    spans = []
    for _ in range(draw(st.integers(0, 8))):
        issue_ns = draw(st.integers(0, 40))
        start_ns = issue_ns + draw(st.sampled_from([0, 0, 1, 5, 20]))
        kind = draw(st.sampled_from([KERNEL, COPY, COMMUNICATION, HOST_WAIT]))
        spans.append((kind, issue_ns, start_ns, start_ns + draw(st.integers(0, 15))))
    return spans


@settings(max_examples=200, deadline=None)
@given(span_lists(), st.integers(0, 30), st.integers(1, 50), st.integers(0, 60))
def test_any_intervals(spans: list[Span], begin_ns: int, length_ns: int, moves_ns: int) -> None:
    """As counted by brute force; so the five parts add up to the iteration."""
    with tempfile.TemporaryDirectory() as directory:
        found = shares(Path(directory), [spans], (begin_ns, begin_ns + length_ns), moves_ns)
    assert found == brute_force(spans, begin_ns, begin_ns + length_ns, moves_ns)
    compute, _, exposed, waiting, host, idle = found
    assert compute + exposed + waiting + host + idle == length_ns


def test_gpus_of_one_rank_are_counted_apart(tmp_path: Path) -> None:
    """Two GPUs that compute one after the other are each idle half of the time."""
    kernels: list[Span] = [(KERNEL, 0, 0, 50), (KERNEL, 0, 50, 100)]
    spans = make_run(tmp_path / "one.phr", [kernels]).spans.copy()
    spans["device"] = [0, 1]
    data = make_run(tmp_path / "two.phr", [kernels], spans=spans)
    found = break_down(data, Iterations("marker", np.array([0, 100], np.int64)))
    assert found is not None
    assert (found.compute_ns, found.idle_ns) == (50, 50)

"""When batches are there: by what one takes, the workers and the processors of a node."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from phantora_py.rank.loader_time import LoaderTime, Schedule


def steps_ns(workers: int, ahead: int, batch_ns: int, step_ns: int, count: int = 40) -> list[int]:
    """From batch to batch, of a program that computes for `step_ns` in between."""
    schedule, now_ns = Schedule(1000, workers, ahead, batch_ns), 1000
    taken = []
    for _ in range(count):
        taken.append(schedule.take(now_ns))
        now_ns = taken[-1] + step_ns
    return [later - earlier for earlier, later in pairwise(taken)]


def test_the_first_batch_takes_its_time() -> None:
    assert Schedule(1000, 4, 2, 120).take(1000) == 1120


@pytest.mark.parametrize(("workers", "lasts_ns"), [(1, 120), (2, 60), (4, 30), (12, 15)])
def test_workers_load_side_by_side(workers: int, lasts_ns: int) -> None:
    """They bring batches evenly, and no faster than the program takes them."""
    assert steps_ns(workers, 2, 120, step_ns=15)[-10:] == [lasts_ns] * 10


def test_what_was_loaded_ahead() -> None:
    """A program that computes for long finds as many batches as were asked for."""
    schedule = Schedule(0, 1, 3, 100)
    assert schedule.take(0) == 100
    # Then three are asked for, of which the worker has loaded two by 350.
    assert [schedule.take(350) for _ in range(2)] == [350, 350]
    assert schedule.take(350) == 400
    assert schedule.take(400) == 500


def test_processors_of_a_node_are_shared(tmp_path: Path) -> None:
    """By the workers of all its ranks."""
    told = LoaderTime(batch_ns=100, cores=16, ranks=8)
    assert (told.of_worker_ns(2), told.of_worker_ns(4)) == (100, 200)
    assert LoaderTime(100, None, 8).of_worker_ns(64) == 100
    told.write(tmp_path)
    assert LoaderTime.read(tmp_path) == told

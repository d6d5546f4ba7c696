"""When the iteration time has settled, and what is kept of a run that ends with that."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from played_ranks import Script, play, training, whole_files

from sim_server.log.steady import ALIKE_ITERATIONS, SteadyWatch
from sim_server.records import MarkerKind, RecordKind
from sim_server.simulation import Simulation

NEEDED = ALIKE_ITERATIONS + 1  # the first does not count


def loop(iterations: int, waits: bool = True, uneven: int = 0) -> Script:
    """A loop of one rank. `uneven`: so many of its iterations have twice the work."""
    script = Script()
    for iteration in range(iterations):
        for _ in range(2 if iteration < uneven else 1):
            script.gemm(k=4096, gap=100)
        script.step(gap=50)
        if waits:
            script.synchronise(gap=10)
    return script


def kept(simulation: Simulation) -> dict[str, Any]:
    """What is in the data file but the ranks' streams, which reach beyond the end."""
    files = whole_files(simulation.files())
    return {
        name: content.tolist() if isinstance(content, np.ndarray) else content
        for name, content in files.items()
        if not name.startswith(("records", "answers"))
    }


def test_alike_iterations_settle() -> None:
    """After the first and as many more as the rule asks for."""
    simulation, _ = play([loop(NEEDED + 2)])
    assert simulation.steady is not None
    assert simulation.steady.iterations == NEEDED
    assert play([loop(NEEDED - 1)])[0].steady is None


def searched_and_trained(search: int, train: int) -> Script:
    """A loop that steps one optimizer, and then a longer one that steps another."""
    script = loop(search)
    for _ in range(train):
        for _ in range(4):
            script.gemm(k=4096, gap=100)
        script.step("AdamW#1", gap=50).synchronise(gap=10)
    return script


def test_other_iterations_settle_again() -> None:
    """A search for a learning rate settles, and then the training that it was for."""
    search, train = NEEDED + 4, 4 * NEEDED
    sought, _ = play([loop(search)])
    assert sought.steady is not None
    for seed in range(4):
        scripts = [searched_and_trained(search, train) for _ in range(2)]
        simulation, _ = play(scripts, rng=random.Random(seed))
        assert simulation.steady is not None
        assert simulation.steady.median_ns > 3 * sought.steady.median_ns
        # As in the report: the first optimizer steps no more when the other goes on as long.
        assert simulation.iterations == train
    told, _ = play([searched_and_trained(search, train)], until_steady=True)
    assert told.steady is not None
    assert told.steady.iterations == NEEDED
    assert told.steady.median_ns < 2 * sought.steady.median_ns


def test_uneven_iterations_settle_later() -> None:
    """Only iterations in a row that are alike count."""
    simulation, _ = play([loop(20, uneven=4)])
    assert simulation.steady is not None
    assert simulation.steady.iterations == 4 + ALIKE_ITERATIONS
    growing = Script()
    for iteration in range(12):
        for _ in range(iteration + 1):
            growing.gemm(k=4096)
        growing.step().synchronise()
    assert play([growing])[0].steady is None


def test_marks_count_before_steps() -> None:
    """Who marks iterations means these: here each has two steps of the optimizer."""
    script = Script()
    for _ in range(2 * NEEDED):
        for work in (1, 3):
            for _ in range(work):
                script.gemm(k=4096)
            script.step().synchronise()
        script.announce(RecordKind.MARKER, b"mine", gap=5, id=int(MarkerKind.ITERATION))
        script.synchronise(gap=5)
    simulation, _ = play([script])
    assert simulation.steady is not None
    assert simulation.steady.iterations == NEEDED


def test_micro_batches_before_the_first_step_are_no_iterations() -> None:
    """Many equal backward passes do not settle a training whose optimizer has not stepped yet."""
    script = Script()
    for iteration in range(NEEDED + 2):
        for _ in range(2 * NEEDED):
            script.gemm(k=4096)
            script.announce(RecordKind.MARKER, b"train.py:3", id=int(MarkerKind.BACKWARD))
            script.synchronise(gap=5)
        if iteration == 0:
            assert play([script])[0].steady is None
        script.step().synchronise(gap=5)
    simulation, _ = play([script])
    assert simulation.steady is not None
    assert simulation.steady.iterations == NEEDED


def test_a_rank_without_steps_keeps_it_open() -> None:
    """An iteration ends on every rank, or it is not known when."""
    assert play([loop(20), Script().gemm().synchronise()])[0].steady is None


def test_nothing_later_is_kept() -> None:
    """The last span ends with the last iteration, and what spans refer to is there."""
    simulation, _ = play([loop(40)], until_steady=True)
    assert simulation.steady is not None
    files = kept(simulation)
    assert len(files["markers"]) == NEEDED
    assert max(row[-1] for row in files["spans"]) == simulation.steady.time_ns
    assert sum(row[1] == 1 for row in files["spans"]) == NEEDED


def test_so_many_iterations_end_a_run_that_would_not_settle() -> None:
    """As many as another simulation of it had."""
    uneven_ns = 1000 * 2 ** np.arange(ALIKE_ITERATIONS + 1)
    settled = []
    for iterations in (None, 9):
        watch = SteadyWatch([0], is_last=True, iterations=iterations)
        for count in range(NEEDED, 10):
            watch._see_times(count, uneven_ns)
        settled.append(watch.steady)
    assert settled[0] is None
    assert settled[1] is not None
    assert settled[1].iterations == 9


@pytest.mark.parametrize(
    "make",
    [
        lambda: [training(rank, 4, iterations=12) for rank in range(4)],
        lambda: [training(rank, 4, alike=True, iterations=12) for rank in range(4)],
        # Hosts that never wait are far ahead of their devices.
        lambda: [loop(40, waits=False).synchronise() for _ in range(2)],
    ],
)
def test_delivery_does_not_matter(make: Callable[[], list[Script]]) -> None:
    """However the records come, the run ends at the same time with the same history."""
    first, _ = play(make(), until_steady=True)
    assert first.steady is not None
    expected = kept(first)
    for seed in range(8):
        simulation, _ = play(make(), rng=random.Random(seed), until_steady=True)
        assert simulation.steady == first.steady
        assert kept(simulation) == expected


def test_without_being_asked_everything_is_kept() -> None:
    """That the time has settled is news then, and no end."""
    told, _ = play([training(rank, 2, iterations=12) for rank in range(2)])
    assert told.steady is not None
    assert len(kept(told)["markers"]) == 24


def passes(script: Script, count: int) -> Script:
    """Micro-batches, all of one line."""
    for _ in range(count):
        script.gemm(k=4096)
        script.announce(RecordKind.MARKER, b"train.py:3", id=int(MarkerKind.BACKWARD))
        script.synchronise(gap=5)
    return script


def two_optimizers(script: Script) -> None:
    script.step("AdamW#0").step("SGD#1")


def parts_of_an_optimizer(script: Script) -> None:
    passes(script, 1)
    for _ in range(4):
        script.step("AdamW#0")


def micro_batches(script: Script) -> None:
    passes(script, 16).step()


def timed_inference(script: Script) -> None:
    for _ in range(3):
        script.gemm(k=4096)
    script.announce(RecordKind.MARKER, b"serve.py:9", id=int(MarkerKind.CLOCK_READ))


@pytest.mark.parametrize(
    "iteration", [two_optimizers, parts_of_an_optimizer, micro_batches, timed_inference]
)
def test_iterations_are_counted_as_the_report_does(iteration: Callable[[Script], None]) -> None:
    """While the run goes on, also beyond where the time has settled; those of the first rank."""
    script, idle = Script(), Script().gemm().synchronise()
    for _ in range(30):
        iteration(script)
        script.synchronise(gap=50)
    simulation, _ = play([script])
    assert simulation.steady is not None
    assert simulation.iterations == 30
    assert play([script, idle])[0].iterations == 30


def test_micro_batches_before_the_first_step_are_not_counted() -> None:
    """What an iteration is shows when the optimizer has stepped."""
    assert play([passes(Script(), 16)])[0].iterations == 0

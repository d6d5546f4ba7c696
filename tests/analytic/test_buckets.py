"""Gradient buckets of DistributedDataParallel over equal layers, to the nanosecond.

Forward and backward passes are products that take `work` ns each. The gradient of a layer's weight
comes before that of its input, which the last layer in turn does not need; then DDP divides the
former by the number of ranks (`divide`) and hands the bucket over. At the end the optimizer has one
kernel (`update`).
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from analytic_runs import run_program
from by_hand import all_reduce_inside_ns, all_reduce_of_all_ns
from phantora_runs import Run
from sections import Section, duration_ns

from phantora_py.report.breakdown import Breakdown, break_down
from phantora_py.report.iterations import Iterations, find_iterations

pytestmark = pytest.mark.torch

LAYERS, ITERATIONS = 4, 3  # of the program
BUCKET_BYTES = 512 * 512 * 2
REDUCE_NS = {
    "world": all_reduce_of_all_ns(BUCKET_BYTES),
    "node": all_reduce_inside_ns(BUCKET_BYTES),
}


@dataclass(frozen=True)
class Durations:
    """Of the kernels. Units: ns."""

    work: int
    divide: int
    update: int

    @property
    def layer(self) -> int:
        """The backward pass of one layer."""
        return 2 * self.work + self.divide

    @property
    def backward(self) -> int:
        """The whole backward pass."""
        return LAYERS * self.layer - self.work

    @property
    def forward(self) -> int:
        return LAYERS * self.work


def durations(run: Run) -> Durations:
    kernels = ("gemm bf16 512x512x512 TN", "MulFunctor", "FusedSgd")
    return Durations(*(duration_ns(run.data, name) for name in kernels))


@pytest.fixture(scope="module")
def overlapping(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """With PyTorch's older NCCL backend, whose buckets are reduced beside the backward pass."""
    return run_program(tmp_path_factory.mktemp("buckets"), "buckets", TORCH_DIST_USE_NCCL2="0")


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """With the newer one, which PyTorch 2.15 takes unless it is told otherwise."""
    return run_program(tmp_path_factory.mktemp("buckets"), "buckets", TORCH_DIST_USE_NCCL2="1")


def ready_ns(one: Durations) -> list[int]:
    """When each bucket's gradient is there if nothing is waited for; the first layer's is last."""
    full = [one.forward + (bucket + 1) * one.layer for bucket in range(LAYERS - 1)]
    return [*full, one.forward + one.backward]


def check(run: Run, name: str, iteration_ns: int, buckets: list[int]) -> None:
    """All iterations of all ranks take as long, and reduce their buckets from these times on."""
    case = Section(run.data, name)
    for rank in range(4):
        assert case.ends_ns[rank] == [turn * iteration_ns for turn in range(1, ITERATIONS + 1)]
        assert case.communication(rank) == [
            (turn * iteration_ns + start, turn * iteration_ns + start + REDUCE_NS[name])
            for turn in range(ITERATIONS)
            for start in buckets
        ]


def test_a_bucket_waits_for_the_one_before(overlapping: Run) -> None:
    """Where all-reduces take longer than layers, they follow each other from the first bucket on.

    The iteration is the forward pass, one layer's backward pass, all reductions, the update.
    """
    one = durations(overlapping)
    first_ns, reduce_ns = ready_ns(one)[0], REDUCE_NS["world"]
    assert reduce_ns > one.layer
    buckets = [first_ns + i * reduce_ns for i in range(LAYERS)]
    check(overlapping, "world", first_ns + LAYERS * reduce_ns + one.update, buckets)


def starts_ns(one: Durations, reduce_ns: int) -> list[int]:
    """Of buckets that wait for their gradient and for the bucket before."""
    starts: list[int] = []
    for ready in ready_ns(one):
        starts.append(max(ready, starts[-1] + reduce_ns) if starts else ready)
    return starts


def test_a_bucket_waits_for_its_gradient(overlapping: Run) -> None:
    """Where all-reduces are shorter, each starts with its gradient and only the last is exposed.

    The last bucket comes a product earlier than the others; its predecessor is done even so.
    """
    one, reduce_ns = durations(overlapping), REDUCE_NS["node"]
    starts = starts_ns(one, reduce_ns)
    assert starts[:-1] == ready_ns(one)[:-1]
    check(overlapping, "node", starts[-1] + reduce_ns + one.update, starts)


@pytest.mark.parametrize("name", REDUCE_NS)
def test_the_backward_pass_waits_for_each_bucket(waiting: Run, name: str) -> None:
    """With PyTorch's newer backend the next layer starts when the bucket has been reduced."""
    one, reduce_ns = durations(waiting), REDUCE_NS[name]
    buckets = [ready + i * reduce_ns for i, ready in enumerate(ready_ns(one))]
    check(waiting, name, buckets[-1] + reduce_ns + one.update, buckets)


def test_reported_iterations(overlapping: Run) -> None:
    """The report finds the steps of the optimizer that goes on stepping, the second loop's, and the
    iteration time is the formula's.

    So are its parts: compute, and communication in so far as nothing is computed beside it.
    """
    one, reduce_ns = durations(overlapping), REDUCE_NS["node"]
    iteration_ns = starts_ns(one, reduce_ns)[-1] + reduce_ns + one.update
    found = find_iterations(overlapping.data)
    assert found.detected_by == "optimizer"
    steady = Iterations(found.detected_by, found.boundaries_ns[-ITERATIONS - 1 :])
    assert steady.durations_ns.tolist() == ITERATIONS * [iteration_ns]
    busy_ns = one.forward + one.backward + one.update
    assert break_down(overlapping.data, steady) == Breakdown(
        compute_ns=busy_ns,
        communication_ns=LAYERS * reduce_ns,
        exposed_communication_ns=iteration_ns - busy_ns,
        waiting_for_ranks_ns=0,
        host_ns=0,
        idle_ns=0,
    )

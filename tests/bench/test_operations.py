"""What nccl-tests means by size and bandwidth."""

from __future__ import annotations

import pytest

from phantora_py.bench.operations import DATA_TYPES, find_operation
from sim_server.errors import UsageError

FLOAT = DATA_TYPES["float"]


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        # The table of doc/PERFORMANCE.md in NVIDIA/nccl-tests, for 8 ranks.
        ("all_reduce", 2 * 7 / 8),
        ("all_gather", 7 / 8),
        ("reduce_scatter", 7 / 8),
        ("alltoall", 7 / 8),
        ("gather", 7 / 8),
        ("scatter", 7 / 8),
        ("broadcast", 1.0),
        ("reduce", 1.0),
        ("sendrecv", 1.0),
    ],
)
def test_bus_factor(name: str, factor: float) -> None:
    """Bus bandwidth over algorithm bandwidth is nccl-tests' factor."""
    assert find_operation(name).bus_factor(8) == factor


@pytest.mark.parametrize(
    ("name", "asked_bytes", "ranks", "count", "size_bytes"),
    [
        ("all_reduce", 1026, 8, 256, 1024),
        ("all_gather", 1024, 8, 32, 1024),
        # 2048 elements are 170 for each of 12 ranks, and 168 are the next multiple of 16 bytes.
        ("alltoall", 8192, 12, 168, 8064),
        ("reduce_scatter", 64, 8, 0, 0),
        ("sendrecv", 1024, 8, 256, 1024),
    ],
)
def test_count_and_size(
    name: str, asked_bytes: int, ranks: int, count: int, size_bytes: int
) -> None:
    """Parts of a buffer are multiples of 16 bytes; what is printed is what is moved."""
    operation = find_operation(name)
    assert operation.count(asked_bytes, FLOAT, ranks) == count
    assert operation.size_bytes(count, FLOAT, ranks) == size_bytes


def test_size_is_that_of_the_model() -> None:
    """The printed size is the buffer of the operation that is simulated."""
    for name in ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "gather", "scatter"):
        operation = find_operation(name)
        (launched,) = operation.launches(range(8), 48, FLOAT, 0)
        assert launched.buffer_bytes == operation.size_bytes(48, FLOAT, 8)


def test_sendrecv_is_a_ring_of_sends() -> None:
    """Every rank sends to the next and receives from the one before."""
    sends = find_operation("sendrecv").launches((0, 3, 5), 4, FLOAT, 0)
    assert [(send.source, send.destination) for send in sends] == [(0, 3), (3, 5), (5, 0)]


@pytest.mark.parametrize("name", ["all_to_all", "alltoall", "alltoall_perf", "all-to-all"])
def test_spellings(name: str) -> None:
    """The names of NCCL, nccl-tests and its programs mean the same."""
    assert find_operation(name).name == "alltoall"


def test_unknown_operation_is_refused() -> None:
    """The nearest name is offered."""
    with pytest.raises(UsageError, match="no operation 'allreduce'; did you mean 'all_reduce'"):
        find_operation("allreduce")

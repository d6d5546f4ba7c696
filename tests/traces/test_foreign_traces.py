"""Traces without anything of ours are simulated: times by hand."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from made_traces import all_reduce, host, node, receive, send, write_folder

from phantora_py.cli import main
from phantora_py.data import RunData
from sim_server.chakra.execution_trace_pb2 import (
    ALL_GATHER,
    ALL_REDUCE,
    COMM_COLL_NODE,
    REDUCE_SCATTER,
    Node,
)
from sim_server.log.history import COMMUNICATION_SPAN, KERNEL_SPAN

US = 1000


def simulated(tmp_path: Path, *ranks: list[Node]) -> RunData:
    """What becomes of traces on a node of eight H100s."""
    folder, output = write_folder(tmp_path / "a", ranks), tmp_path / "a.phr"
    words = ["resimulate", str(folder), "--cluster", "h100", "-o", str(output), "--quiet"]
    assert main(words) == 0
    return RunData(output)


def kernels(data: RunData, rank: int = 0) -> list[tuple[int, int]]:
    """From when to when each ran, after the first; in us."""
    spans = data.spans_of(rank)
    spans = spans[spans["kind"] == KERNEL_SPAN]
    begin_ns = int(spans["start_ns"].min())
    pairs = zip(spans["start_ns"].tolist(), spans["end_ns"].tolist(), strict=True)
    return sorted(((start - begin_ns) // US, (end - begin_ns) // US) for start, end in pairs)


def test_what_a_trace_does_not_tell(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Nothing is said to be zero that is not known."""
    data = simulated(tmp_path, [host(1), node(2, [1], micros=10)])
    assert data.memory["per_rank"] == []
    assert main(["report", str(data.path)]) == 0
    said = capsys.readouterr().out
    assert "peak memory is not known, because execution traces do not tell" in said


def test_streams_and_events(tmp_path: Path) -> None:
    """A stream does one thing after the other; another waits where a node depends on it."""
    program = [
        *(host(1), node(2, [1], stream=7, micros=10), node(3, [1], stream=7, micros=10)),
        *(node(4, [1], stream=8, micros=5), node(5, [3], stream=8, micros=4)),
    ]
    assert kernels(simulated(tmp_path, program)) == [(0, 5), (0, 10), (10, 20), (20, 24)]


def test_the_host_waits_and_works(tmp_path: Path) -> None:
    """A node of the host begins when what it depends on is done, and what follows is late."""
    program = [
        *(host(1), node(2, [1], stream=7, micros=10)),
        *(host(3, [2], micros=6), node(4, [3], stream=7, micros=1)),
    ]
    assert kernels(simulated(tmp_path, program)) == [(0, 10), (16, 17)]


def test_ranks_wait_for_each_other(tmp_path: Path) -> None:
    """A collective moves when its last rank has come, and all end together."""
    ranks = [[host(1), node(2, [1], micros=wait), all_reduce(3, [2])] for wait in (10, 500)]
    data = simulated(tmp_path, *ranks)
    (operation,) = data.operations
    assert operation["members"] == [0, 1]
    arrivals = sorted(operation["arrivals_ns"])
    assert arrivals[1] - arrivals[0] == 490 * US
    assert operation["moves_ns"] == arrivals[1]


def test_sizes_of_collectives(tmp_path: Path) -> None:
    """They are of a rank's input, as in Chakra's converter: a gathered buffer is larger."""
    told: dict[str, Any] = {"comm_size": 4096, "pg_name": "0", "is_cpu_op": False}
    kinds = {"all_reduce": ALL_REDUCE, "all_gather": ALL_GATHER, "reduce_scatter": REDUCE_SCATTER}
    program = [
        node(number, kind=COMM_COLL_NODE, comm_type=int(kind), **told)
        for number, kind in enumerate(kinds.values(), 1)
    ]
    data = simulated(tmp_path, program, program)
    found = {one["kind"]: one["bytes"] for one in data.operations}
    assert found == {"all_reduce": 4096, "all_gather": 8192, "reduce_scatter": 4096}


def test_transfers_of_both_directions(tmp_path: Path) -> None:
    """Those of a pair go together in their order; the rank that a message comes from is known."""
    data = simulated(tmp_path, [send(1, 0, 1), receive(2, 1, 0)], [receive(1, 0, 1), send(2, 1, 0)])
    assert [one["members"] for one in data.operations] == [[0, 1], [1, 0]]
    communication = data.spans[data.spans["kind"] == COMMUNICATION_SPAN]
    assert len(communication) == 4


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_the_order_in_the_file_says_nothing(tmp_path: Path, order: tuple[int, ...]) -> None:
    """Dependencies and numbers do."""
    program = [host(1, micros=1), node(2, [1], micros=10), node(3, [2], micros=20)]
    assert kernels(simulated(tmp_path, [program[place] for place in order])) == [(0, 10), (10, 30)]

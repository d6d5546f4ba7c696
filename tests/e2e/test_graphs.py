"""CUDA graphs under PyTorch: a launch does what was captured, at the price of one call."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from phantora_runs import PROGRAMS, Phantora, Run

from phantora_py.report.iterations import find_iterations

pytestmark = pytest.mark.torch

STEPS = 4


def train(phantora: Phantora, mode: str) -> Run:
    run = phantora.run(["--ranks", "2"], [PROGRAMS / "graphs.py", mode])
    assert run.exit_code == 0, run.errors
    return run


def last_iteration(run: Run) -> tuple[Counter[tuple[int, int]], Counter[str], int]:
    """What the last iteration's spans and operations were, and how long it took."""
    begin_ns, end_ns = find_iterations(run.data).boundaries_ns[-2:]
    spans = run.data.spans
    inside = spans[(spans["start_ns"] >= begin_ns) & (spans["start_ns"] < end_ns)]
    work = Counter((int(span["kind"]), int(span["id"])) for span in inside)
    operations = Counter(
        one["kind"] for one in run.data.operations if begin_ns < one["moves_ns"] <= end_ns
    )
    return work, operations, end_ns - begin_ns


def test_launches_repeat_the_capture(phantora: Phantora) -> None:
    """Each is an iteration with the eager work and collectives, and costs the host less."""
    eager, graph = train(phantora, "eager"), train(phantora, "graph")
    expected_work, expected_operations, eager_ns = last_iteration(eager)
    work, operations, graph_ns = last_iteration(graph)
    assert work == expected_work
    assert operations == expected_operations == Counter({"all_reduce": 5})
    assert graph_ns < eager_ns / 2
    counter = [float(2**STEPS)] * 2
    for run in (eager, graph):
        assert f"rank 0: counter {counter}" in run.output
        assert f"rank 1: counter {counter}" in run.output


def test_an_illegal_call_spoils_the_capture(phantora: Phantora) -> None:
    """It is refused as CUDA does, and the program may go on."""
    run = phantora.run([], [PROGRAMS / "graphs.py", "spoil"])
    assert run.exit_code == 0, run.errors
    assert "operation failed due to a previous error during capture" in run.output
    assert "after it [2.0, 2.0]" in run.output


PICTURE = """
import torch
graph = torch.cuda.CUDAGraph()
graph.enable_debug_mode()
ones = torch.ones(8, device="cuda")
with torch.cuda.graph(graph):
    ones + 1
graph.debug_dump("graph.dot")
print(open("graph.dot").read())
"""


@pytest.mark.parametrize("options", [["--ranks", "1"], ["--gpus", "1"]])
def test_a_picture_of_a_graph(phantora: Phantora, options: list[str]) -> None:
    """debug_dump, for which PyTorch asks a library that brings a CUDA runtime: it ended runs."""
    program = phantora.directory / "picture.py"
    program.write_text(PICTURE)
    run = phantora.run(options, [program])
    assert run.exit_code == 0, run.errors
    assert "digraph" in run.output
    assert run.summary["trust"]["calls"]["unsupported"] == 0


FREED = """
import torch
ones = torch.ones(1 << 20, device="cuda")

def captured():
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        twice = ones * 2
    graph.replay()
    return graph, twice

def taken():
    torch.cuda.synchronize()
    return before - torch.cuda.mem_get_info()[0]

before = torch.cuda.mem_get_info()[0]
graph, twice = captured()
del twice
print("held", taken() >= 4 << 20)
graph.replay()
del graph
print("given back", taken())
graph, twice = captured()
del graph
print("held", taken() >= 4 << 20)
del twice
print("given back", taken())
"""


def test_memory_of_a_graph_that_is_freed_outside_it(phantora: Phantora, tmp_path: Path) -> None:
    """PyTorch's other allocator frees what a capture allocated by `cudaFreeAsync`, which ended the
    run. The memory stays the graph's, which may be launched again, and then the program's.
    """
    program = tmp_path / "freed.py"
    program.write_text(FREED)
    run = phantora.run([], [program], {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"})
    assert run.exit_code == 0, run.errors
    assert "held True\ngiven back 0\n" * 2 in run.output
    assert run.summary["trust"]["calls"]["unsupported"] == 0

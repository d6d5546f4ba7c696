"""Execution traces of real programs: whole, alike across ranks, and enough to simulate the run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from issuing import left_over
from phantora_runs import EXAMPLES, PROGRAMS, Phantora, Run

from phantora_py.cli import main
from phantora_py.data import RunData
from phantora_py.report.findings import Findings
from phantora_py.report.sections import throughput
from phantora_py.traces.agreement import disagreements
from phantora_py.traces.folder import read_folder
from sim_server.chakra.execution_trace_pb2 import (
    ALL_TO_ALL,
    COMM_COLL_NODE,
    COMM_SEND_NODE,
    COMP_NODE,
)
from sim_server.chakra.files import read_trace, write_trace
from sim_server.chakra.graph import Step
from sim_server.log.history import HOST_WAIT_SPAN

pytestmark = pytest.mark.torch

SMALL = ["--layers", "2", "--steps", "3", "--batch", "2"]
# Options and command by what they parallelise.
RUNS: dict[str, tuple[list[str], list[str | Path]]] = {
    "dp": (["--ranks", "4"], [EXAMPLES / "train_gpt_ddp.py", *SMALL]),
    "fsdp": (["--ranks", "4"], [EXAMPLES / "train_gpt_fsdp.py", *SMALL]),
    "tp": (["--ranks", "4"], [PROGRAMS / "tensor_parallel.py"]),
    "tp counted": (["--ranks", "4", "--host-time", "counted"], [PROGRAMS / "tensor_parallel.py"]),
    "pp": (["--ranks", "4"], [PROGRAMS / "pipelining.py", "1F1B", "4"]),
    "pp interleaved": (
        ["--ranks", "4", "--host-time", "counted"],
        [PROGRAMS / "pipelining.py", "Interleaved1F1B", "8"],
    ),
    "ep": (["--ranks", "4"], [PROGRAMS / "experts.py"]),
    "empty splits": (["--ranks", "4"], [PROGRAMS / "context_parallel.py", "allgather", "2"]),
    "uneven": (["--ranks", "4"], [PROGRAMS / "uneven_exchange.py"]),
    "every collective": (["--ranks", "4"], [EXAMPLES / "check_collectives.py"]),
    "graph": (["--ranks", "2"], [PROGRAMS / "graphs.py", "graph"]),
    "two nodes": (
        ["--nodes", "2", "--ranks", "4", "--host-time", "counted"],
        [EXAMPLES / "train_gpt_ddp.py", *SMALL],
    ),
}
MOST_DIFFERENCE = 0.001
"""Of a rank's makespan."""


@pytest.fixture(scope="module", params=RUNS)
def exported(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Run, Path]:
    """A run and its trace."""
    directory = tmp_path_factory.mktemp("traces")
    phantora = Phantora(directory)
    run = phantora.run(*RUNS[request.param])
    assert run.exit_code == 0, run.errors
    folder = directory / "trace"
    assert main(["report", str(run.path), "--chakra", str(folder)]) == 0
    return request.param, run, folder


def test_ranks_agree(exported: tuple[str, Run, Path]) -> None:
    """Same collectives in the same order, transposed splits, and a receive for each send."""
    what, run, path = exported
    folder = read_folder(path)
    assert folder.ranks == run.data.ranks
    assert list(disagreements(folder)) == []
    steps = [step for own in folder.steps for step in own]
    counted = Counter(step.node.type for step in steps if step.is_communication)
    exchanges = [step for step in steps if "in_split_size" in step.attributes]
    assert sum(counted.values()) > 0
    if what in ("pp", "every collective"):
        assert counted[COMM_SEND_NODE] > 0
    assert all(step.number("comm_type") == ALL_TO_ALL for step in exchanges)
    if what in ("ep", "every collective"):
        assert exchanges


def test_every_piece_of_work_is_a_node(exported: tuple[str, Run, Path]) -> None:
    """Each depends on the call that launched it; what the host waited for has a node, too."""
    _, run, path = exported
    folder = read_folder(path)
    for rank, steps in enumerate(folder.steps):
        hosts = {step.id for step in steps if step.is_host}
        work = [step for step in steps if not step.is_host]
        assert all(hosts & set(step.node.ctrl_deps) for step in work)
        spans = run.data.spans_of(rank)
        exchanged = sum(
            len(transfers_of(step)) - 1 for step in work if "in_split_size" in step.attributes
        )
        assert len(work) + exchanged == (spans["kind"] != HOST_WAIT_SPAN).sum()
        waited_ns = sum(step.number("waited_ns", 0) for step in steps if step.is_host)
        waits = spans[spans["kind"] == HOST_WAIT_SPAN]
        made = ("ncclCommInitRank", "ncclCommSplit")
        joined_ns = sum(
            step.number("duration_ns") for step in steps if step.is_host and step.node.name in made
        )
        assert waited_ns + joined_ns == (waits["end_ns"] - waits["start_ns"]).sum()


def test_simulating_the_trace_gives_the_run(exported: tuple[str, Run, Path]) -> None:
    """From nothing but the exported files: each rank's makespan, and the order of collectives."""
    _, run, path = exported
    output = path.with_suffix(".phr")
    words = ["resimulate", str(path), "--cluster", "h100", "-o", str(output), "--quiet"]
    assert main(words) == 0
    again = RunData(output)
    for rank in range(run.data.ranks):
        expected, found = (makespan_ns(data, rank) for data in (run.data, again))
        assert found == pytest.approx(expected, rel=MOST_DIFFERENCE)
    assert starts(again) == starts(run.data)
    # What checkpoints computed again stands in no trace, so that the model's own part is not known.
    of_trace = throughput.make(Findings(again))
    assert (
        of_trace is None
        or of_trace["utilization"] is None
        or of_trace["utilization"]["mfu"] is None
    )


def test_times_of_the_host_are_nodes(exported: tuple[str, Run, Path]) -> None:
    """They are a chain without holes, from the begin to the exit; times in microseconds are the
    exact ones, rounded down at both ends.
    """
    _, _, path = exported
    for steps in read_folder(path).steps:
        clock_ns = before = 0
        for step in sorted((one for one in steps if one.is_host), key=lambda one: one.id):
            assert list(step.node.ctrl_deps) == [before] * (before > 0)
            start_ns, length_ns = (step.number(name) for name in ("start_ns", "duration_ns"))
            assert start_ns == clock_ns
            clock_ns, before = start_ns + length_ns + step.number("waited_ns", 0), step.id
        assert clock_ns > 0
        for step in steps:
            begin_ns = step.number("start_ns")
            end_ns = begin_ns + step.number("duration_ns")
            assert step.node.start_time_micros == begin_ns // 1000
            assert step.node.duration_micros == end_ns // 1000 - begin_ns // 1000


def test_no_node_is_left_over(exported: tuple[str, Run, Path]) -> None:
    """A simulator that only knows dependencies comes to the end of every rank."""
    _, _, path = exported
    folder = read_folder(path)
    assert left_over(folder) == set()
    # A rank that does not come to its last collective holds the others up.
    last = max(
        (one for one in folder.steps[0] if one.node.type == COMM_COLL_NODE),
        key=lambda one: one.id,
        default=None,
    )
    if last is not None:
        last.node.type = COMP_NODE
        assert left_over(folder) != set()


@pytest.mark.parametrize("exported", ["dp", "fsdp", "pp", "pp interleaved", "ep"], indirect=True)
def test_without_its_edges_the_graph_gives_another_run(exported: tuple[str, Run, Path]) -> None:
    """What holds for traces is not so for any: without what their work waits for, it fails."""
    _, run, path = exported
    bare = path.with_name("bare")
    bare.mkdir()
    for file in sorted(path.iterdir()):
        trace = read_trace(file)
        for node in trace.nodes:
            del node.data_deps[:]
        with (bare / file.name).open("wb") as stripped:
            write_trace(stripped, trace.metadata, trace.nodes)
    output = bare.with_suffix(".phr")
    words = ["resimulate", str(bare), "--cluster", "h100", "-o", str(output), "--quiet"]
    assert main(words) == 0
    again = RunData(output)
    differences = [
        abs(makespan_ns(again, rank) / makespan_ns(run.data, rank) - 1)
        for rank in range(run.data.ranks)
    ]
    assert max(differences) > MOST_DIFFERENCE or starts(again) != starts(run.data)


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (["--gpus", "2", "several_gpus.py", "layers", "2"], "drive several GPUs each"),
        (["--ranks", "2", "two_drivers.py"], "threads of rank 0 wait for the GPU beside"),
    ],
)
def test_runs_that_a_trace_cannot_tell_are_refused(
    phantora: Phantora,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    run: list[str],
    said: str,
) -> None:
    """With the reason, and not as damaged files; nor are their traces those of other runs."""
    ended = phantora.run(run[:2], [PROGRAMS / run[2], *run[3:]])
    assert ended.exit_code == 0, ended.errors
    assert main(["report", str(ended.path), "--chakra", str(tmp_path / "trace")]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def transfers_of(step: Step) -> list[tuple[str, int]]:
    """Of an all-to-all: its sends and receives, with their peers; empty ones only if launched."""
    found = []
    for side in ("in", "out"):
        name = f"{side}_split_empty"
        empty = step.numbers(name) if name in step.attributes else []
        sizes = enumerate(step.numbers(f"{side}_split_size"))
        found += [(side, peer) for peer, size in sizes if size or peer in empty]
    return found


def makespan_ns(data: RunData, rank: int) -> int:
    """From the begin of the rank's first work to the end of its last."""
    spans = data.spans_of(rank)
    work = spans[spans["kind"] != HOST_WAIT_SPAN]
    return int(work["end_ns"].max() - work["start_ns"].min())


def starts(data: RunData) -> list[list[str]]:
    """Operations in the order in which they began to move."""
    keys = ("members", "kind", "count", "dtype")
    begun = sorted((one["moves_ns"], *(str(one[key]) for key in keys)) for one in data.operations)
    return [told for _, *told in begun]


PROFILED = """
import sys, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(rank)
layers = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(6))).cuda()
model = DistributedDataParallel(layers, bucket_cap_mb=8)
optimizer = torch.optim.AdamW(model.parameters())
data = torch.randn(512 * (1 + rank), 1024, device="cuda")
profiler = torch.profiler.profile()
for step in range(5):
    if step == 1:
        torch.cuda.synchronize()
        profiler.start()
    optimizer.zero_grad()
    model(data).square().mean().backward()
    optimizer.step()
torch.cuda.synchronize()
profiler.stop()
profiler.export_chrome_trace(f"{sys.argv[1]}/rank-{rank}.json")
dist.destroy_process_group()
"""


def test_what_the_profiler_saw_is_enough_to_simulate_the_steps(
    phantora: Phantora, tmp_path: Path
) -> None:
    """One rank waits for the other in each step."""
    program, folder, output = (tmp_path / name for name in ("own.py", "profiles", "again.phr"))
    program.write_text(PROFILED)
    folder.mkdir()
    run = phantora.run(["--ranks", "2"], [program, folder])
    assert run.exit_code == 0, run.errors
    words = ["resimulate", str(folder), "--cluster", "h100", "-o", str(output), "--quiet"]
    assert main(words) == 0
    found, expected = (Findings(data).median_ns for data in (RunData(output), run.data))
    assert found is not None
    assert found == pytest.approx(expected, rel=0.01)

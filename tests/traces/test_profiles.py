"""Traces of PyTorch's profiler are simulated: times by hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from phantora_py.cli import main
from phantora_py.data import RunData
from phantora_py.traces.folder import read_folder
from sim_server.errors import UsageError
from sim_server.log.history import COMMUNICATION_SPAN, KERNEL_SPAN

US = 1000
ALL_REDUCE = {
    **{"Collective name": "all_reduce", "In msg nelems": 64, "Out msg nelems": 64},
    **{"Group size": 2, "dtype": "Float", "Process Group Name": "0", "Process Group Ranks": "[]"},
}


class Profile:
    """Rows of a file. Times are in us."""

    def __init__(self, rank: int, ranks: int = 2) -> None:
        self.rows: list[dict[str, Any]] = []
        self.head = {"distributedInfo": {"rank": rank, "world_size": ranks}}

    def row(self, kind: str, name: str, begin: int, length: int, **told: Any) -> None:
        where = {"ph": "X", "cat": kind, "name": name, "tid": told.pop("tid", 1)}
        self.rows.append({**where, "ts": begin, "dur": length, "args": told})

    def call(self, name: str, begin: int, length: int = 1) -> None:
        self.row("cuda_runtime", name, begin, length, correlation=len(self.rows))

    def kernel(self, call: int, begin: int, length: int, stream: int = 7, **told: Any) -> None:
        """With its launch."""
        number = len(self.rows) + 1000
        self.row("cuda_runtime", "cudaLaunchKernel", call, 1, correlation=number)
        name = told.pop("name", "kernel")
        told |= {"stream": stream, "correlation": number}
        self.row("kernel", name, begin, length, **told)

    def all_reduce(self, call: int, begin: int, length: int, **more: Any) -> None:
        told = {"name": "ncclDevKernel_AllReduce", **ALL_REDUCE, **more}
        self.kernel(call, begin, length, 20, **told)

    def write(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        rank = self.head["distributedInfo"]["rank"]
        text = json.dumps({**self.head, "traceEvents": self.rows})
        (folder / f"worker{rank}.pt.trace.json.gz").write_bytes(gzip.compress(text.encode()))


def simulated(folder: Path, *profiles: Profile) -> RunData:
    for one in profiles:
        one.write(folder)
    output = folder.with_suffix(".phr")
    words = ["resimulate", str(folder), "--cluster", "h100", "-o", str(output), "--quiet"]
    assert main(words) == 0
    return RunData(output)


def test_host_and_kernels_take_what_they_took(tmp_path: Path) -> None:
    """A gap of the host, a wait for the device, and what the wait took beside that."""
    profile = Profile(0, 1)
    profile.kernel(100, 101, 30)
    profile.kernel(102, 131, 20)
    profile.call("cudaDeviceSynchronize", 110, 45)
    profile.kernel(200, 201, 10)
    spans = simulated(tmp_path / "a", profile).spans_of(0)
    spans = spans[spans["kind"] == KERNEL_SPAN]
    begin_ns = spans["start_ns"].min()
    found = sorted((int(a - begin_ns), int(b - begin_ns)) for a, b in spans[["start_ns", "end_ns"]])
    assert found == [(0, 30 * US), (30 * US, 50 * US), (100 * US, 110 * US)]


def test_ranks_wait_for_each_other_and_start_as_they_did(tmp_path: Path) -> None:
    """How long a collective took is not taken from the file: who comes first waits."""
    early, late = Profile(0), Profile(1)
    early.all_reduce(100, 101, 900)
    late.all_reduce(600, 601, 400)
    data = simulated(tmp_path / "a", early, late)
    (operation,) = data.operations
    arrivals_ns = operation["arrivals_ns"]
    assert max(arrivals_ns) - min(arrivals_ns) == 500 * US
    lengths = []
    for rank in range(2):
        spans = data.spans_of(rank)
        spans = spans[spans["kind"] == COMMUNICATION_SPAN]
        lengths.append(int(spans["end_ns"][0] - spans["start_ns"][0]))
    assert lengths[0] - lengths[1] == 500 * US
    assert lengths[1] < 100 * US


def test_a_stream_that_was_told_to_wait(tmp_path: Path) -> None:
    """It waits for what had ended on others before its next work began; others do not wait."""
    profile = Profile(0, 1)
    profile.kernel(100, 101, 50)
    profile.kernel(102, 103, 10, 8)
    profile.call("cudaStreamWaitEvent", 104)
    profile.kernel(106, 151, 10, 9)
    profile.write(tmp_path)
    [steps] = read_folder(tmp_path).steps
    after = {step.id: step.after for step in steps if not step.is_host}
    first, second, third = after
    assert not {first, second} & {*after[first], *after[second]}
    assert {first, second} <= {*after[third]}


def test_annotations_tell_of_kernels_that_do_not(tmp_path: Path) -> None:
    """As before PyTorch 2.2."""
    profile = Profile(0, 1)
    dims = {"Input Dims": [[6144]], "Input type": ["long int"]}
    profile.row("user_annotation", "nccl:all_to_all", 90, 40, **dims)
    profile.kernel(100, 101, 50, name="ncclKernel_SendRecv")
    profile.write(tmp_path)
    [steps] = read_folder(tmp_path).steps
    (step,) = (one for one in steps if one.is_communication)
    assert step.number("comm_size") == 6144 * 8
    assert (step.number("comm_type"), step.text("dtype")) == (6, "int64")


def test_splits_count_rows(tmp_path: Path) -> None:
    for rank in range(2):
        profile = Profile(rank)
        told = {"Collective name": "all_to_allv", "In msg nelems": 40, "Out msg nelems": 60}
        splits = {"In split size": "[1, 3]", "Out split size": "[2, 4]"}
        profile.all_reduce(100, 101, 50, **told, **splits)
        profile.write(tmp_path)
    step = next(one for one in read_folder(tmp_path).steps[0] if one.is_communication)
    assert step.numbers("in_split_size") == [10, 30]
    assert step.numbers("out_split_size") == [20, 40]


@pytest.mark.parametrize(
    ("name", "elements"), [("_allgather_base", 64), ("gather", 64), ("_reduce_scatter_base", 128)]
)
def test_sizes_are_of_the_input(tmp_path: Path, name: str, elements: int) -> None:
    """Of a gathering what a rank gives, of a scattering reduction all of it."""
    sizes = (64, 128) if "gather" in name else (128, 64)
    told = dict(zip(("In msg nelems", "Out msg nelems"), sizes, strict=True))
    for rank in range(2):
        profile = Profile(rank)
        profile.all_reduce(100, 101, 50, **told, **{"Collective name": name})
        profile.write(tmp_path)
    step = next(one for one in read_folder(tmp_path).steps[0] if one.is_communication)
    assert step.number("comm_size") == 4 * elements


def without_sizes(profile: Profile) -> None:
    profile.kernel(100, 101, 50, name="ncclKernel_AllReduce")


def transfer(profile: Profile) -> None:
    profile.all_reduce(100, 101, 50, **{"Collective name": "send"})


def unknown_ranks(profile: Profile) -> None:
    told = {"Group size": 3, "Process Group Name": "tp", "Process Group Ranks": "[0, 1, ..."}
    profile.all_reduce(100, 101, 50, **told)


def later_step(profile: Profile) -> None:
    number = profile.head["distributedInfo"]["rank"] + 7
    profile.all_reduce(100, 101, 50, Seq=number)


def lost_launch(profile: Profile) -> None:
    profile.kernel(100, 101, 50)
    profile.row("kernel", "lost", 200, 5, stream=7, correlation=99)


@pytest.mark.parametrize(
    ("add", "said"),
    [
        (without_sizes, "nothing tells which communication it is.*record_shapes=True"),
        (transfer, "send has a partner that the trace does not tell"),
        (unknown_ranks, "nothing tells which 3 ranks the process group tp has"),
        (later_step, "begins with operation 8 of process group 0, and another rank's file with 7"),
        (lost_launch, "has a kernel without its call, 'lost': profile whole steps"),
    ],
)
def test_what_cannot_be_simulated_is_refused(tmp_path: Path, add: Any, said: str) -> None:
    for rank in range(2):
        profile = Profile(rank)
        add(profile)
        profile.write(tmp_path)
    with pytest.raises(UsageError, match=said):
        read_folder(tmp_path)


def test_missing_and_cut_files_are_refused(tmp_path: Path) -> None:
    profile = Profile(1)
    profile.kernel(100, 101, 5)
    profile.write(tmp_path)
    with pytest.raises(UsageError, match="lacks the trace of rank 0, of 2 ranks"):
        read_folder(tmp_path)
    (tmp_path / "worker0.json").write_text('{"traceEvents": [')
    with pytest.raises(UsageError, match=r"worker0\.json is cut short, or no JSON"):
        read_folder(tmp_path)
    (tmp_path / "worker0.json").write_text('{"traceEvents": []}')
    with pytest.raises(UsageError, match="has no calls of CUDA"):
        read_folder(tmp_path)
    (tmp_path / "worker0.json").write_text('{"traceEvents": [{"ph": "X", "cat": "kernel"}]}')
    with pytest.raises(UsageError, match=r"worker0\.json is damaged"):
        read_folder(tmp_path)

"""Programs of which a process uses several GPUs."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from phantora_runs import PROGRAMS, Phantora, Run

from sim_server.gpu import load_gpu
from sim_server.log.history import COPY_SPAN, HOST_WAIT_SPAN
from sim_server.records import CopyKind

pytestmark = pytest.mark.torch

GIB = 1 << 30
LARGE_BYTES = 256 << 20
"""Of an all-reduce."""


def run(phantora: Phantora, options: Sequence[str], what: str, gpus: int = 4) -> Run:
    found = phantora.run(options, [PROGRAMS / "several_gpus.py", what, str(gpus)])
    assert found.exit_code == 0, found.errors
    assert found.summary["trust"]["calls"]["unsupported"] == 0
    return found


def used_gpus(of: Run) -> set[tuple[int, int]]:
    """Rank and device of all that ran on a GPU."""
    spans = of.data.spans[of.data.spans["kind"] != HOST_WAIT_SPAN]
    return {
        (int(span["rank"]), int(span["device"])) for span in np.unique(spans[["rank", "device"]])
    }


def large_reduce_ns(of: Run) -> set[int]:
    """From the arrival of its last member to each end."""
    (row,) = [one for one in of.data.operations if one["bytes"] == LARGE_BYTES]
    assert len(row["members"]) == 4
    return {end_ns - row["moves_ns"] for end_ns in row["ends_ns"]}


def test_layers_on_several_gpus(phantora: Phantora) -> None:
    """One rank; copies between GPUs, events, peaks and exhausted memory are each GPU's own."""
    found = run(phantora, ["--gpus", "2"], "layers", 2)
    assert used_gpus(found) == {(0, 0), (0, 1)}
    assert "copied [0, 1, 2, 3]" in found.output
    assert "CUDA out of memory. Tried to allocate 79.00 GiB. GPU 1" in found.output
    memory = found.summary["memory"]
    assert {(one["rank"], one["device"]) for one in memory["out_of_memory"]} == {(0, 1)}
    first, second = memory["gpus"]
    assert (first["device"], second["device"]) == (0, 1)
    assert first["peak_device_bytes"] < 2 * GIB < 3 * GIB < second["peak_device_bytes"]
    assert memory["peak_device_bytes"][0] == second["peak_device_bytes"]
    copies = found.data.spans[found.data.spans["kind"] == COPY_SPAN]
    peers = copies[copies["id"] == CopyKind.PEER_TO_PEER]
    assert len(peers) > 2 * 4
    rate = load_gpu("h100").copies
    moving_ns = math.ceil((400 << 20) / rate["peer_bytes_per_s"] * 1e9)
    longest_ns = int((peers["end_ns"] - peers["start_ns"]).max())
    assert longest_ns == rate["peer_latency_ns"] + moving_ns
    # The host takes some microseconds between the events and the copy.
    (said,) = re.findall(r"400 MiB in ([\d.]+) ms", found.output)
    assert longest_ns / 1e6 <= float(said) < longest_ns / 1e6 + 0.02
    assert found.summary["trust"]["caveats"] == []


def test_data_parallel(phantora: Phantora) -> None:
    """Each GPU computes, and their gradients meet."""
    found = run(phantora, ["--gpus", "2"], "parallel", 2)
    assert used_gpus(found) == {(0, 0), (0, 1)}
    calls = found.summary["trust"]["calls"]
    assert (calls["ranks"], calls["started"]) == (1, 1)
    assert any(len(one["members"]) == 2 for one in found.data.operations)
    assert found.summary["iterations"]["count"] >= 2


def test_threads_that_launch_side_by_side_are_told(phantora: Phantora) -> None:
    """Which of them comes first is the machine's; of autograd's threads one waits for another."""
    found = run(phantora, ["--gpus", "2"], "threads", 2)
    assert found.summary["trust"]["caveats"] == [{"rank": 0, "what": "threads", "count": 1}]


def test_collectives_of_one_process_take_what_ranks_take(phantora: Phantora) -> None:
    """ncclCommInitAll: one process with four GPUs, four processes, two with two each that see no
    other. GPUs need not belong to a rank.
    """
    one = run(phantora, ["--gpus", "4"], "collectives")
    assert "reduced [10.0, 10.0, 10.0, 10.0]" in one.output
    assert "gathered [10.0, 10.0, 10.0, 10.0]" in one.output
    ranks = run(phantora, ["--ranks", "4"], "rank")
    workers = run(phantora, ["--gpus", "4"], "workers")
    assert {f"reduced {worker} [10.0, 10.0]" for worker in range(2)} <= set(
        workers.output.splitlines()
    )
    assert used_gpus(workers) == {(0, 0), (0, 1), (2, 2), (2, 3)}
    beyond = run(phantora, ["--ranks", "1"], "collectives")
    expected_ns = large_reduce_ns(ranks)
    assert len(expected_ns) == 1
    for other in (one, workers, beyond):
        assert large_reduce_ns(other) == expected_ns


def test_ranks_that_forget_to_choose_a_gpu(failing_phantora: Phantora) -> None:
    """All on GPU 0, which NCCL refuses; the message says what to do."""
    code = (
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('nccl', device_id=torch.device('cuda:0'))\n"
        "dist.all_reduce(torch.ones(4, device='cuda:0'))\n"
    )
    found = failing_phantora.run(["--ranks", "2"], ["-c", code])
    assert found.exit_code == 5
    assert "with GPU 0 of their node; NCCL refuses that" in found.errors
    assert "torch.cuda.set_device(LOCAL_RANK)" in found.errors


EVENTS = """
import torch
first, second = (torch.device("cuda", one) for one in range(2))
events = []
for device in (first, second):
    with torch.cuda.device(device):
        events.append(torch.cuda.Event(enable_timing=True))
        events[-1].record()
torch.cuda.current_stream(second).wait_event(events[0])
for device in (first, second):
    torch.cuda.synchronize(device)
print(all(one.query() for one in events))
try:
    events[0].elapsed_time(events[1])
except RuntimeError as error:
    print(str(error).splitlines()[0])
"""


def test_events_of_two_gpus_have_no_time_between_them(phantora: Phantora, tmp_path: Path) -> None:
    """Who waits for one may be on any GPU, as CUDA has it; a time between them was an answer."""
    program = tmp_path / "events.py"
    program.write_text(EVENTS)
    found = phantora.run(["--gpus", "2"], [program])
    assert found.exit_code == 0, found.errors
    assert "True\nCUDA error: invalid resource handle" in found.output

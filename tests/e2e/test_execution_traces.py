"""`phantora run --execution-trace`: PyTorch's observer in simulated ranks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from first_difference import differences
from free_ports import free_port
from phantora_runs import EXAMPLES, PROGRAMS, Phantora

pytestmark = pytest.mark.torch

SMALL = ["--layers", "2", "--steps", "3", "--batch", "2"]
RANKS = 2
LIMIT_S = 120
PARTS = ("shapes", "types", "strides")


def read(path: Path) -> list[dict[str, Any]]:
    """The nodes of a trace, each with its attributes by name."""
    trace = json.loads(path.read_text())
    assert trace["schema"] == "1.1.1-chakra.0.0.4"
    nodes: list[dict[str, Any]] = trace["nodes"]
    return [
        node | {"attrs": {one["name"]: one["value"] for one in node["attrs"]}} for node in nodes
    ]


def operators(path: Path) -> Counter[tuple[str, ...]]:
    """How often each operator of ATen was called with which tensors."""
    return Counter(
        (
            node["attrs"]["op_schema"],
            *(json.dumps(node[side][part]) for side in ("inputs", "outputs") for part in PARTS),
        )
        for node in read(path)
        if node["attrs"].get("op_schema", "").startswith("aten::")
    )


def test_operators_are_those_of_a_real_run(phantora: Phantora, tmp_path: Path) -> None:
    """The same script without phantora, on a CPU with gloo, under the stock observer."""
    port = free_port()
    common = {"WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    # As in simulated ranks: kernels of the CPU divide their work by threads.
    common["OMP_NUM_THREADS"] = "1"
    command = [sys.executable, PROGRAMS / "observed.py", "cpu", tmp_path / "real-{rank}.json"]
    started = [
        subprocess.Popen(
            list(map(str, command)),
            env={**os.environ, **common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(RANKS)
    ]
    assert [process.wait(LIMIT_S) for process in started] == [0] * RANKS
    ours = tmp_path / "ours"
    options = ["--ranks", str(RANKS), "--execution-trace", str(ours)]
    run = phantora.run(options, [PROGRAMS / "observed.py", "cpu"])
    assert run.exit_code == 0, run.errors
    for rank in range(RANKS):
        expected = operators(tmp_path / f"real-{rank}.json")
        assert sum(expected.values()) > 1000
        assert operators(ours / f"rank-{rank}.json") == expected


@pytest.mark.parametrize("host_time", ["fixed", "counted"])
def test_a_trace_takes_no_virtual_time(phantora: Phantora, tmp_path: Path, host_time: str) -> None:
    """The history is the same to the nanosecond."""
    options = ["--ranks", str(RANKS), "--host-time", host_time]
    command: list[str | Path] = [EXAMPLES / "train_gpt_ddp.py", *SMALL]
    plain = phantora.run(options, command)
    traced = phantora.run([*options, "--execution-trace", str(tmp_path / "trace")], command)
    assert plain.exit_code == traced.exit_code == 0, traced.errors
    same = traced.data.run["digest"] == plain.data.run["digest"]
    assert same, "\n".join(map(str, differences(plain.path, traced.path)))
    names = sorted(one.name for one in (tmp_path / "trace").iterdir())
    assert names == ["rank-0.json", "rank-1.json", "ranks.json"]


def test_groups_and_communication(phantora: Phantora, tmp_path: Path) -> None:
    """Each collective names its group, and the trace says which ranks that has."""
    folder = tmp_path / "trace"
    options = ["--ranks", "4", "--execution-trace", str(folder)]
    run = phantora.run(options, [PROGRAMS / "tensor_parallel.py"])
    assert run.exit_code == 0, run.errors
    for rank in range(4):
        nodes = read(folder / f"rank-{rank}.json")
        told = [node for node in nodes if node["name"] == "## process_group:init ##"]
        groups = {one["pg_name"]: one for one in json.loads(told[-1]["inputs"]["values"][0])}
        assert sorted(one["group_size"] for one in groups.values()) == [2, 2, 4]
        calls = [node["attrs"] for node in nodes if node["name"] == "record_param_comms"]
        used = {one["pg_name"] for one in calls if one["collective_name"] != "init"}
        assert used <= set(groups)
        kinds = {one["collective_name"] for one in calls}
        text = " ".join(kinds).lower()
        assert all(word in text for word in ("gather", "scatter", "all_reduce")), kinds
        for name in used:
            ranks = groups[name]["ranks"]
            assert not ranks or rank in ranks


def test_ids_of_the_programs_own_profiler(phantora: Phantora, tmp_path: Path) -> None:
    """Every operator that the profiler has seen is in the trace, under the same number."""
    program, folder, profile = tmp_path / "own.py", tmp_path / "trace", tmp_path / "profile.json"
    program.write_text(
        "import sys, torch\n"
        "model = torch.nn.Linear(64, 64, device='cuda')\n"
        "with torch.profiler.profile() as profiler:\n"
        "    model(torch.zeros(8, 64, device='cuda')).sum().backward()\n"
        "    torch.cuda.synchronize()\n"
        "profiler.export_chrome_trace(sys.argv[1])\n"
    )
    options = ["--ranks", "1", "--execution-trace", str(folder)]
    run = phantora.run(options, [program, str(profile)])
    assert run.exit_code == 0, run.errors
    names = {node["attrs"].get("rf_id"): node["name"] for node in read(folder / "rank-0.json")}
    events = json.loads(profile.read_text())["traceEvents"]
    operators = [event for event in events if event.get("cat") == "cpu_op"]
    assert len(operators) > 20
    for event in operators:
        assert names[event["args"]["Record function id"]] == event["name"]
    external = {event["args"]["External id"] for event in operators}
    kernels = [event["args"]["External id"] for event in events if event.get("cat") == "kernel"]
    assert kernels
    assert external.issuperset(kernels)


def test_a_rank_that_fails(phantora: Phantora, tmp_path: Path) -> None:
    """What it has written is kept, and that it is not whole is said."""
    program = tmp_path / "ends.py"
    program.write_text("import os, torch\ntorch.ones(3).sum()\nos._exit(0)\n")
    folder = tmp_path / "trace"
    run = phantora.run(["--ranks", "1", "--execution-trace", str(folder)], [program])
    said = f"{folder}/rank-0.json broke off: its rank did not come to its end."
    assert said in run.data.run["notes"]


def test_what_is_refused(phantora: Phantora, tmp_path: Path) -> None:
    """Time of the processor would have the observer's in it."""
    options = ["--ranks", "1", "--host-time", "measured", "--execution-trace", str(tmp_path / "a")]
    run = phantora.run(options, [PROGRAMS / "observed.py", "cpu"])
    assert run.exit_code == 2
    assert "--execution-trace takes time of the processor" in " ".join(run.errors.split())

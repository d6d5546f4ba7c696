"""`phantora calibrate` on logs as clusters write them: versions of nccl-tests, and launchers.

Forms: src/common.cu of NVIDIA/nccl-tests 2.13.6 and 2.17, and logs in the issues of that project.
Times are the model's own with constants that are known, so that the constants have to come back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import simpy

from phantora_py.bench.operations import find_operation
from phantora_py.cli import main
from sim_server.cluster import Calibration, load_cluster
from sim_server.collectives import Communication

TRUE = Calibration(gpu_latency=1.2, network_latency=1.4, network_efficiency=0.8)
CONSTANTS = "gpu_latency,network_latency,network_efficiency"
GPUS = 8
FLOAT = 7
SIZES = [8 << power for power in range(0, 30, 2)]

OPTIONS = (
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 2147483648 step: 4(factor) warmup iters: 5 iters: 20 "
    "agg iters: 1 validation: 1 graph: 0"
)
COLUMNS = """\
#
#                                                              out-of-place                       \
in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   \
algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  \
(GB/s)  (GB/s)"""
ENDING = """\
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 87.1234
#"""


def results(name: str, nodes: int) -> Iterator[str]:
    """The table: in place everything takes twice as long, which must not be read."""
    cluster = dataclasses.replace(load_cluster("h100"), calibration=TRUE)
    env = simpy.Environment()
    communication = Communication(env, cluster, nodes, GPUS)
    operation, ranks = find_operation(name), nodes * GPUS
    reduction = "sum" if name == "all_reduce" else "none"
    for size_bytes in SIZES:
        count = operation.count(size_bytes, FLOAT, ranks)
        time_us = 0.0
        if count:
            (launch,) = operation.launches(range(ranks), count, FLOAT, 0)
            start_ns = env.now
            env.run(communication.start(launch))
            time_us = (env.now - start_ns) / 1e3
        bandwidths = "    0.37    0.70"
        yield (
            f"{size_bytes:>12}  {count:>12}  {'float':>8}  {reduction:>6}      -1"
            f" {time_us:8.2f}{bandwidths}      0 {2 * time_us:8.2f}{bandwidths}    N/A"
        )


def ranks_of(nodes: int, bus: str) -> list[str]:
    return [
        f"#  Rank {rank:>2} Group  0 Pid {30_000 + rank} on  gpu-{rank // GPUS:02} device "
        f"{rank % GPUS:>2} [{bus}] NVIDIA H100 80GB HBM3"
        for rank in range(nodes * GPUS)
    ]


def version_2_13(name: str, nodes: int) -> list[str]:
    """Does not name its program; a host that lacks memory says so."""
    return [
        *(OPTIONS, "#", "# Using devices", *ranks_of(nodes, "0x1b")),
        "#",
        "# Reducing maxBytes to 2147483648 due to memory limitation",
        *(COLUMNS, *results(name, nodes), ENDING),
    ]


def version_2_17(name: str, nodes: int) -> list[str]:
    """Names versions and program, before and after."""
    return [
        "# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809",
        f"# Collective test starting: {name}_perf",
        *(OPTIONS + " unalign: 0", "#", "# Using devices", *ranks_of(nodes, "0000:1b:00")),
        *(COLUMNS, *results(name, nodes), ENDING),
        f"# Collective test concluded: {name}_perf",
    ]


def plain(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def by_mpirun(lines: list[str]) -> str:
    """All ranks write, and their NCCL warns between the lines; `--tag-output` says who."""
    text = [
        "Warning: Permanently added 'gpu-01' (ED25519) to the list of known hosts.",
        "[1,9]<stderr>:gpu-01:30009:30101 [1] transport/net_ib.cc:1296 NCCL WARN NET/IB : retry",
    ]
    for number, line in enumerate(lines):
        text.append(f"[1,0]<stdout>:{line}")
        if number % 5 == 0:
            text.append(f"[1,{number % 16}]<stdout>:gpu-00:30000:30077 [0] NCCL INFO 16 channels")
    return plain(text)


def by_srun(lines: list[str]) -> str:
    """`srun --label`."""
    return plain([f" 0: {line}" for line in lines] + ["15: gpu-01:30015 [7] NCCL INFO comm done"])


@pytest.mark.parametrize("launched", [plain, by_mpirun, by_srun])
def test_constants_come_back(tmp_path: Path, launched: Callable[[list[str]], str]) -> None:
    """Several files, of both forms of the header; out of place is what counts."""
    texts = {
        "reduce-8.log": version_2_13("all_reduce", 1),
        "gather-8.log": version_2_17("all_gather", 1),
        "gather-16.log": version_2_17("all_gather", 2),
        "reduce-16.log": version_2_13("all_reduce", 2),
    }
    for file, lines in texts.items():
        (tmp_path / file).write_text(launched(lines), encoding="utf-8")
    output = tmp_path / "mine.toml"
    logs = [str(tmp_path / file) for file in texts]
    arguments = ["--operation", "all_reduce", "--constants", CONSTANTS, "-o", str(output)]
    assert main(["calibrate", *logs, *arguments]) == 0
    found = dataclasses.asdict(load_cluster(str(output)).calibration)
    assert found == pytest.approx(dataclasses.asdict(TRUE), rel=0.01)


def test_an_unnamed_operation_has_to_be_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Version 2.13 does not say what it measured; guessing would fit the wrong thing."""
    log = tmp_path / "reduce.log"
    log.write_text(plain(version_2_13("all_reduce", 1)), encoding="utf-8")
    assert main(["calibrate", str(log), "-o", str(tmp_path / "mine.toml")]) == 2
    assert "does not say which operation it is of; give --operation" in capsys.readouterr().err


def test_processes_that_ran_alone_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """nccl-tests built without MPI: every process measures itself, and all write at once."""
    log = tmp_path / "alone.log"
    lines = version_2_17("all_gather", 1)
    log.write_text(plain(lines[:4] + lines), encoding="utf-8")
    assert main(["calibrate", str(log), "-o", str(tmp_path / "mine.toml")]) == 2
    assert "without MPI and every process runs alone" in capsys.readouterr().err

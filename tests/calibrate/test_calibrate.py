"""`phantora calibrate` on logs that are made from known constants."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest
import simpy

from phantora_py.bench.operations import find_operation
from phantora_py.cli import main
from sim_server.cluster import Calibration, load_cluster
from sim_server.collectives import Communication

TRUE = Calibration(
    base_latency=1.3,
    gpu_latency=0.8,
    gpu_efficiency=0.9,
    network_latency=1.5,
    network_efficiency=0.7,
)
FLOAT = 7
SMALL = [1 << power for power in range(10, 15)]
LARGE = [1 << power for power in range(27, 33)]
GPU_CONSTANTS = "base_latency,gpu_latency,gpu_efficiency"


def log_file(
    folder: Path,
    name: str,
    where: tuple[int, int],
    sizes: Sequence[int],
    noise: float = 0.0,
) -> str:
    """What nccl-tests would print on (nodes, GPUs of each) with the true constants.

    `name` is the operation's and what tells the file from others, as all_reduce-8. The noise is the
    same in every run: up, nothing, down.
    """
    (nodes, gpus), operation_name = where, name.partition("-")[0]
    cluster = dataclasses.replace(load_cluster("h100"), calibration=TRUE)
    env = simpy.Environment()
    communication = Communication(env, cluster, nodes, gpus)
    operation, ranks = find_operation(operation_name), nodes * gpus
    lines = [
        f"#  Rank  {rank} Group  0 Pid  1 on node-{rank // gpus} device  {rank % gpus} [0x1b] H100"
        for rank in range(ranks)
    ]
    lines.append(f"# Collective test starting: {operation_name}_perf")
    for index, size_bytes in enumerate(sizes):
        count = operation.count(size_bytes, FLOAT, ranks)
        (launch,) = operation.launches(range(ranks), count, FLOAT, 0)
        start_ns = env.now
        env.run(communication.start(launch))
        time_us = (env.now - start_ns) / 1e3 * math.exp(noise * (index % 3 - 1))
        lines.append(f"{size_bytes} {count} float sum -1 {time_us:.2f} 1.00 1.00 0")
    path = folder / f"{name}.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def in_a_node(folder: Path, noise: float = 0.0) -> list[str]:
    return [
        log_file(folder, f"{name}-{gpus}", (1, gpus), SMALL + LARGE, noise)
        for name in ("all_reduce", "all_gather")
        for gpus in (2, 8)
    ]


def between_nodes(folder: Path, noise: float = 0.0) -> list[str]:
    return [
        log_file(folder, f"{name}-16", (2, 8), SMALL + LARGE, noise)
        for name in ("all_reduce", "alltoall")
    ]


@pytest.mark.parametrize(("noise", "tolerance"), [(0.0, 0.01), (0.03, 0.06)])
def test_known_constants_are_found(tmp_path: Path, noise: float, tolerance: float) -> None:
    """Exact logs give the constants back; logs that scatter by 3 % give them to a few per cent."""
    output = tmp_path / "mine.toml"
    logs = in_a_node(tmp_path, noise) + between_nodes(tmp_path, noise)
    assert main(["calibrate", *logs, "-o", str(output)]) == 0
    found = asdict(load_cluster(str(output)).calibration)
    assert found == pytest.approx(asdict(TRUE), rel=tolerance)


def test_file_says_where_its_constants_come_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Logs with their digests, what they measured, the error that is left, and each uncertainty;
    `phantora bench` takes the file and meets the logs."""
    output = tmp_path / "mine.toml"
    logs = in_a_node(tmp_path)
    arguments = ["--constants", GPU_CONSTANTS, "-o", str(output)]
    assert main(["calibrate", *logs, *arguments]) == 0
    text = output.read_text(encoding="utf-8")
    assert "all_gather-8.log (sha256 " in text
    assert "11 times of all_gather on 1 x 8 GPUs" in text
    assert 'base = "h100"' in text
    assert text.count("# +- ") == 3
    assert "network_latency" not in text
    capsys.readouterr()
    assert main(["bench", "all_reduce", "--cluster", str(output), "--compare", logs[1]]) == 0
    assert "# Median error         : 0." in capsys.readouterr().out


def test_what_bench_prints_can_be_calibrated_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names its operation and ranks as a log does; its times give the model's constants."""
    logs = []
    for ranks in ("2", "8"):
        words = ["--cluster", "h100", "--ranks", ranks, "-b", "1K", "-e", "1G"]
        assert main(["bench", "all_reduce", *words]) == 0
        log = tmp_path / f"{ranks}.log"
        log.write_text(capsys.readouterr().out, encoding="utf-8")
        logs.append(str(log))
    output = tmp_path / "same.toml"
    assert main(["calibrate", *logs, "--constants", GPU_CONSTANTS, "-o", str(output)]) == 0
    found = asdict(load_cluster(str(output)).calibration)
    assert found == pytest.approx(asdict(load_cluster("h100").calibration), rel=0.03)


def test_what_was_fitted_is_told_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One object: the file, each constant with its uncertainty, the error before and after."""
    output = tmp_path / "mine.toml"
    arguments = ["--constants", GPU_CONSTANTS, "-o", str(output), "--json"]
    assert main(["calibrate", *in_a_node(tmp_path), *arguments]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["output"] == str(output)
    assert told["times"] == 4 * len(SMALL + LARGE)
    assert told["median_error"]["after"] < 0.01 < told["median_error"]["before"]
    for name in GPU_CONSTANTS.split(","):
        one = told["constants"].pop(name)
        assert one["value"] == pytest.approx(getattr(TRUE, name), rel=0.02)
        assert 0 < one["uncertainty"] < 0.1
    assert told["constants"] == {}


def test_calibrated_file_can_be_calibrated_again(tmp_path: Path) -> None:
    """The second file starts from the first and keeps what it does not fit."""
    first, second = tmp_path / "first.toml", tmp_path / "second.toml"
    node = ["--constants", GPU_CONSTANTS, "-o", str(first)]
    assert main(["calibrate", *in_a_node(tmp_path), *node]) == 0
    network = ["--constants", "network_latency,network_efficiency", "-o", str(second)]
    logs = between_nodes(tmp_path)
    assert main(["calibrate", *logs, "--cluster", str(first), *network]) == 0
    found = asdict(load_cluster(str(second)).calibration)
    assert found == pytest.approx(asdict(TRUE), rel=0.02)


@pytest.mark.parametrize(
    ("gpus", "sizes", "missing"),
    [
        ([8], SMALL + LARGE, ["base_latency: measure", "gpu_latency: measure"]),
        ([2, 8], SMALL, ["gpu_efficiency: measure 64 MB to 4 GB inside a node"]),
        ([2, 8], LARGE, ["gpu_latency: measure 8 B to 16 KB inside a node, on two"]),
    ],
)
def test_logs_that_leave_a_constant_open_are_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    gpus: list[int],
    sizes: list[int],
    missing: list[str],
) -> None:
    """The message names the constant and what to measure; no file is written."""
    output = tmp_path / "mine.toml"
    logs = [log_file(tmp_path, f"all_gather-{one}", (1, one), sizes) for one in gpus]
    assert main(["calibrate", *logs, "--constants", GPU_CONSTANTS, "-o", str(output)]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "the logs do not determine" in error
    for text in missing:
        assert text in error
    assert not output.exists()


def test_one_node_says_nothing_about_the_network(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By default all constants are wanted; the message says how to do without the network's."""
    output = tmp_path / "mine.toml"
    assert main(["calibrate", *in_a_node(tmp_path), "-o", str(output)]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "network_latency: measure 8 B to 16 KB on two nodes or more" in error
    assert f"--constants {GPU_CONSTANTS}" in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--constants", "base"], "there is no constant 'base'"),
        (["--cluster", "h10"], "did you mean 'h100'?"),
    ],
)
def test_mistakes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    """Exit code 2 and what would be right."""
    log = log_file(tmp_path, "all_gather", (1, 2), SMALL)
    assert main(["calibrate", log, *arguments, "-o", str(tmp_path / "mine.toml")]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_log_of_another_cluster_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Times that no constant explains are a wrong description, and the message says so."""
    log = Path(log_file(tmp_path, "all_gather", (1, 8), LARGE))
    lines = log.read_text(encoding="utf-8").splitlines()
    slow = [
        " ".join([*line.split()[:5], str(float(line.split()[5]) * 50), *line.split()[6:]])
        if line[0].isdigit()
        else line
        for line in lines
    ]
    log.write_text("\n".join(slow), encoding="utf-8")
    arguments = ["--constants", "gpu_efficiency", "-o", str(tmp_path / "mine.toml")]
    assert main(["calibrate", str(log), *arguments]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "gpu_efficiency would have to change by more than a factor of 10" in error

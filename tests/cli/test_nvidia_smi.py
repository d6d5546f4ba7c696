"""`nvidia-smi` inside a rank, and `phantora exec`, which runs one program there."""

import subprocess
import sys
from pathlib import Path

import pytest

LIMIT_S = 300.0
MIXED = """
base = "h100"
name = "mixed"
nodes = 2
[[node_groups]]
nodes = 1
[[node_groups]]
base = "a100"
nodes = 1
"""


def phantora(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "phantora_py", *words],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def smi(directory: Path, *words: str) -> list[str]:
    """The lines that nvidia-smi prints on a node of the H200 cluster."""
    done = phantora(directory, "exec", "--cluster", "h200", "--", "nvidia-smi", *words)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout.splitlines()


def test_queries(tmp_path: Path) -> None:
    """They have NVIDIA's names, units and order; no file and no report is left of the run."""
    fields = "--query-gpu=index,name,memory.total,memory.used,compute_cap,power.draw"
    lines = smi(tmp_path, fields, "--format=csv")
    assert lines[0] == (
        "index, name, memory.total [MiB], memory.used [MiB], compute_cap, power.draw [W]"
    )
    assert lines[8].startswith("7, NVIDIA H200, ")
    assert lines[8].endswith(" MiB, 0 MiB, 9.0, [N/A]")
    assert len(lines) == 9
    assert not list(tmp_path.iterdir())


def test_the_table(tmp_path: Path) -> None:
    """Every line is as wide as NVIDIA's, so that whoever cuts columns out of it finds them."""
    _, *lines = smi(tmp_path)
    assert {len(line) for line in lines if line.strip()} == {91}
    assert sum("NVIDIA H200" in line for line in lines) == 8
    assert "Driver Version: 580" in lines[1]


def test_the_topology(tmp_path: Path) -> None:
    """Each pair of GPUs has all NVLinks of one, by way of the switches."""
    head, *rows = smi(tmp_path, "topo", "-m")
    assert head.split("\t")[1:9] == [f"GPU{gpu}" for gpu in range(8)]
    for gpu, row in enumerate(rows[:8]):
        ways = ["NV18"] * 8
        ways[gpu] = " X "
        assert row.split("\t")[:9] == [f"GPU{gpu}", *ways]


def test_of_several_programs_of_one_rank(tmp_path: Path) -> None:
    """A launch script may ask as often as it likes, before its program has the GPU and after."""
    script = """
        count=$(nvidia-smi -L | grep -c UUID)
        uuid=$(nvidia-smi --query-gpu=uuid --format=csv,noheader -i 3)
        nvidia-smi --query-gpu=index,memory.free --format=csv,noheader,nounits --id=$uuid
        echo $count GPUs
        nvidia-smi --query-compute-apps=pid,used_memory --format=csv
        nvidia-smi --query-gpu=no.such --format=csv || echo exit $?
        nvidia-smi --loop=1 || echo exit $?
    """
    done = phantora(tmp_path, "exec", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        *("3, 81090", "8 GPUs", "pid, used_memory [MiB]", "exit 2", "exit 2"),
    ]
    assert 'the field "no.such" is not known here' in done.stderr
    assert "unrecognized arguments: --loop=1" in done.stderr


def test_of_its_own_node(tmp_path: Path) -> None:
    """In a mixed cluster a rank sees the GPUs of its node."""
    (tmp_path / "mixed.toml").write_text(MIXED)
    script = "nvidia-smi -i $LOCAL_RANK --query-gpu=name --format=csv,noheader"
    options = ["--cluster", "mixed.toml", "--nodes", "2", "--gpus-per-node", "1", "--quiet"]
    done = phantora(tmp_path, "run", *options, "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    names = sorted(line.split("NVIDIA ")[1] for line in done.stdout.splitlines())
    assert names == ["A100-SXM4-80GB", "H100 80GB HBM3"]


def test_a_program_that_fails(tmp_path: Path) -> None:
    """What `phantora exec` runs fails as a rank does."""
    done = phantora(tmp_path, "exec", "--", "sh", "-c", "exit 3")
    assert done.returncode == 4
    assert "Rank 0 ended with exit code 3" in done.stderr


@pytest.mark.torch
def test_what_bug_reports_collect(tmp_path: Path) -> None:
    """PyTorch's own collector finds the simulated GPUs and driver, by a process it starts."""
    done = phantora(tmp_path, "exec", "--", sys.executable, "-m", "torch.utils.collect_env")
    assert done.returncode == 0, done.stderr
    assert "GPU 7: NVIDIA H100 80GB HBM3" in done.stdout
    assert "Nvidia driver version: 580" in done.stdout

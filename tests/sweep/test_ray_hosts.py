"""One run on two nodes of a real Ray cluster: an agent is an actor's process on its node."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from program_on_hosts import MARKS, PROGRAM, check_places

from phantora_py.data import RunData

LIMIT_S = 240
CLUSTER = """
import sys
from ray.cluster_utils import Cluster

node = {"num_cpus": 1, "object_store_memory": 80 << 20}
cluster = Cluster(initialize_head=True, head_node_args=node)
try:
    cluster.add_node(**node)
    print("at", cluster.address, flush=True)
    sys.stdin.read()
finally:
    cluster.shutdown()
"""
FREE = """
import ray

ray.init("auto")
print("free", ray.available_resources().get("CPU", 0))
"""
FOR_EVER = "while True:\n    torch.ones(1, device='cuda').item()\n"

pytestmark = MARKS


@pytest.fixture(scope="module")
def ray() -> Iterator[dict[str, str]]:
    """A cluster of two nodes on this machine; the variables by which it is found. A process of its
    own has it: Ray ends the one that it is in when a cluster is lost.
    """
    pytest.importorskip("ray", reason="needs Ray: pip install 'phantora[ray]'")
    with subprocess.Popen(
        [sys.executable, "-c", CLUSTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as cluster:
        assert cluster.stdout is not None
        address = next(line.split()[1] for line in cluster.stdout if line.startswith("at "))
        yield {"RAY_ADDRESS": address}
        cluster.communicate()


def agents() -> list[int]:
    """Processes of agents that Ray has started, and of what waits for them."""
    found = psutil.process_iter(["pid", "cmdline", "environ"])
    return [
        one.info["pid"]
        for one in found
        if (one.info["cmdline"] or [""])[-1] == "agent"
        and any(name.startswith("RAY_") for name in one.info["environ"] or {})
    ]


def command(hosts: int) -> list[str]:
    """Three ranks on so many of the nodes."""
    words = [sys.executable, "-P", "-m", "phantora_py", "run", "-o", "run.phr", "--quiet"]
    words += ["--engine", "ray", "--hosts", str(hosts), "--listen", "127.0.0.1"]
    words += ["--nodes", "3", "--gpus-per-node", "1", "--", sys.executable, "program.py"]
    return words


def free_processors(ray: dict[str, str]) -> float:
    asked = subprocess.run(
        [sys.executable, "-c", FREE],
        env=os.environ | ray,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(asked.stdout.split("free ")[1])


def run_on(ray: dict[str, str], directory: Path, hosts: int) -> subprocess.CompletedProcess[str]:
    (directory / "program.py").write_text(PROGRAM)
    return subprocess.run(
        command(hosts),
        cwd=directory,
        env=os.environ | ray,
        check=False,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )


def test_a_run_on_two_nodes(ray: dict[str, str], tmp_path: Path) -> None:
    """One data file, and no agent is left."""
    done = run_on(ray, tmp_path, 2)
    assert done.returncode == 0, done.stderr
    check_places(done.stdout)
    assert RunData(tmp_path / "run.phr").run["exit_code"] == 0
    assert not agents()


def test_a_cluster_that_is_too_small(ray: dict[str, str], tmp_path: Path) -> None:
    done = run_on(ray, tmp_path, 3)
    assert done.returncode == 2, done.stderr
    assert "its cluster has 2 nodes and the run is to have 3" in done.stderr


def test_interrupted(ray: dict[str, str], tmp_path: Path) -> None:
    """A run has a processor of each node until its end; nothing is left on either."""
    (tmp_path / "program.py").write_text("import torch\nprint('on', flush=True)\n" + FOR_EVER)
    with subprocess.Popen(
        command(2), cwd=tmp_path, env=os.environ | ray, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        assert "on" in run.stdout.readline()
        assert agents()
        assert free_processors(ray) == 0
        run.send_signal(signal.SIGINT)
        assert run.wait(LIMIT_S) == 130
    assert not agents()
    assert free_processors(ray) == 2

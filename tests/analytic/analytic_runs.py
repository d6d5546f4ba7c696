"""Runs the programs beside on the cluster that `by_hand` describes."""

from __future__ import annotations

from pathlib import Path

from by_hand import CLUSTER
from phantora_runs import Phantora, Run

_PROGRAMS = Path(__file__).parent / "programs"


def run_program(
    directory: Path,
    name: str,
    host_time: str = "off",
    gpus_per_node: int = 2,
    **environment: str,
) -> Run:
    """A program on two nodes, to its end, which is a good one and leaves nothing behind."""
    cluster = directory / "cluster.toml"
    cluster.write_text(CLUSTER)
    layout = ["--nodes", "2", "--gpus-per-node", str(gpus_per_node)]
    runs = Phantora(directory)
    run = runs.run(
        ["--cluster", str(cluster), *layout, "--host-time", host_time],
        [_PROGRAMS / f"{name}.py"],
        environment,
    )
    assert run.exit_code == 0, run.errors
    runs.close()
    return run

"""One run of a command for the sake of what it launches."""

from __future__ import annotations

import argparse

from phantora_py.agent.simulation import error_of
from phantora_py.cli.progress import Progress
from phantora_py.data import RunData
from phantora_py.launch.options import RunOptions
from phantora_py.runs import run as launch
from sim_server import simulation_pb2 as wire


def run_program(options: argparse.Namespace) -> RunData:
    """Runs it with the GPU executor. Raises: PhantoraError if it does not come to its end."""
    prepared = launch.prepare(
        RunOptions(
            command=tuple(options.command),
            cluster=options.cluster,
            ranks=options.ranks,
            nodes=options.nodes,
            gpus_per_node=options.gpus_per_node,
            output=options.output,
            cache=options.cache,
            gpu=True,
            executor=options.executor,
            executor_limit_s=options.limit,
        )
    )
    with Progress(prepared, shown=not options.json) as progress:
        outcome = launch.execute(prepared, progress)
    if outcome.exit_code != 0:
        raise error_of(wire.Failure(exit_code=outcome.exit_code, message=outcome.message))
    return RunData(prepared.output)

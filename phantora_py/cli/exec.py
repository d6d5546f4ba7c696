"""`phantora exec`: runs one program as the only rank of a virtual cluster, and reports nothing."""

import argparse
import tempfile
from pathlib import Path

from phantora_py.cli.progress import Progress
from phantora_py.cli.run import verdict
from phantora_py.launch.options import RunOptions
from phantora_py.runs import run as launch
from sim_server.errors import UsageError

_USAGE = "phantora exec [--cluster NAME|FILE] -- PROGRAM ..."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `phantora exec`; those of the program follow `--`."""
    parser.usage = _USAGE
    parser.add_argument("--cluster", default="h100", metavar="NAME|FILE", help="default: h100")


def run(options: argparse.Namespace) -> int:
    """Runs the program as `phantora run --ranks 1` does. Its data file is not kept."""
    if not options.command:
        raise UsageError(f"No program was given. Usage: {_USAGE}")
    with tempfile.TemporaryDirectory(prefix="phantora-") as directory:
        chosen = RunOptions(
            command=tuple(options.command),
            cluster=options.cluster,
            ranks=1,
            output=Path(directory) / "exec.phr",
            quiet=True,
        )
        prepared = launch.prepare(chosen)
        with Progress(prepared, shown=False) as progress:
            outcome = launch.execute(prepared, progress)
        return verdict(chosen, prepared.output, outcome)

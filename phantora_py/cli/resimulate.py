"""`phantora resimulate`: simulates the recorded streams of a run again, without its ranks."""

import argparse
import json
from pathlib import Path

from phantora_py.agent.simulation import error_of
from phantora_py.cli.messages import error_console
from phantora_py.data import RunData
from phantora_py.report.summary import summarise
from phantora_py.report.terminal import print_summary
from phantora_py.resimulate import resimulate
from sim_server import simulation_pb2 as wire
from sim_server.cluster import load_cluster


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("file", type=Path, help="data file that `phantora run` wrote (.phr)")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="default: beside it, .resimulated.phr"
    )
    parser.add_argument(
        "--cluster", metavar="NAME|FILE", help="another cluster; default: the recorded one"
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.add_argument("--quiet", action="store_true", help="print errors only")


def run(options: argparse.Namespace) -> int:
    """Simulates, writes a data file, prints its summary. Raises: as the run's end was."""
    data = RunData(options.file)
    output = options.output or options.file.with_suffix(".resimulated.phr")
    cluster = None if options.cluster is None else load_cluster(options.cluster)
    outcome = resimulate(data, cluster, output)
    if outcome.exit_code == 0 and options.json:
        print(json.dumps(summarise(RunData(output)), indent=1), flush=True)
    elif outcome.exit_code == 0 and not options.quiet:
        print_summary(output)
    if not (options.quiet or options.json):
        error_console().print(f"Wrote {output}")
        error_console().print(f"Next: phantora report {output}")
    if outcome.exit_code != 0:
        raise error_of(
            wire.Failure(
                exit_code=outcome.exit_code, message=outcome.message, tables=outcome.tables
            )
        )
    return 0

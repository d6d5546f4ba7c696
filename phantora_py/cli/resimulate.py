"""`phantora resimulate`: simulates the recorded streams of a run again, without its ranks."""

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path

from rich.console import Group
from rich.live import Live
from rich.text import Text

from phantora_py.agent.parts import Outcome
from phantora_py.agent.simulation import error_of
from phantora_py.cli.messages import error_console, print_written
from phantora_py.cli.progress import FIRST_SHOWN_S, REFRESHES_PER_S, State
from phantora_py.data import RunData
from phantora_py.report.iterations import find_iterations
from phantora_py.report.summary import summarise
from phantora_py.report.terminal import print_summary
from phantora_py.runs.resimulate import resimulate
from phantora_py.runs.scales import parse_parts
from phantora_py.runs.simulate_trace import simulate_trace
from phantora_py.runs.simulated_file import Watch
from phantora_py.runs.what_if import WhatIf, parse_scales, parse_variables
from phantora_py.text.wrapping import wrapped
from sim_server import simulation_pb2 as wire
from sim_server.cluster import load_cluster
from sim_server.errors import UsageError
from sim_server.simulation import Simulation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "file",
        type=Path,
        help="data file that `phantora run` wrote (.phr), or a folder of "
        "execution traces or of PyTorch's profiler (docs/traces.md), which needs --cluster",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="the data file to write; default: beside the input, with the suffix .resimulated.phr",
    )
    parser.add_argument(
        "--cluster", metavar="NAME|FILE", help="another cluster; default: the recorded one"
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="another value of one of NCCL's environment variables, e.g. NCCL_ALGO=Tree; NAME "
        "alone unsets it; may be repeated",
    )
    parser.add_argument(
        "--host-time",
        choices=["off"],
        help="off: the program's own CPU work takes no virtual time",
    )
    parser.add_argument(
        "--scale-kernel",
        action="append",
        default=[],
        metavar="PATTERN=FACTOR",
        help="multiply the time of kernels whose name or class matches the pattern, e.g. "
        "'flash*=0.8'; may be repeated",
    )
    parser.add_argument(
        "--scale",
        action="append",
        default=[],
        metavar="PART=FACTOR",
        help="multiply the bandwidth of memory, nvlink or nic, the latency of links and "
        "collectives, or the host time, e.g. nic=2 or latency=0.5; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.add_argument("--quiet", action="store_true", help="print errors only")


def run(options: argparse.Namespace) -> int:
    """Simulates, writes a data file, prints its summary. Raises: as the run's end was."""
    if options.file.is_dir():
        return _run_trace(options)
    data = RunData(options.file)
    output = options.output or options.file.with_suffix(".resimulated.phr")
    what_if = WhatIf(
        cluster=None if options.cluster is None else load_cluster(options.cluster),
        environment=parse_variables(options.env),
        host_time_off=options.host_time == "off",
        kernels=parse_scales(options.scale_kernel),
        parts=parse_parts(options.scale),
    )
    watch: Watch = nullcontext
    if not (options.quiet or options.json):
        iterations = len(find_iterations(data).boundaries_ns) or None
        watch = partial(_shown, data.ranks, iterations)
    return _tell(resimulate(data, what_if, output, watch), output, options)


def _run_trace(options: argparse.Namespace) -> int:
    """Likewise of execution traces."""
    if options.cluster is None:
        raise UsageError(f"{options.file}: name the --cluster on which the traces are simulated.")
    if options.env or options.host_time or options.scale_kernel:
        raise UsageError(
            "--env, --host-time and --scale-kernel change a recorded run; of execution traces "
            "only the --cluster can be chosen."
        )
    output = options.output or options.file.with_name(f"{options.file.name}.resimulated.phr")
    outcome = simulate_trace(options.file, load_cluster(options.cluster), output)
    return _tell(outcome, output, options)


def _tell(outcome: Outcome, output: Path, options: argparse.Namespace) -> int:
    if outcome.exit_code == 0 and options.json:
        print(json.dumps(summarise(RunData(output)), indent=1), flush=True)
    elif outcome.exit_code == 0 and not options.quiet:
        print_summary(output)
    if not (options.quiet or options.json):
        print_written(output)
    if outcome.exit_code != 0:
        raise error_of(
            wire.Failure(
                exit_code=outcome.exit_code, message=outcome.message, tables=outcome.tables
            )
        )
    return 0


@contextmanager
def _shown(ranks: int, iterations: int | None, simulation: Simulation) -> Iterator[None]:
    """Shows on a terminal how far the simulation has come."""
    console = error_console()
    if not console.is_terminal:
        yield
        return
    state = State(ranks, iterations)
    state.started = True

    def render() -> Group:
        done, now_ns = simulation.iterations, simulation.virtual_time_ns
        state.update(wire.Progress(iterations=done, virtual_time_ns=now_ns))
        is_early = time.monotonic() - state.start_s < FIRST_SHOWN_S
        return Group(*([] if is_early else wrapped(Text(state.line()), console.width)))

    with Live(
        console=console,
        transient=True,
        get_renderable=render,
        refresh_per_second=REFRESHES_PER_S,
    ):
        yield

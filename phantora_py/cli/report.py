"""`phantora report FILE`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from phantora_py.cli.iteration_option import ITERATION_FORMS, ITERATION_HELP, checked_iteration
from phantora_py.cli.messages import error_console, parse_ranks
from phantora_py.compare.comparison import gpus_of_run
from phantora_py.compare.quantities import (
    check_prices,
    hourly_cost,
    parse_amount,
    parse_prices,
    work_of,
)
from phantora_py.data import RunData
from phantora_py.report.asked import Asked
from phantora_py.report.findings import Findings
from phantora_py.report.listing import print_kernels
from phantora_py.report.sections.sensitivity import Sensitivity
from phantora_py.report.sections.trade import Goal
from phantora_py.report.summary import summarise
from phantora_py.report.terminal import print_summary
from phantora_py.report.throughput import Taken
from phantora_py.text.units import size_text
from sim_server.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("file", type=Path, help="data file that `phantora run` wrote (.phr)")
    view = parser.add_mutually_exclusive_group()
    view.add_argument(
        "--json", action="store_true", help="print the summary as JSON (docs/json.md)"
    )
    view.add_argument(
        "--html", type=Path, metavar="OUT", help="write a page for a browser (docs/report.md)"
    )
    view.add_argument(
        "--trace",
        type=Path,
        metavar="OUT",
        help="write a trace (docs/trace.md): OUT.pftrace for Perfetto, OUT.json.gz for other "
        "viewers; another name is a folder with a file per rank, for Holistic Trace Analysis",
    )
    view.add_argument(
        "--chakra",
        type=Path,
        metavar="DIR",
        help="write execution traces in the format of MLCommons Chakra, a file per rank, or per "
        "class of a folded run (docs/traces.md)",
    )
    view.add_argument(
        "--memory-snapshot",
        type=Path,
        metavar="OUT",
        help="write what PyTorch's memory held at its peak, by module and kind, for "
        "pytorch.org/memory_viz (docs/report.md); of a run with --modules",
    )
    view.add_argument(
        "--kernels",
        action="store_true",
        help="list kernels by class, tier and share of time, the least certain first",
    )
    view.add_argument("--rank", type=int, metavar="N", help="print the output of this rank")
    parser.add_argument(
        "--every-rank",
        action="store_true",
        help="with --chakra, of a folded run: a file per rank, for simulators that know no classes",
    )
    parser.add_argument(
        "--per-iteration",
        action="append",
        default=[],
        metavar="AMOUNT",
        help="the work that all ranks together do in an iteration, if the report does not find it, "
        "e.g. '64x4096 tokens' or '256 samples'; may be given once for each unit",
    )
    parser.add_argument(
        "--sensitivity",
        action="store_true",
        help="also simulate the recorded run again with one part at a time 10%% faster: matrix "
        "products, attention, memory, links, latency, host; takes seconds for each",
    )
    _add_trade(parser)
    parser.add_argument("--iteration", metavar=ITERATION_FORMS, help=ITERATION_HELP)
    parser.add_argument(
        "--trace-ranks", metavar="RANKS", help="with --trace: only these ranks, e.g. 3 or 0,8-15"
    )
    parser.add_argument(
        "--trace-iterations",
        type=int,
        metavar="N",
        help="with --trace: only the last N iterations; default: the whole run",
    )


def _add_trade(parser: argparse.ArgumentParser) -> None:
    goal = parser.add_mutually_exclusive_group()
    goal.add_argument(
        "--tokens",
        metavar="N",
        help="also report time, cost and energy of a training of N tokens, e.g. 2e12",
    )
    goal.add_argument("--samples", metavar="N", help="the same for N samples")
    parser.add_argument(
        "--price",
        action="append",
        default=[],
        metavar="[GPU=]PRICE",
        help="price per GPU-hour, e.g. 2.49, or h100=2.49 for one kind of GPU; may be repeated",
    )
    parser.add_argument(
        "--power", metavar="WATTS", help="the power that a GPU draws, to compute the energy"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the report. Raises: UsageError after that if the file is of a run that broke off."""
    if arguments.trace is None and (arguments.trace_ranks or arguments.trace_iterations):
        raise UsageError("--trace-ranks and --trace-iterations say what --trace OUT is to write.")
    if arguments.chakra is None and arguments.every_rank:
        raise UsageError("--every-rank says of which ranks --chakra DIR is to write files.")
    iteration = checked_iteration(arguments.iteration)
    data = RunData(arguments.file, iteration)
    told = _told(arguments.per_iteration, data.ranks)
    asked = _asked(data, arguments)
    if arguments.trace is not None:
        _write_trace(data, arguments)
    elif arguments.chakra is not None:
        _write_chakra(data, arguments.chakra, arguments.every_rank)
    elif arguments.memory_snapshot is not None:
        _write_snapshot(data, arguments.memory_snapshot)
    elif arguments.rank is not None:
        _print_log(data, arguments.rank)
    elif arguments.json:
        print(json.dumps(summarise(data, Findings(data, told, asked)), indent=1))
    elif arguments.kernels:
        print_kernels(data)
    elif arguments.html is not None:
        _write_page(data, arguments.html, told, asked)
    else:
        print_summary(arguments.file, iteration=iteration, told=told, asked=asked)
    if data.broke_off:
        raise UsageError(
            f"{arguments.file} is not complete: phantora was killed before the run ended, so that "
            "this is what it had written by then. Run the command again for the whole."
        )
    return 0


def _told(texts: Sequence[str], ranks: int) -> dict[str, Taken]:
    """By unit. Raises: UsageError for an amount of something else, or told twice."""
    told: dict[str, Taken] = {}
    for text in texts:
        work = work_of(text)
        if work.unit not in ("samples", "tokens") or work.unit in told:
            raise UsageError(
                f"--per-iteration {text!r}: a report has samples and tokens, each told once; "
                "`phantora compare` takes any unit."
            )
        told[work.unit] = Taken(work.amount, tuple(range(ranks)), True, "told")
    return told


def _asked(data: RunData, arguments: argparse.Namespace) -> Asked:
    """Raises: UsageError for what the chosen view does not show, or the run does not allow."""
    goal = _goal(data, arguments)
    others = (arguments.trace, arguments.rank, arguments.memory_snapshot)
    is_other_view = arguments.kernels or any(one is not None for one in others)
    if is_other_view and (arguments.sensitivity or goal is not None):
        option = "--sensitivity" if arguments.sensitivity else "an amount, a price or a power"
        raise UsageError(f"{option} goes with the report itself, --json or --html.")
    return Asked(_sensitivity(data) if arguments.sensitivity else None, goal)


def _goal(data: RunData, arguments: argparse.Namespace) -> Goal | None:
    """Raises: UsageError for amounts and prices that are none."""
    unit = "tokens" if arguments.tokens is not None else "samples"
    text = arguments.tokens if arguments.tokens is not None else arguments.samples
    if text is None and not arguments.price and arguments.power is None:
        return None
    gpus = gpus_of_run(data.run)
    prices = parse_prices(arguments.price)
    check_prices(prices, gpus)
    per_hour = hourly_cost(prices, gpus)
    if arguments.price and per_hour is None:
        missing = next(gpu for gpu in gpus if prices.of(gpu) is None)
        raise UsageError(f"--price: the run has {missing}, too; give its price, as {missing}=2.49.")
    return Goal(
        unit=unit if text is not None else None,
        amount=parse_amount(f"--{unit}", text) if text is not None else 0.0,
        price_per_hour=per_hour,
        power_w=None if arguments.power is None else parse_amount("--power", arguments.power),
    )


def _sensitivity(data: RunData) -> Sensitivity:
    from phantora_py.advice.sensitivity import find_sensitivity  # noqa: PLC0415 - seldom needed

    console = error_console()

    def tell(name: str) -> None:
        if console.is_terminal:
            console.print(f"simulating again: {name}")

    return find_sensitivity(data, tell)


def _write_page(data: RunData, path: Path, told: Mapping[str, Taken], asked: Asked) -> None:
    # The template engine need not be imported for the other views.
    from phantora_py.report.page.render import write_page  # noqa: PLC0415

    print(f"Wrote {path} ({size_text(write_page(data, path, told, asked))})")


def _write_trace(data: RunData, arguments: argparse.Namespace) -> None:
    from phantora_py.report.trace.write import write_trace  # noqa: PLC0415 - as above

    ranks = None if arguments.trace_ranks is None else parse_ranks(arguments.trace_ranks)
    files = write_trace(data, arguments.trace, ranks, arguments.trace_iterations)
    size = size_text(sum(file.stat().st_size for file in files))
    several = f"{len(files)} files, " if len(files) > 1 else ""
    print(f"Wrote {arguments.trace} ({several}{size})")


def _write_chakra(data: RunData, directory: Path, every_rank: bool) -> None:
    from phantora_py.traces.chakra import write_chakra  # noqa: PLC0415 - as above

    files = write_chakra(data, directory, every_rank=every_rank)
    size = size_text(sum(file.stat().st_size for file in files))
    print(f"Wrote {directory} ({len(files)} files, {size})")


def _write_snapshot(data: RunData, path: Path) -> None:
    from phantora_py.report.memory_snapshot import write_snapshot  # noqa: PLC0415 - as above

    print(f"Wrote {path} ({size_text(write_snapshot(data, path))})")


def _print_log(data: RunData, rank: int) -> None:
    """What a rank has printed, where it was shown too; empty if it had the terminal for itself.

    Raises: UsageError for a rank that there is not.
    """
    if not 0 <= rank < data.ranks:
        raise UsageError(f"--rank {rank}: the run has ranks 0 to {data.ranks - 1}.")
    for stream, text in data.log(rank).items():
        file = sys.stderr if stream == "stderr" else sys.stdout
        file.buffer.write(text)
        file.flush()

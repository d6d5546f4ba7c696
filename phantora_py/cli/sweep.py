"""`phantora sweep FILE.toml -- COMMAND`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from phantora_py.cli.compare import add_comparing_arguments
from phantora_py.cli.iteration_option import checked_iteration
from phantora_py.cli.messages import error_console
from phantora_py.compare.comparison import SCHEMA, compare, read_configuration, shortened
from phantora_py.compare.fastest import fastest_text, find_fastest
from phantora_py.compare.figures import front_text
from phantora_py.compare.json_types import (
    Comparison,
    SweepComparison,
    SweptRun,
    WithoutData,
)
from phantora_py.compare.quantities import Prices, Work, check_prices, parse_prices, parse_work
from phantora_py.compare.terminal import print_figures
from phantora_py.launch import fork_servers
from phantora_py.sweep.drawing import write_drawing
from phantora_py.sweep.engines import ENGINES
from phantora_py.sweep.pareto import costs_of, front
from phantora_py.sweep.plan import Configuration, read_plan
from phantora_py.sweep.results import Result, Results, gpus_of
from phantora_py.sweep.runner import run_all
from phantora_py.text.consoles import plain_console
from sim_server.errors import RankFailed, UsageError
from sim_server.files.output_file import require_output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options; the command with its placeholders follows `--`."""
    parser.usage = "phantora sweep [OPTIONS] FILE -- COMMAND WITH {PLACEHOLDERS}"
    parser.add_argument("file", type=Path, metavar="FILE", help="the configurations (.toml)")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="folder for data files and results; a run whose result with the same inputs is there "
        "is not repeated; default: named after FILE, in the working directory",
    )
    parser.add_argument(
        "--engine",
        choices=list(ENGINES),
        default="local",
        help="where to run: on this machine, as array jobs of Slurm, or as tasks of Ray; default: "
        "local",
    )
    parser.add_argument(
        "--jobs",
        default="auto",
        metavar="auto|N",
        help="how many runs at a time; auto: as many as processors and memory allow, or as Slurm "
        "or Ray decides; default: auto",
    )
    parser.add_argument(
        "--svg", type=Path, metavar="FILE", help="also plot time against memory, as SVG"
    )
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="also write a page for a browser: the table, bars of the iterations, what failed",
    )
    parser.add_argument("--retry", action="store_true", help="repeat runs that failed before")
    add_comparing_arguments(parser)
    parser.add_argument(
        "--json", action="store_true", help="print the comparison as JSON (docs/json.md)"
    )
    parser.add_argument("--quiet", action="store_true", help="print errors only")


def run(options: argparse.Namespace) -> int:
    """Runs and compares. Raises: UsageError before anything is run; RankFailed if none finished."""
    if not options.command:
        raise UsageError("There is no command. It follows a '--', with {placeholders} in it.")
    plan = read_plan(options.file, options.command)
    jobs = _jobs(options.jobs, plan)
    works = _works(options.per_iteration, plan)
    prices = parse_prices(options.price)
    check_prices(prices, gpus_of(plan))
    iteration = checked_iteration(options.iteration)
    if options.svg is not None:
        require_output(options.svg, "--svg", [options.file])
    if options.html is not None:
        require_output(options.html, "--html", [options.file])
        if options.svg is not None and options.html.resolve() == options.svg.resolve():
            raise UsageError(f"--html and --svg are both {options.html}. Name another file.")
    results = Results(options.output or Path(f"{options.file.stem}.sweep"))
    speaks = not (options.quiet or options.json)

    def tell(number: int, result: Result | None) -> None:
        if speaks:
            told = f"{plan[number].name}   runs" if result is None else _told(result)
            error_console().print(Text(f"[{number + 1}/{len(plan)}] {told}"))

    engine = ENGINES[options.engine](results, jobs)
    with fork_servers.offered():
        ended = run_all(plan, results, engine, options.retry, tell)
    comparison = _compare(plan, ended, works, prices, iteration)
    finished = any(costs_of(one) is not None for one in comparison["runs"])
    if options.json:
        print(json.dumps(comparison, indent=1, default=str), flush=True)
    elif not options.quiet:
        _print(comparison)
    if options.svg is not None and finished:
        write_drawing(options.svg, comparison["runs"])
    if options.html is not None:
        _write_page(options, comparison, ended)
    if not any(result.exit_code == 0 for result in ended):
        raise RankFailed("No configuration finished.", f"What each said: {results.directory}.")
    return 0


def _jobs(text: str, plan: Sequence[Configuration]) -> int | None:
    """How many at a time; None: as many as there is room for."""
    if text == "auto":
        # Runs beside each other would find each other's load in their host time.
        return 1 if any(one.run.get("host-time") == "measured" for one in plan) else None
    if not text.isdecimal() or int(text) < 1:
        raise UsageError("--jobs takes a number of at least 1, or auto.")
    return int(text)


def _works(texts: Sequence[str], plan: Sequence[Configuration]) -> list[Work | None]:
    """What an iteration of each gets through; placeholders are the configuration's."""
    if len(texts) > 1:
        raise UsageError("--per-iteration is given once; it may have {placeholders}.")
    return parse_work(
        [one.fill(text, "--per-iteration") for one in plan for text in texts], len(plan)
    )


def _told(result: Result) -> str:
    end = "out of memory" if result.out_of_memory else f"exit code {result.exit_code}"
    end = f"{end}: {shortened(result.message)}" if result.exit_code else "finished"
    when = "before" if result.cached else f"in {result.wall_s:.1f} s"
    return f"{result.name}   {end}   ({when}; {result.data or 'no data file'})"


def _compare(
    plan: Sequence[Configuration],
    ended: Sequence[Result],
    works: Sequence[Work | None],
    prices: Prices,
    iteration: str | None,
) -> SweepComparison:
    """The comparison with the first that finished; what left no data file stands apart."""
    numbers = [number for number, result in enumerate(ended) if result.data is not None]
    numbers.sort(key=lambda number: ended[number].exit_code != 0)
    runs = [
        read_configuration(data, ended[number].name, works[number], iteration)
        for number in numbers
        if (data := ended[number].data) is not None
    ]
    comparison: Comparison = {"schema": SCHEMA, "runs": [], "changes": [], "notes": []}
    if runs:
        comparison = compare(runs, prices)
    marks = front([costs_of(one) for one in comparison["runs"]])
    swept: list[SweptRun] = [
        {
            **one,
            "pareto": mark,
            "file": str(ended[number].data),
            "values": dict(plan[number].values),
        }
        for one, number, mark in zip(comparison["runs"], numbers, marks, strict=True)
    ]
    return {
        "schema": comparison["schema"],
        "runs": swept,
        "fastest": find_fastest(runs, comparison["runs"]),
        "changes": comparison["changes"],
        "notes": comparison["notes"],
        "without_data": [_without_data(one) for one in ended if one.data is None],
    }


def _without_data(one: Result) -> WithoutData:
    return {
        "name": one.name,
        "exit_code": one.exit_code,
        "message": one.message,
        "out_of_memory": one.out_of_memory,
        "wall_s": one.wall_s,
        "cached": one.cached,
    }


def _write_page(
    options: argparse.Namespace, comparison: SweepComparison, ended: Sequence[Result]
) -> None:
    # The template engine need not be imported without a page.
    from phantora_py.compare.sweep_page import make_sweep_page  # noqa: PLC0415
    from phantora_py.report.page.template import write  # noqa: PLC0415

    write(
        options.html,
        lambda: make_sweep_page(comparison, ended, options.file.name, options.command),
        [options.file],
    )


def _print(comparison: SweepComparison) -> None:
    console = plain_console()
    if comparison["runs"]:
        print_figures(comparison, console)
        if marks := front_text(comparison["runs"]):
            console.print(marks)
    for one in comparison["without_data"]:
        console.print(Text(f"{one['name']}: exit code {one['exit_code']}: {one['message']}"))
    if comparison["fastest"]:
        console.print(Text(fastest_text(comparison["fastest"])))

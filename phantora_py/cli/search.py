"""`phantora search FILE.toml -- COMMAND WITH {PLACEHOLDERS}`."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.text import Text

from phantora_py.advice.json_types import Candidate, Search, Stage
from phantora_py.advice.search import search
from phantora_py.advice.space import read_space
from phantora_py.cli.messages import error_console
from phantora_py.compare.fastest import fastest_text
from phantora_py.compare.figures import collective_text, kernel_text, signed_text
from phantora_py.compare.json_types import Changes
from phantora_py.launch import fork_servers
from phantora_py.sweep.engines import ENGINES
from phantora_py.sweep.plan import Configuration, option_words
from phantora_py.sweep.results import Result, Results
from phantora_py.sweep.runner import run_all
from phantora_py.text.consoles import plain_console
from phantora_py.text.units import duration_text, size_text
from phantora_py.text.wrapping import print_lines
from sim_server.errors import UsageError

# Reasons that are shown; the JSON has all (assumed to be enough to look at).
_MOST_REASONS = 3
_JOBS = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options; the command with its placeholders follows `--`."""
    parser.usage = "phantora search [OPTIONS] FILE -- COMMAND WITH {PLACEHOLDERS}"
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="the configurations to search (.toml, docs/deciding.md)",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="folder for data files and results; may be that of a sweep, whose results are then "
        "used; default: named after FILE, in the working directory",
    )
    parser.add_argument(
        "--engine", choices=list(ENGINES), default="local", help="where to run, as for a sweep"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=_JOBS,
        metavar="N",
        help=f"how many are chosen and run at a time; default: {_JOBS}. What is chosen at a time "
        "does not know of each other, so that more of them run",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the result as JSON (docs/json.md)"
    )
    parser.add_argument("--quiet", action="store_true", help="print errors only")


def run(options: argparse.Namespace) -> int:
    """Searches and tells. Raises: UsageError before anything is run."""
    if not options.command:
        raise UsageError("There is no command. It follows a '--', with {placeholders} in it.")
    if options.jobs < 1:
        raise UsageError(f"--jobs {options.jobs} runs nothing; write 1 or more.")
    space = read_space(options.file, options.command)
    results = Results(options.output or Path(f"{options.file.stem}.sweep"))
    speaks = not (options.quiet or options.json)
    engine = ENGINES[options.engine](results, options.jobs)

    def run_them(plan: Sequence[Configuration]) -> list[Result]:
        return run_all(plan, results, engine, retry=False, tell=lambda *_: None)

    def tell(text: str) -> None:
        if speaks:
            error_console().print(Text(text))

    with fork_servers.offered():
        found = search(space, run_them, tell, options.jobs)
    if options.json:
        print(json.dumps(found, indent=1, default=str), flush=True)
    elif not options.quiet:
        print_lines(map(Text, lines(found)), plain_console(soft_wrap=True))
    return 0


def lines(found: Search) -> Iterator[str]:
    """On a terminal."""
    kept = f"{found['configurations']} configurations"
    if found["left_out"]:
        kept += f", {found['left_out']} more do not keep to the constraints"
    yield f"Objective: {found['objective']}   {kept}"
    runs = "   ".join(f"{one['name']}: {one['runs']} runs, {_cost(one)}" for one in found["stages"])
    yield f"  {runs}   ended: {found['ended']}"
    yield "The best first (* no other is better in time, peak memory and GPUs)"
    width = max(len(one["name"]) for one in found["ranking"])
    for one in found["ranking"]:
        yield _candidate(one, width)
    for lost in found["did_not_run"]:
        yield f"  not: {lost['name']}: {lost['why']}"
    if others := found["configurations"] - len(found["ranking"]) - len(found["did_not_run"]):
        yield f"  {others} others were not run, or with cheap values only; the next may be of these"
    if found["fastest"]:
        is_best = found["fastest"]["name"] == found["ranking"][0]["name"]
        yield ("" if is_best else "By time alone: ") + fastest_text(found["fastest"])
    if found["why"] is not None:
        yield from _why(found["why"], *found["ranking"][:2])
    variables = "".join(f"{name}={value} " for name, value in found["environment"].items())
    chosen = shlex.join(option_words(found["run_options"]))
    yield f"Run it: {variables}phantora run {chosen} -- {shlex.join(found['command'])}"


def _cost(stage: Stage) -> str:
    if stage["cpu_s"] is None:
        return f"{stage['wall_s']:.0f} s"
    return f"{stage['wall_s']:.0f} s ({stage['cpu_s']:.0f} s of processors)"


def _candidate(one: Candidate, width: int) -> str:
    figures = one["figures"]
    parts = [f"  {'*' if one['pareto'] else ' '} {one['name']:<{width}}   {one['value']:#.4g}"]
    if figures["iteration"]:
        parts.append(f"iteration {duration_text(figures['iteration']['median_ns'])}")
    if figures["peak_memory_bytes"] is not None:
        parts.append(f"peak {size_text(figures['peak_memory_bytes'])}")
    if not one["in_full"]:
        parts.append("(by its cheap run)")
    return "   ".join(parts)


def _why(why: Changes, best: Candidate, second: Candidate) -> Iterator[str]:
    """What changed most from the second to the best, of an iteration and rank."""
    works = [one["figures"]["throughput"] for one in (best, second)]
    done = [one["per_iteration"] if one else 1.0 for one in works]
    more = f", for {done[0] / done[1]:.3g} times the work" if done[0] != done[1] else ""
    yield f"Why it is better than {second['name']}: an iteration of a rank{more}"
    reasons = [
        (
            kernels["this"]["time_ns"] - kernels["first"]["time_ns"],
            f"{kernels['class']}: {kernel_text(kernels['first'])} -> "
            f"{kernel_text(kernels['this'])}",
        )
        for kernels in why["kernel_classes"]
    ]
    reasons += [
        (
            one["this"]["moving_ns"] - one["first"]["moving_ns"],
            f"{one['kind']}, {one['participants']}: {collective_text(one['first'])} -> "
            f"{collective_text(one['this'])}",
        )
        for one in why["collectives"]
    ]
    reasons.sort(key=lambda one: -abs(one[0]))
    for change_ns, text in reasons[:_MOST_REASONS]:
        yield f"  {signed_text(change_ns):>10}   {text}"

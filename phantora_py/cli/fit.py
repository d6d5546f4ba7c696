"""`phantora fit --flag FLAG -- COMMAND`."""

from __future__ import annotations

import argparse
import json
import os
import shlex
from pathlib import Path

from rich.markup import escape
from rich.text import Text

from phantora_py.advice.fit import fit, run_one, value_of, ways
from phantora_py.advice.json_types import Fit, Fitted
from phantora_py.cli.messages import error_console
from phantora_py.launch import fork_servers
from phantora_py.report.sections.memory import kind_sizes
from phantora_py.sweep.engines.local import LocalEngine
from phantora_py.sweep.plan import RUN_FLAGS, RUN_OPTIONS
from phantora_py.sweep.results import Results
from phantora_py.text.consoles import marked, plain_console
from phantora_py.text.units import amount_text, duration_text, size_text
from phantora_py.text.wrapping import print_lines
from sim_server.errors import UsageError

OPTION_VALUES = ("--flag", "--try")
"""Options whose value is an option of another program."""
_MOST = 65_536


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.usage = "phantora fit --flag FLAG [OPTIONS] -- COMMAND"
    parser.add_argument(
        "--flag",
        metavar="FLAG",
        help="the command's option whose largest value is sought, e.g. --batch-size",
    )
    parser.add_argument(
        "--try",
        dest="tries",
        action="append",
        default=[],
        metavar="WORDS",
        help="words of the command that may save memory, e.g. --checkpoint; `fit` tries each; may "
        "be repeated",
    )
    parser.add_argument(
        "--most",
        type=int,
        default=_MOST,
        metavar="N",
        help=f"try no larger value; default: {_MOST}",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="folder for data files and results; a run whose result is there is not repeated; "
        "default: phantora.fit",
    )
    parser.add_argument(
        "--json", action="store_true", help="print the result as JSON (docs/json.md)"
    )
    parser.add_argument("--quiet", action="store_true", help="print errors only")
    group = parser.add_argument_group("options of phantora run")
    for name in RUN_OPTIONS:
        if name not in RUN_FLAGS:
            group.add_argument(f"--{name}", metavar="VALUE", help="see phantora run --help")


def run(options: argparse.Namespace) -> int:
    """Tries and tells. Raises: UsageError before anything is run."""
    if not options.command:
        raise UsageError("There is no command. It follows a '--'.")
    if options.flag is None:
        raise UsageError("--flag is missing: which option of the command is to be large?")
    if options.most < 1:
        raise UsageError("--most takes a number of at least 1.")
    value_of(options.command, options.flag)
    given = {name: getattr(options, name.replace("-", "_"), None) for name in RUN_OPTIONS}
    of_run = {name: value for name, value in given.items() if isinstance(value, str)}
    of_run |= {"until-steady": "true", "memory-kinds": "true"}
    results = Results(options.output or Path("phantora.fit"))

    speaks = not (options.quiet or options.json)
    with fork_servers.offered():
        found = fit(
            options.command,
            options.flag,
            found_ways=ways(options.tries, os.environ),
            options=of_run,
            most=options.most,
            run=run_one(results, LocalEngine(results, 1)),
            tell=lambda text: error_console().print(Text(text)) if speaks else None,
        )
    if options.json:
        print(json.dumps(found, indent=1), flush=True)
    elif not options.quiet:
        print_lines(map(marked, lines(found)), plain_console(soft_wrap=True))
    return 0


def lines(found: Fit) -> list[str]:
    """On a terminal, as rich markup."""
    said = [f"Largest {escape(found['flag'])} on GPUs of {size_text(found['capacity_bytes'])}"]
    for one in found["tried"]:
        said += _lines_of(one)
    best = next((one for one in found["tried"] if one["name"] == found["best"]), None)
    if best is not None:
        variables = "".join(f"{name}={value} " for name, value in best["environment"].items())
        command = f"{variables}{shlex.join(best['command'])}"
        said.append(f"Fastest of these: {escape(best['name'])}   {escape(command)}")
    return said


def _lines_of(one: Fitted) -> list[str]:
    name = escape(one["name"])
    if one["largest"] is None or one["peak_bytes"] is None:
        said = [f"  [bold]{name}[/]   not even 1 fits"]
    else:
        line = f"  [bold]{name}[/]   {one['largest']:,}   peak {size_text(one['peak_bytes'])}"
        if one["iteration_ns"]:
            rate = one["largest"] / one["iteration_ns"] * 1e9
            line += f"   iteration {duration_text(one['iteration_ns'])}"
            line += f"   {amount_text(rate)} a second and rank"
        said = [line]
    if one["kinds"] is not None:
        parts = (f"{kind} {size_text(size)}" for kind, size in kind_sizes(one["kinds"]))
        said.append(f"    at its peak   {'   '.join(parts)}")
    if (refusal := one["refusal"]) is not None:
        end = "fits with retries only" if refusal["went_on"] else "does not fit"
        said.append(
            f"    {refusal['value']:,} {end}: rank {refusal['rank']} asked for "
            f"{size_text(refusal['asked_bytes'])} at {escape(refusal['site'])}"
        )
    return said

"""`phantora compare A B ...`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from phantora_py.cli.iteration_option import ITERATION_FORMS, ITERATION_HELP, checked_iteration
from phantora_py.compare.comparison import compare, names_of, read_configuration
from phantora_py.compare.gates import judge, require
from phantora_py.compare.json_types import JudgedComparison
from phantora_py.compare.markdown import markdown
from phantora_py.compare.quantities import check_prices, parse_gate, parse_prices, parse_work
from phantora_py.compare.terminal import print_comparison
from phantora_py.text.units import size_text
from sim_server.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "files", type=Path, nargs="+", metavar="FILE", help="data files; the first is the baseline"
    )
    add_comparing_arguments(parser)
    parser.add_argument(
        "--gate",
        action="append",
        default=[],
        metavar="GATE",
        help="fail with exit code 6 if a figure of a run, divided by the first run's, is above a "
        "limit, e.g. 'iteration_time<=1.02'; also exposed_communication, waiting_for_ranks, "
        "peak_memory; may be repeated",
    )
    view = parser.add_mutually_exclusive_group()
    view.add_argument(
        "--json", action="store_true", help="print the comparison as JSON (docs/json.md)"
    )
    view.add_argument(
        "--html", type=Path, metavar="OUT", help="write a page for a browser (docs/compare.md)"
    )
    view.add_argument(
        "--markdown",
        action="store_true",
        help="print the figures and gates as Markdown tables, for a pull request, say",
    )


def add_comparing_arguments(parser: argparse.ArgumentParser) -> None:
    """What the figures cannot tell by themselves; `phantora sweep` asks for the same."""
    parser.add_argument(
        "--per-iteration",
        action="append",
        default=[],
        metavar="AMOUNT",
        help="the work that all ranks together do in an iteration, e.g. '64x4096 tokens' or '256 "
        "samples'; give it once for all runs, or once for each run in their order",
    )
    parser.add_argument(
        "--price",
        action="append",
        default=[],
        metavar="PRICE",
        help="price per GPU-hour, e.g. 2.49, or h100=2.49 for one kind of GPU; may be repeated",
    )
    parser.add_argument("--iteration", metavar=ITERATION_FORMS, help=ITERATION_HELP)


def run(options: argparse.Namespace) -> int:
    """Prints the comparison. Raises: GateFailed after that."""
    if len(options.files) < 2:
        raise UsageError("compare takes two data files or more; `phantora report` shows one.")
    works = parse_work(options.per_iteration, len(options.files))
    prices = parse_prices(options.price)
    iteration = checked_iteration(options.iteration)
    gates = [parse_gate(text) for text in options.gate]
    runs = [
        read_configuration(path, name, work, iteration)
        for path, name, work in zip(options.files, names_of(options.files), works, strict=True)
    ]
    check_prices(prices, [gpu for one in runs for gpu in one.gpus])
    compared = compare(runs, prices)
    comparison: JudgedComparison = {**compared, "gates": judge(compared, gates)}
    if options.json:
        print(json.dumps(comparison, indent=1), flush=True)
    elif options.markdown:
        print(markdown(comparison), end="", flush=True)
    elif options.html is not None:
        _write_page(comparison, options.html, options.files)
    else:
        print_comparison(comparison)
    require(comparison)
    return 0


def _write_page(comparison: JudgedComparison, path: Path, files: Sequence[Path]) -> None:
    # The template engine need not be imported for the other views.
    from phantora_py.compare.page import make_comparison_page  # noqa: PLC0415
    from phantora_py.report.page.template import write  # noqa: PLC0415

    size_bytes = write(path, lambda: make_comparison_page(comparison), files)
    print(f"Wrote {path} ({size_text(size_bytes)})", flush=True)

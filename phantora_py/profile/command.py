"""`phantora profile`: measures on this machine's GPU what a cache lacks."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from phantora_py.cli.messages import error_console
from phantora_py.data import RunData
from phantora_py.launch.module import module_command
from phantora_py.profile.executor import ANSWER_LIMIT_S, Executor, Refused
from phantora_py.profile.needs import signatures_of
from phantora_py.profile.suite import suite
from sim_server.errors import UsageError
from sim_server.timing_cache import Damaged, TimingCache, put_away
from sim_server.timing_cache.entry import signature_key

_MOST_REASONS = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "runs", type=Path, nargs="*", metavar="RUN", help="data files: what these runs launch"
    )
    parser.add_argument(
        "--suite", action="store_true", help="products and attention of common models"
    )
    parser.add_argument("--cache", type=Path, required=True, metavar="FILE", help="is made if new")
    parser.add_argument(
        "--executor",
        metavar="COMMAND",
        help="what measures, see phantora_py/profile/executor.py; default: PyTorch on this GPU",
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=ANSWER_LIMIT_S,
        metavar="SECONDS",
        help="for one signature; default: %(default)g",
    )


def run(options: argparse.Namespace) -> int:
    """Measures. Raises: UsageError if nothing could be measured."""
    if not options.runs and not options.suite:
        raise UsageError("profile needs data files of runs, or --suite.")
    wanted = {signature_key(one): one for one in _wanted(options)}
    command = shlex.split(options.executor) if options.executor else _own_executor()
    try:
        with (
            Executor(command, shlex.join(["phantora", *sys.argv[1:]]), options.limit) as executor,
            TimingCache(options.cache, write=True) as cache,
        ):
            _measure(executor, cache, wanted)
    except Damaged as error:
        raise put_away(options.cache, error) from error
    return 0


def _own_executor() -> list[str]:
    return list(module_command("phantora_py.profile.torch_executor"))


def _wanted(options: argparse.Namespace) -> Iterator[Mapping[str, Any]]:
    if options.suite:
        yield from suite()
    for path in options.runs:
        yield from signatures_of(RunData(path))


def _measure(
    executor: Executor, cache: TimingCache, wanted: Mapping[str, Mapping[str, Any]]
) -> None:
    """What is there already, for this environment, is not measured again. Every measurement is
    kept at once, so that an interruption costs one.
    """
    environment = executor.environment
    known = {one.key for where, one in cache.measurements(environment.gpu) if where == environment}
    lacking = [one for key, one in wanted.items() if key not in known]
    refusals: Counter[str] = Counter()
    for signature in lacking:
        try:
            measurement = executor.measure(signature)
        except Refused as refusal:
            refusals[str(refusal)] += 1
            continue
        cache.add([(environment, measurement)])
    measured = len(lacking) - refusals.total()
    print(
        f"{environment.gpu}, CUDA {environment.cuda}: {measured:,} measured, "
        f"{len(wanted) - len(lacking):,} known already, {refusals.total():,} refused"
    )
    for reason, count in refusals.most_common(_MOST_REASONS):
        error_console().print(f"  refused {count:,} x: {reason}")
    if lacking and not measured:
        raise UsageError("nothing could be measured; what was refused, and why, is above.")

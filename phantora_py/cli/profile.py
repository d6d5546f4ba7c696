"""`phantora profile`: measures on this machine's GPU what a cache lacks."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from phantora_py.cli.messages import error_console
from phantora_py.cli.profiled_program import run_program
from phantora_py.data import RunData
from phantora_py.launch.gpu import executor_command
from phantora_py.profile.needs import signatures_of
from phantora_py.profile.suite import suite
from sim_server.errors import UsageError
from sim_server.gpu import load_gpu
from sim_server.kernels import KernelTimer
from sim_server.kernels.measuring import told_again
from sim_server.processes.executor import ANSWER_LIMIT_S, Broke, Executor, Refused
from sim_server.timing_cache import Damaged, TimingCache, put_away
from sim_server.timing_cache.entry import signature_key

_MOST_REASONS = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options; those of the command follow `--`."""
    parser.usage = (
        "phantora profile --cache FILE [OPTIONS] RUN ... | --suite\n"
        "       phantora profile --cache FILE [OPTIONS] -- COMMAND ..."
    )
    parser.add_argument(
        "runs",
        type=Path,
        nargs="*",
        metavar="RUN",
        help="data files; the library calls of these runs are measured",
    )
    parser.add_argument(
        "--suite",
        action="store_true",
        help="measure matrix products and attention of common models",
    )
    parser.add_argument(
        "--cache", type=Path, required=True, metavar="FILE", help="the cache; made if new"
    )
    parser.add_argument(
        "--executor",
        metavar="COMMAND",
        help="the command that measures (sim_server/processes/executor.py says how it is called); "
        "default: PyTorch on this GPU",
    )
    parser.add_argument(
        "--limit",
        type=float,
        default=ANSWER_LIMIT_S,
        metavar="SECONDS",
        help="time limit for one signature; default: %(default)g",
    )
    parser.add_argument(
        "--json", action="store_true", help="print what was measured as JSON (docs/json.md)"
    )
    command = parser.add_argument_group("a command, which is run once for what it launches")
    command.add_argument("--cluster", default="h100", metavar="NAME|FILE", help="default: h100")
    command.add_argument("--ranks", type=int, metavar="N", help="number of ranks")
    command.add_argument("--nodes", type=int, metavar="N", help="number of nodes to use")
    command.add_argument(
        "--gpus-per-node", type=int, metavar="N", help="number of GPUs to use on each node"
    )
    command.add_argument("-o", "--output", type=Path, metavar="FILE", help="the data file (.phr)")


def run(options: argparse.Namespace) -> int:
    """Measures. Raises: UsageError if nothing could be measured."""
    sources = bool(options.runs) + options.suite + bool(options.command)
    if sources == 0:
        raise UsageError("profile needs data files of runs, --suite, or a command after '--'.")
    if options.command:
        if sources > 1:
            raise UsageError("profile runs a command, or it measures for data files and --suite.")
        return _profile_program(options)
    wanted = {signature_key(one): one for one in _wanted(options)}
    command = shlex.split(options.executor) if options.executor else executor_command()
    try:
        with (
            Executor(command, shlex.join(["phantora", *sys.argv[1:]]), options.limit) as executor,
            TimingCache(options.cache, write=True) as cache,
        ):
            _measure(options, executor, cache, wanted)
    except Damaged as error:
        raise put_away(options.cache, error) from error
    return 0


def _profile_program(options: argparse.Namespace) -> int:
    data = run_program(options)
    found = data.measuring
    assert found is not None, "the run had an executor"
    environment: Mapping[str, str] = found["environment"]
    refusals = [(row["class"], row["reason"]) for row in found["refused"]]
    _tell(options, environment, found, refusals)
    return 0


def _wanted(options: argparse.Namespace) -> Iterator[Mapping[str, Any]]:
    if options.suite:
        yield from suite()
    for path in options.runs:
        yield from signatures_of(RunData(path))


def _measure(
    options: argparse.Namespace,
    executor: Executor,
    cache: TimingCache,
    wanted: Mapping[str, Mapping[str, Any]],
) -> None:
    """What is there already, for this environment, is not measured again. Every measurement is
    kept at once, so that an interruption costs one.
    """
    environment = executor.environment
    known = {one.key for where, one in cache.measurements(environment.gpu) if where == environment}
    failed = {
        signature_key(one.signature): one
        for where, one in cache.failures(environment.gpu)
        if where == environment and one.holds(executor.answer_limit_s)
    }
    lacking = [one for key, one in wanted.items() if key not in known]
    refusals: list[tuple[str, str]] = []
    for signature in lacking:
        failure = failed.get(signature_key(signature))
        if failure is not None:
            refusals.append((_class_of(signature), told_again(failure)))
            continue
        try:
            measurement = executor.measure(signature)
        except Refused as refusal:
            refusals.append((_class_of(signature), str(refusal)))
            if isinstance(refusal, Broke):
                cache.add([(environment, executor.failure(signature, refusal))])
            continue
        cache.add([(environment, measurement)])
    measured = len(lacking) - len(refusals)
    counts = {
        "measured": measured,
        "known": len(wanted) - len(lacking),
        "restarts": executor.restarts,
    }
    _tell(options, vars(environment), counts, refusals)
    if lacking and not measured:
        raise UsageError("nothing could be measured; what was refused, and why, is above.")


def _tell(
    options: argparse.Namespace,
    environment: Mapping[str, str],
    counts: Mapping[str, Any],
    refusals: Sequence[tuple[str, str]],
) -> None:
    """What came of it; `counts` may have other keys."""
    if options.json:
        refused = [
            {"class": kernel_class, "reason": reason, "count": count}
            for (kernel_class, reason), count in Counter(refusals).most_common()
        ]
        told = {name: counts[name] for name in ("measured", "known", "restarts")}
        print(json.dumps({"environment": dict(environment), **told, "refused": refused}, indent=1))
        return
    print(
        f"{_name(environment)}: {counts['measured']:,} measured, {counts['known']:,} known "
        f"already, {len(refusals):,} refused, {counts['restarts']:,} restarts"
    )
    _tell_refused(refusals)


def _name(environment: Mapping[str, str]) -> str:
    return f"{environment['gpu']}, driver {environment['driver']}, CUDA {environment['cuda']}"


def _class_of(signature: Mapping[str, Any]) -> str:
    """By the models of any GPU: classes do not depend on it."""
    return KernelTimer(load_gpu("h100")).time(signature).kernel_class


def _tell_refused(refusals: Iterable[tuple[str, str]]) -> None:
    """The most frequent ones, by class."""
    counted = Counter(refusals)
    for (kernel_class, reason), count in counted.most_common(_MOST_REASONS):
        error_console().print(Text(f"  refused {count:,} x {kernel_class}: {reason}"))
    rest = sum(counted.values()) - sum(dict(counted.most_common(_MOST_REASONS)).values())
    if rest:
        error_console().print(Text(f"  refused {rest:,} x for other reasons"))

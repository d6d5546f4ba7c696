"""`phantora run`: runs a training command on a virtual cluster."""

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from phantora_py.agent.output import LAST_WORDS, SAID_ABOVE
from phantora_py.agent.parts import Outcome
from phantora_py.agent.simulation import error_of
from phantora_py.cli.access import add_access_arguments, chosen_tls
from phantora_py.cli.hosts_options import add_hosts_arguments
from phantora_py.cli.iteration_option import (
    ITERATION_FORMS,
    ITERATION_HELP,
    checked_iteration,
)
from phantora_py.cli.messages import (
    error_console,
    parse_ranks,
    parse_share,
    parse_size_bytes,
    print_written,
)
from phantora_py.cli.progress import Progress
from phantora_py.data import RunData
from phantora_py.hosts import allocation
from phantora_py.isolation.backend import BACKENDS
from phantora_py.isolation.probe import NETWORKS
from phantora_py.launch.fold import DEFAULT_WITNESSES
from phantora_py.launch.module import module_command
from phantora_py.launch.options import (
    AUTO_HOST_TIME,
    HOST_TENSORS,
    HOST_TIMES,
    UNSUPPORTED,
    RunOptions,
)
from phantora_py.launch.script import launch_of_script
from phantora_py.report.iterations import find_iterations
from phantora_py.report.sections.unknown_reads import parse_places
from phantora_py.report.summary import summarise
from phantora_py.report.terminal import print_summary
from phantora_py.report.trust import doubts_of
from phantora_py.runs import run as launch
from phantora_py.runs.fold_search import AUTO, find_mesh, folded, unfolded_more
from sim_server import simulation_pb2 as wire
from sim_server.cpu import DEFAULT_CPU
from sim_server.errors import LowTrust, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of `phantora run`; those of the command follow `--`."""
    parser.usage = "phantora run [OPTIONS] -- COMMAND ..."
    cluster = parser.add_argument_group("the simulated cluster")
    cluster.add_argument(
        "--cluster",
        default="h100",
        metavar="NAME|FILE",
        help="a built-in cluster (`phantora cluster list`) or a TOML file; default: h100",
    )
    cluster.add_argument("--ranks", type=int, metavar="N", help="number of ranks")
    cluster.add_argument("--nodes", type=int, metavar="N", help="number of nodes to use")
    cluster.add_argument(
        "--gpus-per-node", type=int, metavar="N", help="number of GPUs to use on each node"
    )
    cluster.add_argument(
        "--gpus",
        type=int,
        metavar="N",
        help="start the command once, on a node with N GPUs: for programs that start their own "
        "workers; each process that uses a GPU is a rank (before a launcher: --gpus-per-node N)",
    )
    _add_fold_arguments(parser.add_argument_group("ranks that need not run"))
    model = parser.add_argument_group("the simulation")
    model.add_argument(
        "--host-time",
        choices=HOST_TIMES,
        default=AUTO_HOST_TIME,
        help="how much virtual time the program's own CPU work takes. counted: what a named "
        "processor (--cpu) takes for it; fixed: a fixed time per call; measured: its CPU time on "
        "this machine; recorded: what another run measured (--host-gaps); off: none; default: "
        f"{AUTO_HOST_TIME}, which is counted, or fixed if the work cannot be counted",
    )
    model.add_argument(
        "--host-gaps",
        type=Path,
        metavar="FILE",
        help="with --host-time recorded: the data file of a run with --host-time measured",
    )
    model.add_argument(
        "--cpu",
        metavar="NAME|FILE",
        help="with --host-time counted: the processor, a built-in one or a file of `phantora "
        f"calibrate-host`; default: that of the cluster, else {DEFAULT_CPU}",
    )
    model.add_argument(
        "--host-samples",
        action="store_true",
        help="with --host-time measured: also count the work as --host-time counted does, and keep "
        "times and counts of each iteration; values of small tensors are not computed",
    )
    model.add_argument(
        "--values-threshold",
        default="64KiB",
        metavar="SIZE",
        help="copies and collectives of at most this size move real data; default: 64KiB",
    )
    model.add_argument(
        "--host-tensors",
        choices=HOST_TENSORS,
        default="lazy",
        help="lazy: large CPU tensors that the program only fills, with random numbers or from "
        "other tensors, read as zeros and take no memory; real: they are filled; default: lazy",
    )
    model.add_argument(
        "--until-steady",
        action="store_true",
        help="stop once the iteration time has settled: when 5 iterations in a row, after the "
        "first, differ by at most 1%%",
    )
    model.add_argument("--iteration", metavar=ITERATION_FORMS, help=ITERATION_HELP)
    model.add_argument(
        "--memory-kinds",
        action="store_true",
        help="also report how much of the memory peak is parameters, gradients, optimizer states, "
        "activations and so on",
    )
    model.add_argument(
        "--modules",
        action="store_true",
        help="also report which modules of the model GPU time and communication belong to, by "
        "phase (docs/report.md)",
    )
    model.add_argument(
        "--cache",
        type=Path,
        metavar="FILE",
        help="file of measured kernel times, see `phantora cache`; the times of other kernels come "
        "from models",
    )
    model.add_argument(
        "--gpu",
        action="store_true",
        help="measure kernels that the --cache lacks on this machine's GPU, once for all ranks, "
        "and add them to the cache; the cluster must have the same GPU model",
    )
    model.add_argument(
        "--executor",
        metavar="COMMAND",
        help="with --gpu: the command that measures kernels (sim_server/processes/executor.py says "
        "how it is called); default: PyTorch on this GPU",
    )
    model.add_argument(
        "--data-time",
        metavar="TIME",
        help="what a batch takes a worker of a data loader, e.g. 12ms; default: no time",
    )
    model.add_argument(
        "--expert-load",
        default="uniform",
        metavar="uniform|zipf:S|FILE",
        help="how often a mixture-of-experts router chooses each expert if its values are not "
        "computed. uniform: equally often; zipf:S: expert i in proportion to 1 / (i + 1) ** S; "
        "FILE: in proportion to the numbers in it, one per expert; default: uniform",
    )
    model.add_argument(
        "--lookups",
        type=Path,
        metavar="FILE",
        help="JSON file of embedding tables with statistics of their lookups, as for phantora plan "
        "--tables (docs/recommendation.md)",
    )
    model.add_argument(
        "--unsupported",
        choices=UNSUPPORTED,
        default="stop",
        help="what to do at a call that is not modelled. stop: end the run; error: let the call "
        "return an error of its library; warn: let the call succeed if this can make only times "
        "wrong, else as error; default: stop",
    )
    _add_server_arguments(parser.add_argument_group("a server that is already running"))
    add_hosts_arguments(parser.add_argument_group("several hosts"))
    machine = parser.add_argument_group("this machine")
    machine.add_argument(
        "--isolation",
        default="auto",
        metavar="auto|process|require:TIER",
        help="how strictly ranks are isolated; see `phantora doctor`; default: auto",
    )
    machine.add_argument(
        "--backend",
        choices=BACKENDS,
        default="native",
        help="what isolates the ranks; native: phantora itself, by namespaces; default: native",
    )
    machine.add_argument(
        "--network",
        choices=NETWORKS,
        default="own",
        help="own: ranks reach the simulated nodes only; host: they use this machine's network, "
        "for programs that download; default: own",
    )
    machine.add_argument(
        "--read-only",
        action="store_true",
        help="let ranks write only to the working directory, /tmp and caches",
    )
    machine.add_argument(
        "--writable",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="with --read-only: let ranks write to this directory, too; may be repeated",
    )
    machine.add_argument(
        "--no-zygote",
        action="store_true",
        help="start every rank as a new Python process, which takes longer; default: fork ranks "
        "from one process that has imported torch",
    )
    machine.add_argument(
        "--stall-limit",
        type=float,
        metavar="SECONDS",
        help="fail if no rank makes progress for this long, in real time; default: only print a "
        "note",
    )
    machine.add_argument(
        "--memory-limit",
        metavar="SIZE",
        help="stop the run before it takes more memory than SIZE, on all its hosts together; "
        "default: what is available on each, less a margin",
    )
    output = parser.add_argument_group("output")
    output.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="the data file to write (.phr)"
    )
    output.add_argument("--json", action="store_true", help="print the summary as JSON")
    output.add_argument(
        "--min-trust",
        metavar="SHARE",
        help="fail if less than this share of the GPU time is measured, interpolated or modelled, "
        "e.g. 80%%; the rest may be assumed",
    )
    output.add_argument(
        "--strict",
        action="store_true",
        help="fail if the iteration time is in doubt: if its 90%% interval reaches further than "
        "25%% from it, more than 1%% of the GPU time is assumed, NCCL variables are set that are "
        "not modelled, or the program reads values that were not computed",
    )
    output.add_argument(
        "--accept-unknown",
        action="append",
        default=[],
        metavar="FILE:LINE",
        help="with --strict: do not fail if the program reads values that were not computed on "
        "this line, because it only prints them (a loss, say); may be repeated",
    )
    output.add_argument(
        "--rank",
        action="append",
        metavar="RANKS",
        help="show the output of these ranks only, e.g. 3 or 0,8-15; may be repeated",
    )
    output.add_argument(
        "--log-dir", type=Path, metavar="DIR", help="also write the ranks' output to files in DIR"
    )
    output.add_argument(
        "--execution-trace",
        type=Path,
        metavar="DIR",
        help="write the operators of each rank to DIR, as PyTorch's ExecutionTraceObserver does; "
        "takes no virtual time (docs/traces.md)",
    )
    output.add_argument(
        "--iterations",
        type=int,
        metavar="N",
        help="how many iterations the program will do, including the first; the progress line then "
        "estimates when the run will end. Iterations are counted as in the report: not in a loop "
        "that has backward passes and no optimizer, or nothing that marks an iteration",
    )
    output.add_argument(
        "--live", action="store_true", help="on a terminal: show the state of the ranks as a table"
    )
    output.add_argument("--quiet", action="store_true", help="print errors only")


def _add_fold_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--fold",
        metavar="N|DIMENSIONS|auto",
        help="run only one rank of those that do the same, and simulate all (docs/folding.md). N: "
        "run N ranks; every other rank r does what rank r modulo N does. DIMENSIONS: those of "
        "--mesh along which ranks do the same, e.g. dp or replicate,shard. auto: find them in a "
        "run of rank 0",
    )
    group.add_argument(
        "--mesh",
        metavar="NAME=SIZE,...",
        help="with --fold: the program's device mesh (the grid that the ranks form), outermost "
        "dimension first, e.g. pp=4,dp=128,tp=8",
    )
    group.add_argument(
        "--apart",
        metavar="RANKS",
        help="with --fold: ranks that do something else than the others, e.g. 0,1000-1023 or dp=0; "
        "each range is a class of its own. With --mesh, this includes all ranks that differ from "
        "these only in other dimensions",
    )
    group.add_argument(
        "--witness",
        dest="witnesses",
        type=int,
        metavar="N",
        help="with --fold: how many of the other ranks run too, to check that they do the same; "
        f"default: {DEFAULT_WITNESSES}",
    )


def _add_server_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--server", metavar="ADDRESS", help="use the server that `phantora serve` runs there"
    )
    add_access_arguments(group)


def run(options: argparse.Namespace) -> int:
    """Runs the command, then prints its summary."""
    if options.iterations is not None and options.iterations < 1:
        raise UsageError("--iterations takes a number of at least 1.")
    if allocation.is_wanted(options.engine, options.hosts):
        return allocation.run_within(
            options.hosts, [*module_command("phantora_py"), *options.words]
        )
    return _run_here(options)


def _run_here(options: argparse.Namespace) -> int:
    chosen = RunOptions(
        command=tuple(options.command),
        cluster=options.cluster,
        ranks=options.ranks,
        nodes=options.nodes,
        gpus_per_node=options.gpus_per_node,
        gpus=options.gpus,
        fold=options.fold,
        mesh=options.mesh,
        apart=options.apart,
        witnesses=options.witnesses,
        output=options.output,
        host_time=options.host_time,
        host_gaps=options.host_gaps,
        host_samples=options.host_samples,
        execution_trace=options.execution_trace,
        cpu=options.cpu,
        host_tensors=options.host_tensors,
        data_time=options.data_time,
        expert_load=options.expert_load,
        lookups=options.lookups,
        unsupported=options.unsupported,
        isolation=options.isolation,
        backend=options.backend,
        network=options.network,
        read_only=options.read_only,
        writable=tuple(options.writable),
        zygote=not options.no_zygote,
        json=options.json,
        min_trust=None if options.min_trust is None else parse_share(options.min_trust),
        strict=options.strict,
        accepted_reads=_accepted_reads(options),
        values_threshold_bytes=parse_size_bytes(options.values_threshold),
        cache=options.cache,
        gpu=options.gpu,
        executor=options.executor,
        server=options.server,
        token_file=options.token_file,
        tls=chosen_tls(options),
        insecure=options.insecure,
        engine=options.engine,
        hosts=options.hosts,
        hosts_file=options.hosts_file,
        listen=options.listen,
        stall_limit_s=options.stall_limit,
        shown_ranks=None if options.rank is None else parse_ranks(",".join(options.rank)),
        log_dir=options.log_dir,
        memory_limit_bytes=None
        if options.memory_limit is None
        else parse_size_bytes(options.memory_limit),
        iteration=checked_iteration(options.iteration),
        until_steady=options.until_steady,
        memory_kinds=options.memory_kinds,
        modules=options.modules,
        iterations=options.iterations,
        live=options.live,
        quiet=options.quiet,
    )
    if options.gpus is not None:
        return _run(chosen)
    here = Path.cwd()
    with launch_of_script(chosen.command, to_stderr=chosen.json) as (words, script):
        if words is not None:
            chosen = replace(chosen.seen_from(here), command=words, script=script)
        return _run(chosen)


def _run(chosen: RunOptions) -> int:
    if chosen.fold == AUTO:
        return _run_folded(chosen)
    return _end(chosen, *_execute(chosen))


def _run_folded(chosen: RunOptions) -> int:
    """The folding is found out, and changed where a witness does something else."""
    if chosen.mesh is not None or chosen.apart is not None:
        raise UsageError("--fold auto finds the mesh itself: leave --mesh and --apart out.")
    speaks = not chosen.quiet
    if speaks:
        error_console().print("--fold auto: rank 0 runs first, to see which groups it makes")
    mesh = find_mesh(chosen, lambda options: _execute(options)[1])
    while True:
        options = folded(chosen, mesh)
        if speaks:
            what = f"--fold {options.fold} --mesh {options.mesh}" if options.fold else "all ranks"
            error_console().print(f"--fold auto: {what}", soft_wrap=True)
        path, outcome = _execute(options)
        other = unfolded_more(mesh, outcome.message) if outcome.exit_code else None
        if other is None:
            return _end(options, path, outcome)
        if speaks:
            said = f"--fold auto starts again: {outcome.message.partition(': rank')[0]}"
            error_console().print(said, soft_wrap=True)
        mesh = other
        path.unlink()


def _execute(chosen: RunOptions) -> tuple[Path, Outcome]:
    """One run: its data file, and how it ended."""
    prepared = launch.prepare(chosen)
    with Progress(prepared, shown=not (chosen.quiet or chosen.json)) as progress:
        outcome = launch.execute(prepared, progress)
    return prepared.output, outcome  # the run may have chosen another name


def _end(chosen: RunOptions, output: Path, outcome: Outcome) -> int:
    if outcome.exit_code == 0:
        _print_summary(chosen, output)
    if not (chosen.quiet or chosen.json):
        print_written(output)
    return verdict(chosen, output, outcome)


def _print_summary(options: RunOptions, path: Path) -> None:
    """The summary is a view of the data file like any other."""
    if options.json:
        print(json.dumps(summarise(RunData(path)), indent=1), flush=True)
    elif not options.quiet:
        print_summary(path)


def _accepted_reads(options: argparse.Namespace) -> tuple[str, ...]:
    if options.accept_unknown and not options.strict:
        raise UsageError("--accept-unknown says what --strict lets pass; give --strict too.")
    return parse_places(options.accept_unknown)


def _doubts(options: RunOptions, path: Path) -> Iterator[str]:
    summary = summarise(RunData(path))
    return doubts_of(summary, options.min_trust, options.strict, options.accepted_reads)


def _was_shown(options: RunOptions, rank: int | None) -> bool:
    """Whether what a rank said before it failed is on the terminal."""
    return rank is not None and (options.shown_ranks is None or rank in options.shown_ranks)


def verdict(options: RunOptions, path: Path, outcome: Outcome) -> int:
    """Exit code 0, or raises the error that the outcome amounts to."""
    if outcome.exit_code != 0:
        message = outcome.message
        if not options.json and _was_shown(options, outcome.failed_rank):
            message = LAST_WORDS.sub(SAID_ABOVE, message)
        raise error_of(
            wire.Failure(exit_code=outcome.exit_code, message=message, tables=outcome.tables)
        )
    if options.iteration is not None:
        find_iterations(RunData(path, options.iteration))  # Raises: UsageError
    if options.min_trust is not None or options.strict:
        doubts = list(_doubts(options, path))
        if doubts:
            raise LowTrust(f"{' '.join(doubts)} To see where: phantora report {path}")
    return 0

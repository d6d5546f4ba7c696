"""`phantora run` from its options to its data file.

prepare   understand the command, lay ranks out, choose isolation      (errors of the user end here)
start     run directory, server, starter, channels
serve     fork the ranks; the host agent works until all have ended
finish    stop everything, complete the data file
"""

import functools
import json
import os
import resource
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from phantora_py import __version__
from phantora_py.agent.datafile import DataFile, cannot_write
from phantora_py.agent.output import LAST_WORDS, Listener, RankOutput
from phantora_py.agent.parts import Outcome
from phantora_py.agent.parts import Watcher as AgentWatcher
from phantora_py.agent.server import START_LIMIT_S, Server, new_token_of
from phantora_py.agent.simulation import Unreachable
from phantora_py.data import SCHEMA
from phantora_py.hosts.choice import choose as choose_hosts
from phantora_py.hosts.job import job_of
from phantora_py.hosts.started import StartedHosts
from phantora_py.isolation import attempts, backend, readonly
from phantora_py.isolation.nodes import MAX_NODES
from phantora_py.isolation.probe import Isolation
from phantora_py.launch import (
    environment,
    execution_traces,
    fork_servers,
    interpreter,
    limits,
    rundir,
)
from phantora_py.launch.command import Command, understand
from phantora_py.launch.data_time import choose_data_time
from phantora_py.launch.expert_load import choose_expert_load
from phantora_py.launch.fold import choose_fold
from phantora_py.launch.gpu import (
    check_cache,
)
from phantora_py.launch.host_gaps import choose_host_gaps
from phantora_py.launch.host_time import choose_host_time
from phantora_py.launch.layout import (
    RunLayout,
    gpus_for_launcher,
    gpus_per_node,
    idle_gpus,
    lay_out,
    unasked_variables,
)
from phantora_py.launch.options import RunOptions
from phantora_py.launch.prepared import Prepared
from phantora_py.launch.processor import choose_cpu
from phantora_py.launch.rundir import RunDirectory
from phantora_py.launch.server import choose_server
from phantora_py.launch.spool import choose_streams
from phantora_py.launch.unsimulated import read_unsimulated
from phantora_py.launchers.launch import FoundGpus, Launch
from phantora_py.plan.tables import read_tables
from phantora_py.runs import stopped_calls
from phantora_py.runs.host import Host, Meeting, settings_of, write_files
from phantora_py.runs.hosts_use import with_hosts
from sim_server.access import Endpoint
from sim_server.access.offer import Offer
from sim_server.cluster import Cluster, load_cluster
from sim_server.collectives.environment import NcclEnvironment, nccl_variables
from sim_server.errors import RankFailed, UsageError
from sim_server.files.output_file import partial_path, require_output, require_output_directory
from sim_server.processes.executor import START_LIMIT_S as EXECUTOR_START_LIMIT_S
from sim_server.processes.signals import uninterrupted
from sim_server.settings import load_gpus

# A server that somebody else started should be there (assumed: time to start it a little late).
_ANSWER_LIMIT_S = 20.0


class Watcher(AgentWatcher, Listener, Protocol):
    """Is told of a run's progress and what its ranks print."""

    def started(self) -> None:
        """The ranks are about to run."""


def _cpu_s() -> float:
    """CPU time of this process and of those it has waited for, with theirs."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return fork_servers.cpu_s() + sum(usage.ru_utime + usage.ru_stime for usage in usages)


@dataclass
class Clocks:
    """Wall time and CPU time of a run, for its report."""

    start_s: float = field(default_factory=time.monotonic)
    cpu_start_s: float = field(default_factory=_cpu_s)
    started_s: float = 0.0

    def to_dict(self) -> dict[str, float]:
        """The `wall` entry of run.json."""
        now_s = time.monotonic()
        return {
            "total_s": now_s - self.start_s,
            "startup_s": (self.started_s or now_s) - self.start_s,
            "core_seconds": self.core_seconds,
        }

    @property
    def core_seconds(self) -> float:
        """CPU time until now."""
        return _cpu_s() - self.cpu_start_s


def _found_gpus(cluster: Cluster, options: RunOptions) -> FoundGpus:
    gpu, _ = load_gpus(cluster, options.nodes or 1)
    major, minor = gpu.compute_capability
    properties = {
        "name": gpu.name,
        "major": major,
        "minor": minor,
        "total_memory": gpu.memory_bytes,
        "multi_processor_count": gpu.sm_count,
    }
    return FoundGpus(gpus_per_node(cluster, options, options.nodes), properties)


def prepare(options: RunOptions) -> Prepared:
    """Finds every error that can be found before a process is started. Raises: UsageError."""
    cluster = load_cluster(options.cluster)
    found_gpus = functools.partial(_found_gpus, cluster, options)
    command = understand(options.command, os.environ, found_gpus, options.gpus)
    host_time, told = choose_host_time(options, command.program.interpreter)
    launch = command.launch
    options = gpus_for_launcher(replace(options, host_time=host_time), launch)
    layout = lay_out(cluster, options, launch)
    gpu, other_gpus = load_gpus(cluster, layout.nodes)
    variables = nccl_variables({**os.environ, **(launch.variables if launch else {})})
    for node in cluster.node_types(layout.nodes):
        NcclEnvironment.read(variables).used_nics(node.nic.per_node)  # raises what is wrong
    measured = check_cache(options, gpu, command.program)
    server = choose_server(options, os.environ)
    execution_traces.check(options, launch is not None and launch.own_ranks)
    fold = choose_fold(options, cluster, layout, launch)
    live = range(layout.ranks) if fold is None else fold.live
    started = len(live)
    limits.require_files(started)
    limits.require_file_size(started)
    limits.require_addresses()
    limits.require_processes(started)
    notes = [*(launch.notes if launch else ()), *idle_gpus(layout)]
    if command.program.torch:
        notes += unasked_variables(options, launch)
    notes += [*interpreter.note_untested(command.program.torch), *measured, *told]
    isolation = backend.choose(options.backend, options.isolation, options.network)
    nodes = {layout.node(rank) for rank in live}
    if isolation.own_network and len(nodes) > MAX_NODES:
        raise UsageError(
            f"A network of their own joins {MAX_NODES} nodes at most, not {len(nodes)}; "
            "with --network host they share this machine's."
        )
    log_dir = options.log_dir or (launch.log_dir if launch else None)
    output = options.output or options.directory / _default_output(command)
    require_output(output, "-o")
    if log_dir is not None:
        require_output_directory(Path(log_dir), "--log-dir")
    hosts = choose_hosts(options, layout, isolation, list(live))
    return Prepared(
        options=options,
        command=command,
        cluster=cluster,
        gpu=gpu,
        other_gpus=other_gpus,
        layout=layout,
        isolation=isolation,
        output=output,
        fork=_may_fork(options, command),
        writable=_writable(options, isolation),
        streams=choose_streams(started, options.json, kept=log_dir is not None),
        shown_ranks=_shown_ranks(options, layout, launch),
        log_dir=log_dir,
        nccl_variables=variables,
        data_time=choose_data_time(options.data_time, cluster, layout),
        expert_load=choose_expert_load(options.expert_load, command.program.torch),
        lookups=_lookups(options),
        host_gaps=choose_host_gaps(options, command.program.versions),
        cpu=choose_cpu(options, cluster),
        fold=fold,
        server=server,
        hosts=hosts,
        share=None if hosts is None else hosts.shares[0],
        notes=notes,
    )


def _may_fork(options: RunOptions, command: Command) -> bool:
    # Samples want a process without our kernels, which the zygote has.
    wanted = options.zygote and not options.host_samples
    return wanted and command.program.forkable and options.backend == "native"


def execute(prepared: Prepared, watcher: Watcher) -> Outcome:
    """Runs the ranks and writes the data file; of ranks that the launcher starts again where one
    has failed, that of the last attempt.

    Raises: PhantoraError if it cannot be done, and KeyboardInterrupt if interrupted before the
    ranks run or twice; then nothing is left behind, and no data file.
    """
    clocks = Clocks()
    output = None
    try:
        with uninterrupted():
            output = _reserve(prepared)
        while (outcome := _attempt(prepared, output, clocks, watcher)) is None:
            watcher.note(_restart_text(prepared))
    except BaseException:
        if output is not None:
            partial_path(output).unlink(missing_ok=True)
        raise
    return outcome


def _attempt(prepared: Prepared, output: Path, clocks: Clocks, watcher: Watcher) -> Outcome | None:
    """None: a rank failed, and the launcher starts all again."""
    ranks, partial = len(prepared.live_ranks), partial_path(output)
    with rundir.run_directory(ranks, partial, output) as directory, ExitStack() as begun:
        # Before there are threads; it ends before the data file is completed.
        server = None
        if prepared.server is None:
            server = begun.enter_context(_start_server(prepared, directory))
        data = DataFile(output, _describe(prepared), settings_of(prepared, directory).to_json())
        try:
            outcome = _serve(prepared, directory, server, data, clocks, watcher)
            if _starts_again(prepared, outcome):
                prepared.restarts.append(LAST_WORDS.sub("", outcome.message).rstrip())
                data.discard()
                return None
            _keep_traces(prepared, directory, watcher)
            end = describe_end(outcome, data.digest, clocks.to_dict(), prepared.restarts)
            data.complete(_describe(prepared) | end)
        except BaseException:
            data.discard()
            raise
    return outcome


def _starts_again(prepared: Prepared, outcome: Outcome) -> bool:
    launch = prepared.command.launch
    is_of_rank = outcome.exit_code == RankFailed.exit_code and outcome.failed_rank is not None
    return is_of_rank and launch is not None and len(prepared.restarts) < launch.max_restarts


def _restart_text(prepared: Prepared) -> str:
    launch, restarts = prepared.command.launch, prepared.restarts
    assert launch is not None
    number = f"{len(restarts)} of {launch.max_restarts}"
    return f"{launch} starts all ranks again ({number}): {restarts[-1]}"


def _keep_traces(prepared: Prepared, directory: RunDirectory, watcher: Watcher) -> None:
    """What is wrong with execution traces stands in the data file, too."""
    own = (directory.path, prepared.options, prepared.live_ranks, prepared.fold)
    for fault in execution_traces.collect(*own):
        prepared.notes.append(fault)
        watcher.note(fault)


def _writable(options: RunOptions, isolation: Isolation) -> list[str] | None:
    """Where ranks may write; None: everywhere. Raises: UsageError if that cannot be had."""
    if not options.read_only:
        if options.writable:
            raise UsageError("--writable names exceptions from --read-only, which was not given.")
        return None
    for path in options.writable:
        if not path.is_dir():
            raise UsageError(f"--writable {path}: there is no such directory.")
    writable = readonly.writable_directories(options.writable, os.environ)
    if writable[0] == "/":
        raise UsageError("--read-only protects nothing where all of / is to be writable.")
    denied: str | None = isolation.reason
    if isolation.backend != "native":
        denied = None
    elif "mnt" in isolation.namespaces:
        denied = attempts.protect(sorted(isolation.namespaces & {"user", "mnt"}), writable)
    if denied is not None:
        raise UsageError(f"--read-only is not possible here: {denied}. See: phantora doctor")
    return writable


def _reserve(prepared: Prepared) -> Path:
    """The data file's path, settled: of runs that start at one time in one directory each has its
    own.

    Raises: UsageError if it cannot be written there.
    """
    chosen = prepared.output
    number = 1
    while True:
        partial = partial_path(prepared.output)
        try:
            partial.open("x").close()
            # Asked once that is ours, for another run may just have ended.
            if prepared.options.output is not None or not prepared.output.exists():
                return prepared.output
            partial.unlink()
        except FileExistsError as error:
            if prepared.options.output is not None:
                raise UsageError(
                    f"Another run is writing {chosen}. Choose another file with -o, or, if none "
                    f"is, remove {partial}."
                ) from error
        except OSError as error:
            raise cannot_write(chosen, error) from error
        number += 1
        prepared.output = chosen.with_stem(f"{chosen.stem}-{number}")


def _serve(  # noqa: PLR0917
    prepared: Prepared,
    directory: RunDirectory,
    server: Server | None,
    data: DataFile,
    clocks: Clocks,
    watcher: Watcher,
) -> Outcome:
    """What happens while the run directory exists. What was started is stopped in turn."""
    prepared.epoch = rundir.present()
    write_files(prepared, directory)
    with ExitStack() as stack:
        # It ends last, so that it has everything that was printed.
        output = stack.enter_context(
            RankOutput(
                *(directory.path, prepared.streams, prepared.live_ranks, prepared.shown_ranks),
                *(data, watcher, prepared.log_dir),
            )
        )
        meeting, started_hosts = _meet(prepared, directory, server, stack)

        def started() -> None:
            watcher.started()
            clocks.started_s = clocks.started_s or time.monotonic()

        host = Host(prepared, directory, stack)
        try:
            outcome = host.serve(meeting, data, watcher, started, lambda _: output)
        except Unreachable as error:
            if started_hosts is None:
                raise
            raise UsageError(started_hosts.absence() or str(error)) from error
        if started_hosts is not None:
            outcome = started_hosts.explain(outcome)
        outcome = replace(
            stopped_calls.explain(outcome, directory.path),
            unsimulated=read_unsimulated(directory.path, prepared.layout.ranks),
        )
    if prepared.hosts is None or started_hosts is None:
        return outcome
    # An agent may have run on this machine.
    own_s = clocks.core_seconds - started_hosts.used_s
    return with_hosts(outcome, prepared.hosts.shares, directory.path, own_s)


def _meet(
    prepared: Prepared, directory: RunDirectory, server: Server | None, stack: ExitStack
) -> tuple[Meeting, StartedHosts | None]:
    """The server to join, and, if the run has several hosts, the agents of the others. `server`:
    the run's own.
    """
    options, hosts = prepared.options, prepared.hosts
    if server is None:
        assert prepared.server is not None
        return Meeting(prepared.server, lambda: None, _ANSWER_LIMIT_S), None
    endpoint = stack.enter_context(server).endpoint
    limit_s = START_LIMIT_S + (EXECUTOR_START_LIMIT_S if options.gpu else 0.0)
    if hosts is None:
        return Meeting(endpoint, server.check, limit_s), None
    job = job_of(prepared, endpoint, os.environ)
    started = stack.enter_context(StartedHosts(hosts, job, directory.path))

    def check() -> None:
        server.check()
        started.check()

    return Meeting(endpoint, check, limit_s, agents=started.pids), started


def _start_server(prepared: Prepared, directory: RunDirectory) -> Server:
    """A server of the run's own."""
    options, hosts = prepared.options, prepared.hosts
    address = hosts.address if hosts else f"unix:{directory.server_socket}"
    endpoint = Endpoint.of(address, new_token_of(directory), options.tls, options.insecure)
    settings = settings_of(prepared, directory)
    cache = options.cache
    offer = Offer(settings.cluster, cache and cache.resolve(), settings.executor, settings.lookups)
    # It has no use for the threads that NumPy's OpenBLAS starts at import.
    own = {**os.environ, "PHANTORA_RUN_DIR": str(directory.path), "OPENBLAS_NUM_THREADS": "1"}
    agents = len(hosts.shares) if hosts else 1
    return Server(directory, offer, own, endpoint, agents)


def _shown_ranks(options: RunOptions, layout: RunLayout, launch: Launch | None) -> frozenset[int]:
    """Raises: UsageError for a rank that there is not."""
    ranks = range(layout.ranks)
    if options.shown_ranks is not None:
        unknown = options.shown_ranks - set(ranks)
        if unknown:
            raise UsageError(
                f"--rank {min(unknown)} shows the output of a rank that there is not: ranks are 0 "
                f"to {layout.ranks - 1}. The number of ranks is --ranks."
            )
        return options.shown_ranks
    local_ranks = launch.shown_local_ranks if launch else None
    return frozenset(
        rank for rank in ranks if local_ranks is None or layout.local_rank(rank) in local_ranks
    )


def _lookups(options: RunOptions) -> list[dict[str, Any]]:
    """The tables of --lookups. Raises: UsageError."""
    if options.lookups is None:
        return []
    if options.server is not None:
        raise UsageError("--lookups and --server exclude each other: the run's own server has them")
    return [
        {
            "name": table.name,
            "rows": table.rows,
            "dim": table.dim,
            "pooling": table.pooling.mean,
            "lookups": table.spec.get("lookups"),
        }
        for table in read_tables(options.lookups, "--lookups")
    ]


def _describe(prepared: Prepared) -> dict[str, Any]:
    """start.json, see docs/data-file.md."""
    layout, launch = prepared.layout, prepared.command.launch
    return {
        "schema": SCHEMA,
        "command": list(prepared.command.words),
        "environment": environment.recorded_environment(os.environ),
        "ranks": layout.ranks,
        "own_ranks": launch is not None and launch.own_ranks,
        "nodes": layout.nodes,
        "gpus_per_node": layout.ranks_per_node,
        "cluster": prepared.cluster.to_dict(),
        "cluster_name": prepared.cluster.name,
        "host_time": prepared.options.host_time,
        "host_tensors": prepared.options.host_tensors,
        "cache": prepared.options.cache and str(prepared.options.cache),
        "expert_load": asdict(prepared.expert_load),
        "data_time": None if prepared.data_time is None else asdict(prepared.data_time),
        "unsupported": prepared.options.unsupported,
        "host_gaps": None if prepared.host_gaps is None else prepared.host_gaps.origin,
        "cpu": None if prepared.cpu is None else prepared.cpu.to_dict(),
        "isolation": {"tier": prepared.isolation.tier, "reason": prepared.isolation.reason},
        "notes": prepared.notes,
        "versions": {**prepared.command.program.versions, "phantora": __version__},
        "seed": 0,
        **({} if prepared.fold is None else {"fold": prepared.fold.to_dict()}),
    }


def describe_end(
    outcome: Outcome, digest: str, wall: dict[str, float], restarts: Sequence[str] = ()
) -> dict[str, Any]:
    """What run.json has beside that."""
    if outcome.hosts is not None:
        wall = wall | {"core_seconds": sum(one["core_seconds"] for one in outcome.hosts)}
    return {
        "exit_code": outcome.exit_code,
        "failed_rank": outcome.failed_rank,
        "message": outcome.message,
        "deadlock": json.loads(outcome.tables or "[]"),
        "wall": wall,
        "host_memory": outcome.host_memory,
        "steady": outcome.steady,
        "unsimulated": outcome.unsimulated,
        "by_machine": outcome.by_machine,
        "digest": digest,
        **({"restarts": list(restarts)} if restarts else {}),
        **({} if outcome.hosts is None else {"hosts": outcome.hosts}),
    }


def _default_output(command: Command) -> Path:
    return Path(f"phantora-{command.program.name}.{time.strftime('%Y%m%d-%H%M%S')}.phr")

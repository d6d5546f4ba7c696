"""Starts the processes of a run's ranks as far as possible before they run."""

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from phantora_py.isolation import container
from phantora_py.isolation.nodes import Node, node_address, node_name
from phantora_py.launch import environment
from phantora_py.launch.libraries import CUDA_MAJOR
from phantora_py.launch.prepared import Prepared
from phantora_py.launch.ranks import NotForkable, RankProcesses
from phantora_py.launch.rundir import RunDirectory
from phantora_py.launch.spool import output_paths
from phantora_py.launch.starter import Plan, RankStart


def await_ready(
    processes: RankProcesses,
    prepared: Prepared,
    directory: RunDirectory,
    stack: ExitStack,
    check: Callable[[], None],
) -> RankProcesses:
    """Waits for the zygote, or for another that imports less, for as long as one finds that it has
    imported what it should not have. The one that is returned is left to `stack` to end. `check` is
    called now and then and may raise.
    """
    left_out: set[str] = set()
    while True:
        try:
            processes.wait_ready(check)
            return processes
        except NotForkable as found:
            fork = "torch" not in found.unfit
            left_out |= found.unfit.keys()
            way = "every rank imports for itself" if fork else "ranks are executed, not forked"
            prepared.notes.append(f"{way}: {found}")
            processes.close()  # It holds all that it has imported.
            following = start_processes(prepared, directory, fork, sorted(left_out))
            processes = stack.enter_context(following)


def start_processes(
    prepared: Prepared,
    directory: RunDirectory,
    fork: bool | None = None,
    left_out: Sequence[str] = (),
) -> RankProcesses:
    """Starts the starter, and has it make ready what its ranks need. `fork`: whether it is to be a
    zygote; None: if the run allows it.
    """
    fork = prepared.fork if fork is None else fork
    program = prepared.command.program
    torch = program.torch
    cuda_major = torch.cuda_major if torch and torch.cuda else CUDA_MAJOR
    options = prepared.options
    counts = options.host_time == "counted" or options.host_samples
    shim = environment.shim_environment(directory.path, os.environ, cuda_major, counts)
    common = environment.common_environment(
        *(prepared.layout, prepared.command.launch, prepared.isolation),
        restarts=len(prepared.restarts),
    )
    if prepared.fold is not None:
        common |= environment.FOLDED
    # Pythons that a forked rank executes are its children, and see its clock.
    executed = environment.executed_environment(os.environ) | ({} if fork else shim)
    launch = prepared.command.launch
    has_own_ranks = launch is not None and launch.own_ranks
    plan = Plan(
        ranks=len(prepared.live_ranks),
        fork=fork,
        argv=list(program.argv),
        form=program.form.value,
        target=program.target,
        arguments=list(program.arguments),
        namespaces=sorted(prepared.isolation.namespaces),
        environment={**common, **executed},
        left_out=list(left_out),
        writable=prepared.writable,
        backend=prepared.options.backend,
        own_ranks=has_own_ranks,
        elsewhere=[
            node_address(node, prepared.isolation.own_network)
            for node in sorted(prepared.nodes_elsewhere)
        ],
    )
    # A process that is to execute the ranks does without the shim itself.
    own = shim if fork else {"PHANTORA_RUN_DIR": str(directory.path)}
    # Thread pools take their size from these at import, and NumPy's OpenBLAS starts its threads
    # there.
    threads = {"OMP_NUM_THREADS": common["OMP_NUM_THREADS"], "OPENBLAS_NUM_THREADS": "1"}
    early = {**threads, **environment.hash_seed()} if fork else {}
    own_environment = {**early, **os.environ, **own}
    local_ranks = [0] if has_own_ranks else prepared.local_ranks
    starts = [_rank_start(prepared, directory, rank) for rank in local_ranks]
    of_ranks = {name for start in starts for name in start.environment}
    processes = RankProcesses(plan, own_environment, prepared.options.json, of_ranks)
    for start in starts:
        processes.announce(start)
    processes.prepare()
    return processes


def _rank_start(prepared: Prepared, directory: RunDirectory, rank: int) -> RankStart:
    layout, launch = prepared.layout, prepared.command.launch
    name = node_name(layout.node(rank))
    own_network = prepared.isolation.own_network
    local_rank = layout.local_rank(rank)
    argument = launch and launch.local_rank_argument
    return RankStart(
        rank=rank,
        environment=environment.rank_environment(rank, layout, launch, prepared.isolation),
        node=Node(
            name=name,
            address=node_address(layout.node(rank), own_network),
            hosts=str(directory.hosts),
            shared_memory=container.shared_memory(directory.path, name),
            resolver=str(directory.resolver) if own_network else "",
        ),
        arguments=[argument.format(local_rank)] if argument else [],
        outputs=output_paths(directory.path, rank, prepared.streams),
    )

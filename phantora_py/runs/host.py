"""One host's part in a run, from the files that its ranks find to their end."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from phantora_py.agent.agent import HostAgent
from phantora_py.agent.datafile import DataSink
from phantora_py.agent.kept_files import KeptFiles
from phantora_py.agent.memory import Elsewhere, MemoryWatch
from phantora_py.agent.other_hosts import OtherHosts
from phantora_py.agent.output import RankOutput
from phantora_py.agent.own_ranks import OwnRanks
from phantora_py.agent.parts import Outcome, Watcher
from phantora_py.agent.printed import Printed
from phantora_py.agent.relay import Neighbours, Relay
from phantora_py.agent.simulation import Simulation
from phantora_py.agent.stall import StallWatch
from phantora_py.isolation import container
from phantora_py.isolation.nodes import node_address, node_name
from phantora_py.launch import execution_traces, interpreter, rundir
from phantora_py.launch.gpu import cache_settings, executor_settings, program_environment
from phantora_py.launch.interrupts import Interrupts
from phantora_py.launch.prepared import Prepared
from phantora_py.launch.rank_start import await_ready, start_processes
from phantora_py.launch.ranks import Beside, RankProcesses
from phantora_py.launch.rundir import RunDirectory
from phantora_py.rank.groups import RANKS, SEARCHES
from phantora_py.rank.memory_kinds import KINDS_FILE
from phantora_py.rank.modules import MODULES_FILE
from phantora_py.rank.step_marks import CALL_FILE
from sim_server import simulation_pb2 as wire
from sim_server.access import Endpoint
from sim_server.access.offer import make_hello
from sim_server.settings import Settings

if TYPE_CHECKING:
    from phantora_py._channel import ChannelSet


@dataclass(frozen=True)
class Meeting:
    """Where the agents of a run meet. `check` is called while this one waits for the others and may
    raise; `limit_s`: how long it waits, `reach_limit_s`: for the server.
    """

    endpoint: Endpoint
    check: Callable[[], None]
    limit_s: float
    reach_limit_s: float = math.inf
    agents: Sequence[int] = ()
    """Processes below ours that are the agents of other hosts, or what has started them."""


class Host:
    """The processes of this host. What was started is left to `stack` to end."""

    def __init__(self, prepared: Prepared, directory: RunDirectory, stack: ExitStack) -> None:
        self._prepared = prepared
        self._directory = directory
        self._stack = stack
        self.told = ""
        """What the server said why the run ended; empty if it did not."""

    def serve(
        self,
        meeting: Meeting,
        data: DataSink,
        watcher: Watcher,
        started: Callable[[], None],
        output_of: Callable[[Simulation], RankOutput | Printed],
    ) -> Outcome:
        """Starts this host's ranks and serves them until all have ended. `output_of`: makes what
        reads their output.
        """
        from phantora_py._channel import ChannelSet  # noqa: PLC0415 - so that prepare works without

        prepared, directory, stack = self._prepared, self._directory, self._stack
        processes = stack.enter_context(start_processes(prepared, directory))
        channels = ChannelSet(str(directory.path), prepared.local_ranks)
        stack.callback(channels.close)
        simulation = Simulation(meeting.endpoint, channels)
        stack.callback(simulation.close)
        output = output_of(simulation)
        limits_s = meeting.limit_s, meeting.reach_limit_s
        simulation.join(_hello(prepared, directory), meeting.check, *limits_s)
        processes = await_ready(processes, prepared, directory, stack, simulation.check_alive)
        elsewhere = _elsewhere(prepared, meeting)
        others = self._reach_others(simulation, processes, output, elsewhere, watcher.note)
        started()
        with Interrupts() as interrupts:  # a rank may print, and be interrupted, as soon as it runs
            running = _start_ranks(prepared, directory, processes, channels)
            stall = StallWatch(directory.path, prepared.options.stall_limit_s)
            with _memory_watch(prepared, running.tops, elsewhere) as memory:
                agent = HostAgent(
                    *(channels, simulation, running, data, watcher),
                    output=output,
                    memory=memory,
                    stall=stall,
                    interrupts=interrupts,
                    until_steady=prepared.options.until_steady,
                    others=others,
                    keeps_data=isinstance(output, RankOutput),
                )
                outcome = agent.run()
                self.told = agent.told
                return replace(outcome, host_memory=memory.to_dict())

    def _reach_others(
        self,
        simulation: Simulation,
        processes: RankProcesses,
        output: RankOutput | Printed,
        elsewhere: Elsewhere,
        note: Callable[[str], None],
    ) -> OtherHosts | None:
        prepared = self._prepared
        if prepared.share is None:
            return None
        ranks = sorted(set(prepared.live_ranks) - set(prepared.local_ranks))
        own_network = prepared.isolation.own_network
        by_address = {node_address(prepared.layout.node(rank), own_network): rank for rank in ranks}
        neighbours = Neighbours(ranks, by_address, elsewhere)
        relay = Relay(simulation, self._directory.path, processes.cable, neighbours, note)
        self._stack.enter_context(relay)
        simulation.deliver_parcels(relay.take)
        if not isinstance(output, Printed):
            return OtherHosts(relay)
        share, run_dir = prepared.share, self._directory.path
        kept = KeptFiles(simulation, run_dir, share.ranks, share.host, share.index)
        return OtherHosts(relay, output, kept)


def _elsewhere(prepared: Prepared, meeting: Meeting) -> Elsewhere:
    """What is known of other hosts before they tell; nothing but on the first one."""
    others = prepared.hosts.shares[1:] if prepared.hosts else ()
    names = {share.ranks[0]: share.host for share in others}
    return Elsewhere(names, dict.fromkeys(names, 0), meeting.agents)


def _memory_watch(prepared: Prepared, tops: Mapping[int, int], elsewhere: Elsewhere) -> MemoryWatch:
    """The first host holds the limit; the others tell it what they take."""
    limit_bytes = prepared.options.memory_limit_bytes
    if limit_bytes is None or prepared.share is None or prepared.share.index == 0:
        return MemoryWatch(limit_bytes, tops, elsewhere=elsewhere)
    part = len(prepared.local_ranks) / len(prepared.live_ranks)
    return MemoryWatch(None, tops, told_bytes=part * limit_bytes)


def _start_ranks(
    prepared: Prepared,
    directory: RunDirectory,
    processes: RankProcesses,
    channels: "ChannelSet",
) -> RankProcesses | OwnRanks:
    launch = prepared.command.launch
    if launch is not None and launch.own_ranks:
        processes.start(0)
        return OwnRanks(processes, channels, prepared.layout.ranks, directory.path)
    is_first = prepared.share is None or prepared.share.index == 0
    if prepared.options.script is not None and is_first:  # which is where the script runs
        processes.beside = Beside(prepared.options.script, frozenset())
    for rank in prepared.local_ranks:
        processes.start(rank)
    return processes


def write_files(prepared: Prepared, directory: RunDirectory) -> None:
    """What the ranks of this host find in the run directory."""
    options, layout = prepared.options, prepared.layout
    settings = {
        **prepared.gpu.shim_keys(),
        "ranks": str(layout.ranks),
        "gpu.count": str(layout.visible_gpus),
        "host_time": options.host_time,
        "host_tensors": options.host_tensors,
        "unsupported": options.unsupported,
        "values.threshold_bytes": str(options.values_threshold_bytes),
        "launches": str(int(options.gpu)),
        **interpreter.shim_keys(prepared.command.program.torch),
    }
    if prepared.fold is not None:
        settings["fold.live"] = str(len(prepared.live_ranks))
        fold = prepared.fold
        stand_for = (
            rank if fold.is_live(rank) else fold.representative(rank)
            for rank in range(layout.ranks)
        )
        (directory.path / RANKS).write_text("\n".join(map(str, stand_for)), encoding="ascii")
        if prepared.fold.searches:
            (directory.path / SEARCHES).touch()
    if not prepared.isolation.own_network:
        settings["network.shared"] = "1"
    launch = prepared.command.launch
    if options.script is not None or (launch is not None and launch.own_ranks):
        settings["processes_beside"] = "1"
    if prepared.cpu is not None:
        settings |= prepared.cpu.shim_keys()
    if options.host_samples:
        settings["host_samples"] = "1"
    rundir.write_settings(directory, settings, prepared.epoch or rundir.present())
    _write_other_nodes(prepared, directory)
    _write_for_hooks(prepared, directory)
    if prepared.host_gaps is not None:
        directory.host_gaps.write_text(prepared.host_gaps.to_text(), encoding="utf-8")
    rundir.write_hosts(directory, layout.nodes, prepared.isolation.own_network)
    if "mnt" in prepared.isolation.namespaces:
        for node in range(layout.nodes):
            container.make_shared_memory(directory.path, node_name(node))


def _write_for_hooks(prepared: Prepared, directory: RunDirectory) -> None:
    """What the Python of a rank looks for."""
    options = prepared.options
    prepared.expert_load.write(directory.path)
    if prepared.data_time is not None:
        prepared.data_time.write(directory.path)
    execution_traces.prepare(directory.path, options)
    iteration = options.iteration or ""
    if iteration.startswith("call:"):
        call = iteration.removeprefix("call:")
        (directory.path / CALL_FILE).write_text(call, encoding="utf-8")
    if options.memory_kinds:
        (directory.path / KINDS_FILE).touch()
    if options.modules:
        (directory.path / MODULES_FILE).touch()


def _write_other_nodes(prepared: Prepared, directory: RunDirectory) -> None:
    """What ranks find whose nodes are not of the first one's type."""
    cluster, layout = prepared.cluster, prepared.layout
    first = cluster.node(0)
    for rank in prepared.live_ranks:
        node = cluster.node(layout.node(rank))
        if node is first:
            continue
        gpu = prepared.other_gpus.get(node.gpu, prepared.gpu)
        gpus = prepared.options.gpus_per_node or node.gpus_per_node
        rundir.write_rank_settings(directory, rank, {**gpu.shim_keys(), "gpu.count": str(gpus)})


def settings_of(prepared: Prepared, directory: RunDirectory) -> Settings:
    """What is simulated."""
    layout = prepared.layout
    return Settings(
        ranks=layout.ranks,
        nodes=layout.nodes,
        gpus_per_node=layout.ranks_per_node,
        cluster=prepared.cluster,
        gpu=prepared.gpu,
        nccl_environment=prepared.nccl_variables,
        nccl_version=interpreter.nccl_version(prepared.command.program.torch),
        other_gpus=prepared.other_gpus,
        cache=cache_settings(prepared.options, prepared.gpu, prepared.command.program),
        executor=executor_settings(prepared.options, prepared.command, directory.launches),
        iteration=prepared.options.iteration,
        lookups=prepared.lookups,
        fold=prepared.fold,
    )


def _hello(prepared: Prepared, directory: RunDirectory) -> wire.Hello:
    environment = program_environment(prepared.gpu, prepared.command.program)
    return make_hello(
        settings_of(prepared, directory),
        prepared.local_ranks,
        cuda=environment.cuda,
        libraries=environment.libraries,
        until_steady=prepared.options.until_steady,
        host="" if prepared.share is None else prepared.share.host,
    )

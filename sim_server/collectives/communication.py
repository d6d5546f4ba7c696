"""Communication of a run in virtual time: operations become delays and flows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import simpy

from sim_server.cluster import Calibration, Cluster, GpuNumbers, place
from sim_server.collectives.environment import NcclEnvironment
from sim_server.collectives.group import Group
from sim_server.collectives.library import Library
from sim_server.collectives.selection import Plan, Selection
from sim_server.collectives.tuning import comm_init_ns
from sim_server.collectives.version import NEWEST
from sim_server.network import Batch, FlowNetwork, Gpu, LinkUse, Replicas, Topology
from sim_server.records.operations import Operation

# Flows of the plans that are kept for operations that come again; with more, all are dropped.
_PLANNED_FLOWS = 200_000


# What limits an operation that takes longer to start than to move its bytes.
_LATENCY = "latency"


class Way(NamedTuple):
    """How an operation is carried out, as NCCL_ALGO and NCCL_PROTO name it."""

    algorithm: str
    protocol: str
    limited_by: str = ""
    """What it took its time for, known when it has ended: a class of links, "channels" or
    "latency"."""


class Communication:
    """Carries out operations on a cluster's network.

    Its members are GPUs by their numbers (`GpuNumbers`): a rank's own has the rank's. Times are
    integer nanoseconds of the environment.
    """

    def __init__(
        self,
        env: simpy.Environment,
        cluster: Cluster,
        nodes: int,
        gpus_per_node: int,
        environment: Mapping[str, str] | None = None,
        *,
        nccl_version: int = NEWEST,
    ) -> None:
        """`environment` holds the NCCL_* variables of the program.

        Raises: UsageError when the cluster is too small or names an unknown tuning, or a variable
        cannot be understood.
        """
        place(cluster, nodes=nodes, gpus_per_node=gpus_per_node)
        self._env = env
        self._numbers = GpuNumbers.of(cluster, nodes, gpus_per_node)
        self._cluster = cluster
        self._nodes = nodes
        variables = NcclEnvironment.read(environment or {}, nccl_version)
        self._topology = topology = Topology(
            cluster,
            nodes,
            variables.used_nics,
            peer_to_peer=variables.peer_to_peer,
            pxn=variables.pxn,
        )
        self.links = topology.links
        """What demands name by number."""
        self.link_use = LinkUse(topology.links)
        capacities = [link.capacity_bytes_per_s for link in topology.links]
        settling = topology.settling
        self.flows = FlowNetwork(env, capacities, use=self.link_use, settling=settling)
        self._limits: dict[simpy.Event, str] = {}
        self._parted: dict[simpy.Event, Sequence[Batch]] = {}
        library = Library(cluster, nodes, cluster.calibration)
        self._selection = Selection(topology, library, variables)
        self._groups: dict[tuple[int, ...], Group] = {}
        self._plans: dict[tuple[Operation, ...], Plan] = {}
        self._planned_flows = 0

    def start(self, operation: Operation) -> simpy.Event:
        """Start an operation now, when all its participants have arrived.

        The event fires when the operation is done; its value is the list of end times in ns, in the
        order of `operation.participants`, none of them earlier than the event.
        """
        (done,) = self.start_group([operation])
        return done

    def start_group(
        self, operations: Sequence[Operation], replicas: Replicas | None = None
    ) -> list[simpy.Event]:
        """Start operations of one launch now; they share the links. One event each, as of `start`.

        Sends of a launch are one exchange: NCCL issues them from one kernel. `replicas` do as these
        do, which are collectives then.
        """
        events = [self._env.event() for _ in operations]
        exchange = []
        for operation, done in zip(operations, events, strict=True):
            if operation.is_point_to_point and self._moves(operation):
                exchange.append((operation, done))
            else:
                self._carry_out(operation, done, replicas)
        if exchange:
            self._exchange(exchange)
        return events

    def plan(self, *operations: Operation) -> Plan:
        """How an operation of at least two ranks, or the sends of one launch, are carried out by
        themselves."""
        return self._plan(operations)

    def calibrate(self, calibration: Calibration) -> None:
        """Replace the cluster's calibration for what starts from now on."""
        self._selection.library = Library(self._cluster, self._nodes, calibration)
        self._plans.clear()
        self._planned_flows = 0

    def estimate_ns(self, operation: Operation) -> float:
        """Time of a collective of at least two ranks alone, without simulating it."""
        group = self._group(operation.participants)
        return self._selection.estimate_ns(operation, group)

    def ways(self, operations: Sequence[Operation]) -> list[Way | None]:
        """How the operations of one launch are carried out; None where no bytes move."""
        moving = [one for one in operations if self._moves(one)]
        exchange = tuple(one for one in moving if one.is_point_to_point)
        plans = {one: self._plan(exchange if one.is_point_to_point else (one,)) for one in moving}
        return [
            Way(plans[one].algorithm.value, plans[one].protocol.value) if one in plans else None
            for one in operations
        ]

    def limited_by(self, done: simpy.Event) -> str:
        """What limited an operation that has just ended; asked once for each that moved bytes."""
        return self._limits.pop(done, "")

    def replicas(
        self, members: tuple[int, ...], others: Sequence[tuple[int, ...]]
    ) -> Replicas | None:
        """Groups whose collectives may start with those of these members, as `start_group` has it;
        None: they may not, and start by themselves.
        """
        groups = [[*self._group(one).gpu.values()] for one in (members, *others)]
        types = [self._cluster.node(gpu.node) for gpus in groups for gpu in gpus]
        if any(one != types[0] for one in types):
            return None
        return Replicas.of(self._topology, groups[0], groups[1:])

    def parted(self, done: simpy.Event) -> Sequence[Batch]:
        """Of an operation with replicas that has just ended: the flows of those that went on by
        themselves. Asked once for each.
        """
        return self._parted.pop(done, ())

    def _plan(self, operations: tuple[Operation, ...]) -> Plan:
        """The plan of a collective, or of the sends of one launch."""
        plan = self._plans.get(operations)
        if plan is None:
            ranks = dict.fromkeys(rank for one in operations for rank in one.participants)
            group = self._group(tuple(ranks))
            if operations[0].is_point_to_point:
                plan = self._selection.plan_exchange(operations, group)
            else:
                plan = self._selection.plan(operations[0], group)
            self._planned_flows += len(plan.demands)
            if self._planned_flows > _PLANNED_FLOWS:
                self._plans.clear()
                self._planned_flows = len(plan.demands)
            self._plans[operations] = plan
        return plan

    @staticmethod
    def comm_init_ns(ranks: int) -> int:
        """Duration of the creation of a communicator."""
        return comm_init_ns(ranks)

    def _carry_out(
        self, operation: Operation, done: simpy.Event, replicas: Replicas | None
    ) -> None:
        """A collective: its steps until the pipeline is full, then its flows."""
        if operation.count == 0:
            self._after(0, lambda: self._end(operation, done))  # NCCL launches nothing
        elif not self._moves(operation):
            self._after(self._copy_ns(operation), lambda: self._end(operation, done))
        else:
            plan = self.plan(operation)

            def move() -> None:
                flows = self.flows.start(plan.demands, plan.fold, replicas)
                if replicas is not None:
                    self._parted[done] = flows.parted
                self._end_with(flows, operation, done, plan.startup_ns)

            self._after(plan.startup_ns, move)

    def _exchange(self, sends: list[tuple[Operation, simpy.Event]]) -> None:
        """Sends and receives: each ends with its own flow."""
        plan = self._plan(tuple(operation for operation, _ in sends))

        def move() -> None:
            for (operation, done), demand in zip(sends, plan.demands, strict=True):
                self._end_with(self.flows.start((demand,)), operation, done, plan.startup_ns)

        self._after(plan.startup_ns, move)

    def _end_with(
        self, flows: Batch, operation: Operation, done: simpy.Event, startup_ns: int
    ) -> None:
        begin_ns = int(self._env.now)

        def end() -> None:
            is_short = int(self._env.now) - begin_ns < startup_ns
            self._limits[done] = _LATENCY if is_short else flows.limit
            self._end(operation, done)

        _when(flows.done, end)

    def _after(self, delay_ns: int, action: Callable[[], None]) -> None:
        _when(self._env.timeout(delay_ns), action)

    def _end(self, operation: Operation, done: simpy.Event) -> None:
        done.succeed([int(self._env.now)] * len(operation.participants))

    @staticmethod
    def _moves(operation: Operation) -> bool:
        """Whether there are bytes for other ranks."""
        one = operation.participants[0]
        return operation.count > 0 and any(one != other for other in operation.participants)

    def _group(self, ranks: tuple[int, ...]) -> Group:
        group = self._groups.get(ranks)
        if group is None:
            gpus = [Gpu(*self._numbers.place(rank)) for rank in ranks]
            group = self._groups[ranks] = Group(ranks, gpus)
        return group

    def _copy_ns(self, operation: Operation) -> int:
        """A rank alone copies its buffer: assumed at the speed of NVLink after a launch of 2 us."""
        node, _ = self._numbers.place(operation.participants[0])
        speed_bytes_per_s = self._cluster.node(node).nvlink.bandwidth_bytes_per_s
        return 2_000 + -(-operation.buffer_bytes * 10**9 // speed_bytes_per_s)


def _when(event: simpy.Event, action: Callable[[], None]) -> None:
    """Act when an event happens. A process would cost several times as much."""
    assert event.callbacks is not None, "it has not happened yet"
    event.callbacks.append(lambda _: action())

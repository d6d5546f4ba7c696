"""Communication of a run in virtual time: operations become processes of delays and flows."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

import simpy

from sim_server.cluster import Cluster, place
from sim_server.collectives.group import Group
from sim_server.collectives.selection import Plan, Selection
from sim_server.collectives.tuning import comm_init_ns
from sim_server.network import FlowNetwork, Gpu, Topology
from sim_server.operations import Operation

# Plans kept for operations that come again; beyond that many the memory starts anew.
_PLANS = 4096


class Communication:
    """Carries out operations on a cluster's network.

    Global rank r sits on node r // gpus_per_node, on GPU r % gpus_per_node. Times are integer
    nanoseconds of the environment.
    """

    def __init__(
        self,
        env: simpy.Environment,
        cluster: Cluster,
        nodes: int,
        gpus_per_node: int,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`environment` holds the NCCL_* variables of the program.

        Raises: UsageError when the cluster is too small or names an unknown tuning.
        """
        place(cluster, nodes=nodes, gpus_per_node=gpus_per_node)
        self._env = env
        self._gpus_per_node = gpus_per_node
        self._cluster = cluster
        topology = Topology(cluster, nodes)
        self.flows = FlowNetwork(env, [link.capacity_bytes_per_s for link in topology.links])
        self._selection = Selection(topology, cluster.collectives, environment or {})
        self._groups: dict[tuple[int, ...], Group] = {}
        self._plans: dict[Operation, Plan] = {}

    def start(self, operation: Operation) -> simpy.Event:
        """Start an operation now, when all its participants have arrived.

        The event's value is the list of end times in ns, in the order of `operation.participants`.
        """
        done = self._env.event()
        self._env.process(self._carry_out(operation, done))
        return done

    def start_group(self, operations: list[Operation]) -> list[simpy.Event]:
        """Start operations of one launch now; they share the links. One event each, as of
        `start`."""
        return [self.start(operation) for operation in operations]

    def plan(self, operation: Operation) -> Plan:
        """How an operation between different ranks would be carried out."""
        plan = self._plans.get(operation)
        if plan is None:
            if len(self._plans) >= _PLANS:
                self._plans.clear()
            plan = self._selection.plan(operation, self._group(operation.participants))
            self._plans[operation] = plan
        return plan

    @staticmethod
    def comm_init_ns(ranks: int) -> int:
        """Duration of the creation of a communicator."""
        return comm_init_ns(ranks)

    def _carry_out(
        self, operation: Operation, done: simpy.Event
    ) -> Generator[simpy.Event, Any, None]:
        participants = operation.participants
        if operation.count == 0:
            yield self._env.timeout(0)  # NCCL launches nothing
        elif len(set(participants)) == 1:
            yield self._env.timeout(self._copy_ns(operation))
        else:
            plan = self.plan(operation)
            yield self._env.timeout(plan.startup_ns)
            flows_ns = yield self.flows.start(plan.demands).done
            if not plan.coupled:
                done.succeed(_own_ends_ns(plan, flows_ns, participants))
                return
        done.succeed([int(self._env.now)] * len(participants))

    def _group(self, ranks: tuple[int, ...]) -> Group:
        group = self._groups.get(ranks)
        if group is None:
            gpus = [Gpu(*divmod(rank, self._gpus_per_node)) for rank in ranks]
            group = self._groups[ranks] = Group(ranks, gpus)
        return group

    def _copy_ns(self, operation: Operation) -> int:
        """A rank alone copies its buffer: assumed at the speed of NVLink after a launch of 2 us."""
        speed_bytes_per_s = self._cluster.nvlink.bandwidth_bytes_per_s
        return 2_000 + -(-operation.buffer_bytes * 10**9 // speed_bytes_per_s)


def _own_ends_ns(plan: Plan, flows_ns: list[int], participants: tuple[int, ...]) -> list[int]:
    """When the last flow from or to each participant ended."""
    ends_ns: dict[int | None, int] = {}
    for transfer, end_ns in zip(plan.transfers, flows_ns, strict=True):
        for rank in transfer[:2]:
            ends_ns[rank] = max(ends_ns.get(rank, 0), end_ns)
    return [ends_ns[rank] for rank in participants]

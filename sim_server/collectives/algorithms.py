"""Which algorithms can do an operation for a group, by what the hardware and the user allow.

The conditions are those of NCCL: src/graph/tuning.cc and src/enqueue.cc, versions 2.20.3 (rings,
trees, NVLS) and 2.24 (PAT, CollNet, NVLS for all-gather and reduce-scatter).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from sim_server.collectives.collnet import (
    collnet_chain_shape,
    collnet_direct_shape,
    nvls_sharp_shape,
)
from sim_server.collectives.direct import rooted_shape
from sim_server.collectives.environment import NcclEnvironment
from sim_server.collectives.group import Group
from sim_server.collectives.nvls import nvls_shape, nvls_tree_shape, switch_can_reduce
from sim_server.collectives.pairwise import pairwise_shape
from sim_server.collectives.pat import pat_shape
from sim_server.collectives.ring import ring_shape
from sim_server.collectives.shape import Shape
from sim_server.collectives.tree import tree_shape
from sim_server.collectives.tuning import Algorithm
from sim_server.collectives.version import came_later
from sim_server.network import Topology
from sim_server.records import NcclOpKind
from sim_server.records.operations import Operation

_BY_NVSWITCH = (Algorithm.NVLS, Algorithm.NVLS_TREE)
_BY_NETWORK = (Algorithm.COLLNET_DIRECT, Algorithm.COLLNET_CHAIN)

# ncclAvg and sums scaled by the user come after sum, product, maximum and minimum in ncclRedOp_t.
_FIRST_SCALED = 4


@dataclass(frozen=True)
class Abilities:
    """What the ranks of a group can use."""

    nvswitch: bool
    """NVLink through a switch in each of their nodes, over which they reach each other."""
    sharp: bool
    """Switches between nodes that add up, and leave to use them."""
    pat: bool
    """Leave to use PAT."""
    missing: Collection[Algorithm]
    """What the version of the library does not have."""
    alternating_rings: bool
    """Rings change the NIC in every node (see `sim_server.collectives.ring`)."""
    nics_per_node: int
    """Of the node that has fewest."""


def abilities(topology: Topology, environment: NcclEnvironment, group: Group) -> Abilities:
    """What topology and variables allow a group.

    NCCL_CROSS_NIC=2, the default, changes the NIC only where that is better: where a rail cannot
    be kept otherwise.
    """
    nodes = group.node_numbers
    leaves_rail = topology.has_rails and not (topology.pxn and topology.has_nvlink(nodes))
    return Abilities(
        nvswitch=topology.has_nvlink(nodes),
        sharp=topology.has_sharp and environment.collnet,
        pat=environment.pat,
        missing=came_later(environment.version),
        alternating_rings=environment.cross_nic == 1
        or (environment.cross_nic != 0 and leaves_rail),
        nics_per_node=min(map(topology.nics_of, nodes)),
    )


def shapes(
    kind: NcclOpKind, group: Group, root: int, has: Abilities
) -> Iterator[tuple[Algorithm, Shape]]:
    """Every algorithm that can do this kind of operation."""
    if kind is NcclOpKind.ALL_TO_ALL:
        yield Algorithm.DIRECT, pairwise_shape(group)
        return
    if kind in (NcclOpKind.GATHER, NcclOpKind.SCATTER):
        yield Algorithm.DIRECT, rooted_shape(kind, group, root)
        return
    found: dict[Algorithm, Shape | None] = {
        Algorithm.RING: ring_shape(kind, group, root, alternating=has.alternating_rings),
        Algorithm.TREE: tree_shape(kind, group),
    }
    if has.nvswitch:  # that NVLS goes with peer-to-peer access is assumed
        found[Algorithm.NVLS] = nvls_shape(kind, group)
        found[Algorithm.NVLS_TREE] = nvls_tree_shape(kind, group)
    if has.pat:
        found[Algorithm.PAT] = pat_shape(kind, group)
    if has.sharp:
        found[Algorithm.COLLNET_CHAIN] = collnet_chain_shape(kind, group)
    if has.sharp and has.nvswitch:
        direct = collnet_direct_shape(kind, group, has.nics_per_node)
        found[Algorithm.COLLNET_DIRECT] = direct
        found[Algorithm.NVLS] = found[Algorithm.NVLS] or nvls_sharp_shape(kind, group)
    yield from (
        (algorithm, shape)
        for algorithm, shape in found.items()
        if shape is not None and algorithm not in has.missing
    )


def can_compute(algorithm: Algorithm, operation: Operation, environment: NcclEnvironment) -> bool:
    """Whether an algorithm can do the arithmetic of this operation."""
    gathers = operation.kind is NcclOpKind.ALL_GATHER
    if algorithm in _BY_NVSWITCH:
        return environment.nvls and (gathers or switch_can_reduce(operation))
    if algorithm in _BY_NETWORK:  # that these switches add what an NVSwitch adds is assumed
        return gathers or switch_can_reduce(operation)
    return algorithm is not Algorithm.PAT or gathers or operation.reduction < _FIRST_SCALED

"""Which algorithms can do an operation for a group, by what the hardware and the user allow.

The conditions are those of NCCL: src/graph/tuning.cc and src/enqueue.cc, versions 2.20.3 (rings,
trees, NVLS) and 2.24 (PAT, CollNet, NVLS for all-gather and reduce-scatter).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from sim_server.network import Topology
from sim_server.records import NcclOpKind
from sim_server.records.operations import Operation

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
    version: int
    """Of the library, as ncclGetVersion tells it."""
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
        version=environment.version,
        alternating_rings=environment.cross_nic == 1
        or (environment.cross_nic != 0 and leaves_rail),
        nics_per_node=min(map(topology.nics_of, nodes)),
    )


def _always(*_: object) -> bool:
    return True


def _switch_computes(operation: Operation, environment: NcclEnvironment) -> bool:
    """Whether an NVSwitch does it, or there is nothing to add."""
    gathers = operation.kind is NcclOpKind.ALL_GATHER
    return environment.nvls and (gathers or switch_can_reduce(operation))


def _network_computes(operation: Operation, _environment: NcclEnvironment) -> bool:
    """That switches between nodes add what an NVSwitch adds is assumed."""
    return operation.kind is NcclOpKind.ALL_GATHER or switch_can_reduce(operation)


def _unscaled(operation: Operation, _environment: NcclEnvironment) -> bool:
    return operation.kind is NcclOpKind.ALL_GATHER or operation.reduction < _FIRST_SCALED


@dataclass(frozen=True)
class Row:
    """What there is to know of an algorithm beside its costs (`sim_server.collectives.tuning`)."""

    algorithm: Algorithm
    shape: Callable[[NcclOpKind, Group, int, Abilities], Shape | None]
    """By kind of operation, group and root; None: it cannot do that."""
    is_possible: Callable[[Abilities], bool] = _always
    computes: Callable[[Operation, NcclEnvironment], bool] = _always
    """Whether it can do the arithmetic."""
    since: int = 0
    """The first version that has it. Source: NCCL's release notes, "Key Features and
    Enhancements"."""


def _nvls(kind: NcclOpKind, group: Group, _root: int, has: Abilities) -> Shape | None:
    return nvls_shape(kind, group) or (nvls_sharp_shape(kind, group) if has.sharp else None)


ROWS = (
    Row(
        Algorithm.RING,
        lambda kind, group, root, has: ring_shape(
            kind, group, root, alternating=has.alternating_rings
        ),
    ),
    Row(Algorithm.TREE, lambda kind, group, _root, _has: tree_shape(kind, group)),
    # That NVLS goes with peer-to-peer access is assumed.
    Row(Algorithm.NVLS, _nvls, lambda has: has.nvswitch, _switch_computes, 21700),
    Row(
        Algorithm.NVLS_TREE,
        lambda kind, group, _root, _has: nvls_tree_shape(kind, group),
        lambda has: has.nvswitch,
        _switch_computes,
        21800,
    ),
    Row(
        Algorithm.PAT,
        lambda kind, group, _root, _has: pat_shape(kind, group),
        lambda has: has.pat,
        _unscaled,
        22300,
    ),
    Row(
        Algorithm.COLLNET_CHAIN,
        lambda kind, group, _root, _has: collnet_chain_shape(kind, group),
        lambda has: has.sharp,
        _network_computes,
    ),
    Row(
        Algorithm.COLLNET_DIRECT,
        lambda kind, group, _root, has: collnet_direct_shape(kind, group, has.nics_per_node),
        lambda has: has.sharp and has.nvswitch,
        _network_computes,
    ),
)
"""NCCL's algorithms. The first of equally quick ones is taken."""
_COMPUTES = {row.algorithm: row.computes for row in ROWS}


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
    for row in ROWS:
        if has.version >= row.since and row.is_possible(has):
            shape = row.shape(kind, group, root, has)
            if shape is not None:
                yield row.algorithm, shape


def can_compute(algorithm: Algorithm, operation: Operation, environment: NcclEnvironment) -> bool:
    """Whether an algorithm can do the arithmetic of this operation."""
    return algorithm not in _COMPUTES or _COMPUTES[algorithm](operation, environment)

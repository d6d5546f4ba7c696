"""The GPUs of a cluster's nodes: built in, or a change of one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from sim_server.cluster.description import Cluster, GpuChanges, NodeType
from sim_server.cluster.settings import read_record
from sim_server.errors import UsageError
from sim_server.gpu import GpuProfile, changed_gpu, load_gpu, profile_names


def gpu_of_node(node: NodeType) -> GpuProfile:
    """The profile of a node's GPUs. Raises: UsageError."""
    changes = dataclasses.asdict(node.gpu_changes)
    base, device_name = changes.pop("base"), changes.pop("device_name")
    if base is None:
        return load_gpu(node.gpu)
    return changed_gpu(load_gpu(base), node.gpu, name=device_name, **changes)


def gpu_table(below: object, own: object) -> object:
    """What a file's `gpu` says on top of its base's: a table changes the GPU of the base."""
    if not isinstance(own, Mapping):
        return own
    return {"base": below, **own} if isinstance(below, str) else own


def part_gpu(table: dict[str, Any], where: str) -> None:
    """Parts `[gpu]` of a description of nodes into the GPU's name and how it differs.

    Raises: UsageError.
    """
    gpu = table.get("gpu")
    if isinstance(gpu, Mapping):
        own = {key: value for key, value in gpu.items() if key != "name"}
        table["gpu_changes"] = read_record(GpuChanges, own, "gpu.", where)
        table["gpu"] = gpu.get("name", f"{gpu.get('base')} changed")


def gpu_fault(cluster: Cluster) -> str | None:
    """What is wrong with the GPUs of a cluster; None when nothing is."""
    named: dict[str, NodeType] = {}
    for node in (cluster, *cluster.node_groups):
        changes = node.gpu_changes
        if changes.base is None and any(dataclasses.astuple(changes)):
            return "gpu: says what differs, and not from what; add base, a built-in GPU"
        if changes.base is not None and node.gpu in profile_names():
            return f"gpu.name: '{node.gpu}' is a built-in GPU; give the changed one another name"
        if named.setdefault(node.gpu, node).gpu_changes != changes:
            return f"gpu.name: there are two different '{node.gpu}'; give each a name of its own"
        try:
            gpu_of_node(node)
        except UsageError as error:
            return f"gpu: {error}"
    return None

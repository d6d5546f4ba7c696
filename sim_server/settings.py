"""What a run needs to know on the server, as the agent's Hello carries it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sim_server.cluster import Cluster, GpuNumbers, gpu_of_node
from sim_server.cluster.recorded import check_recorded
from sim_server.collectives.version import NEWEST
from sim_server.files.schema import (
    Check,
    Fault,
    anything,
    flag,
    mapping,
    number,
    optional,
    parse,
    row,
    rows,
    text,
    whole,
)
from sim_server.fold import Fold
from sim_server.gpu import GpuProfile


@dataclass(frozen=True)
class Settings:
    """The resolved inputs of a simulation; equal settings and equal record streams give equal
    results.
    """

    ranks: int
    nodes: int
    gpus_per_node: int
    cluster: Cluster
    gpu: GpuProfile
    """Of the first node."""
    nccl_environment: Mapping[str, str] = field(default_factory=dict)
    """The NCCL_* variables of the program."""
    nccl_version: int = NEWEST
    """Of the program's NCCL, as ncclGetVersion tells it."""
    cache: Mapping[str, str] | None = None
    """The timing cache: `path`, and `cuda` and `libraries`, what the program runs on (see
    `timing_cache.Environment`). The data file has what was taken from it."""
    executor: Mapping[str, Any] | None = None
    """What measures on a real GPU while the run goes on: `command`, `origin`, `limit_s` for
    one signature, and `launches`, where ranks write down theirs (`sim_server.kernels.executor`)."""
    iteration: str | None = None
    """What ends an iteration, as `--iteration` says; None: that is found out."""
    other_gpus: Mapping[str, GpuProfile] = field(default_factory=dict)
    """By profile, those of other nodes that are not the first's."""
    fold: Fold | None = None
    """Which ranks run; None: all."""

    @property
    def live_ranks(self) -> Sequence[int]:
        """The ranks that run, in order."""
        return range(self.ranks) if self.fold is None else self.fold.live

    def gpu_of(self, rank: int) -> GpuProfile:
        """The GPU of a rank."""
        profile = self.cluster.node(rank // self.gpus_per_node).gpu
        return self.other_gpus.get(profile, self.gpu)

    @property
    def gpu_numbers(self) -> GpuNumbers:
        """What the GPUs of the run are called."""
        return GpuNumbers.of(self.cluster, self.nodes, self.gpus_per_node)

    def to_json(self) -> str:
        """The JSON text of Hello.settings."""
        return json.dumps(
            {
                "ranks": self.ranks,
                "nodes": self.nodes,
                "gpus_per_node": self.gpus_per_node,
                "cluster": self.cluster.to_dict(),
                "gpu": self.gpu.to_dict(),
                "nccl_environment": dict(self.nccl_environment),
                "nccl_version": self.nccl_version,
                "cache": self.cache and dict(self.cache),
                "other_gpus": {name: gpu.to_dict() for name, gpu in self.other_gpus.items()},
                "executor": self.executor and dict(self.executor),
                "iteration": self.iteration,
                **({} if self.fold is None else {"fold": self.fold.to_dict()}),
            },
            sort_keys=True,
        )

    @classmethod
    def from_json(cls, content: str) -> Settings:
        """Inverse of `to_json`. Raises: Fault for anything else."""
        values: dict[str, Any] = parse(content)
        try:
            settings = cls._from_dict(values)
            check_recorded(settings.cluster)
            for profile in (values["gpu"], *values.get("other_gpus", {}).values()):
                _check_gpu(profile)
        except Fault:
            raise
        except (*_MISSHAPEN, AssertionError) as error:
            raise Fault(f"it is not what a server is told: {error!r}") from error
        if settings.ranks > settings.nodes * settings.gpus_per_node:
            raise Fault(f"{settings.ranks} ranks do not fit on its nodes")
        if settings.fold is not None and settings.fold.ranks != settings.ranks:
            raise Fault(f"its fold is one of {settings.fold.ranks} ranks")
        return settings

    @classmethod
    def _from_dict(cls, values: Mapping[str, Any]) -> Settings:
        for name in ("ranks", "nodes", "gpus_per_node"):
            whole(1, 1 << 20)(values[name])
        mapping(text)(values["nccl_environment"])
        whole()(values.get("nccl_version", NEWEST))
        optional(text)(values.get("iteration"))
        for name in ("cache", "executor"):
            optional(mapping(anything))(values.get(name))
        return cls(
            ranks=values["ranks"],
            nodes=values["nodes"],
            gpus_per_node=values["gpus_per_node"],
            cluster=Cluster.from_dict(values["cluster"]),
            gpu=GpuProfile.from_dict(values["gpu"]),
            nccl_environment=values["nccl_environment"],
            nccl_version=values.get("nccl_version", NEWEST),
            cache=values.get("cache"),
            other_gpus={
                name: GpuProfile.from_dict(gpu)
                for name, gpu in values.get("other_gpus", {}).items()
            },
            executor=values.get("executor"),
            iteration=values.get("iteration"),
            fold=Fold.from_dict(values["fold"]) if values.get("fold") else None,
        )


def _check_gpu(profile: Mapping[str, Any]) -> None:
    """What a profile holds are finite numbers, but for a few names. Raises: Fault."""
    for name, value in profile.items():
        check = _OF_GPU.get(name, rows(number()) if isinstance(value, list) else number())
        try:
            _check_gpu(value) if name not in _OF_GPU and isinstance(value, Mapping) else check(
                value
            )
        except Fault as fault:
            raise fault.below(f".{name}") from None


_OF_GPU: Mapping[str, Check] = {
    **dict.fromkeys(("profile", "name", "driver_release"), text),
    "assumed": flag,
    "intervals": mapping(row(number(), number(), text)),
}
_MISSHAPEN = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError)


def load_gpus(cluster: Cluster, nodes: int) -> tuple[GpuProfile, dict[str, GpuProfile]]:
    """The GPU of the first node, and by profile those of other nodes. Raises: UsageError."""
    gpus = {node.gpu: gpu_of_node(node) for node in cluster.node_types(nodes)}
    return gpus.pop(next(iter(gpus))), gpus

"""What a run needs to know on the server, as the agent's Hello carries it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sim_server.cluster import Cluster
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
    nccl_environment: Mapping[str, str] = field(default_factory=dict)
    """The NCCL_* variables of the program."""
    cache: Mapping[str, str] | None = None
    """The timing cache: `path`, and `cuda`, the version that the program runs on. The data file
    has what was taken from it."""

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
                "cache": self.cache and dict(self.cache),
            },
            sort_keys=True,
        )

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """Inverse of `to_json`."""
        values: dict[str, Any] = json.loads(text)
        return cls(
            ranks=values["ranks"],
            nodes=values["nodes"],
            gpus_per_node=values["gpus_per_node"],
            cluster=Cluster.from_dict(values["cluster"]),
            gpu=GpuProfile.from_dict(values["gpu"]),
            nccl_environment=values["nccl_environment"],
            cache=values.get("cache"),
        )

"""What a run needs to know on the server, as the agent's Hello carries it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sim_server.cluster import Cluster, GpuNumbers, gpu_of_node
from sim_server.cluster.recorded import check_recorded
from sim_server.collectives.version import NEWEST
from sim_server.errors import UsageError
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

_MOST_DIGITS = 9
_ITERATION_FORMS = "optimizer:N, profiler, nvtx:NAME or call:MODULE:FUNCTION"


@dataclass(frozen=True)
class Choice:
    """What `--iteration` asks for."""

    by: str
    name: str = ""

    @property
    def text(self) -> str:
        """As it is written on the command line."""
        return f"{self.by}:{self.name}" if self.name else self.by


def check_choice(value: object) -> None:
    """Of a file: it is what `--iteration` takes. Raises: Fault."""
    text(value)
    try:
        parse_choice(str(value))
    except UsageError as error:
        raise Fault(str(error)) from error


def parse_choice(text: str) -> Choice:
    """Raises: UsageError if it is none."""
    by, _, name = text.partition(":")
    module, _, function = name.partition(":")
    is_right = {
        "optimizer": name.isdecimal() and len(name) <= _MOST_DIGITS,
        "profiler": text == "profiler",
        "nvtx": bool(name),
        "call": bool(module and function) and module != "__main__",
    }
    if module == "__main__" and by == "call":
        raise UsageError(
            f"--iteration {text}: functions of the program's own file cannot be watched; name one "
            "of a module that it imports, or mark iterations with phantora_py.mark_iteration()."
        )
    if not is_right.get(by, False):
        raise UsageError(f"--iteration {text}: it takes {_ITERATION_FORMS}.")
    return Choice(by, str(int(name)) if by == "optimizer" else name)


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
    one signature, and `launches`, where ranks write down theirs
    (`sim_server.processes.executor`)."""
    iteration: str | None = None
    """What ends an iteration, as `--iteration` says; None: that is found out."""
    other_gpus: Mapping[str, GpuProfile] = field(default_factory=dict)
    """By profile, those of other nodes that are not the first's."""
    fold: Fold | None = None
    """Which ranks run; None: all."""

    lookups: Sequence[Mapping[str, Any]] = ()
    """Embedding tables with the statistics of their lookups (docs/recommendation.md)."""

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
                **({"lookups": list(self.lookups)} if self.lookups else {}),
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
        rows(mapping(anything))(values.get("lookups", []))
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
            lookups=values.get("lookups", ()),
            fold=Fold.from_dict(values["fold"]) if values.get("fold") else None,
        )


def _check_gpu(profile: Mapping[str, Any]) -> None:
    """What a profile holds are numbers in the ranges that the models take. Raises: Fault."""
    for name, value in profile.items():
        try:
            if name in _OPTIONAL and value is None:
                continue
            if name not in _OF_GPU and isinstance(value, Mapping):
                _check_gpu(value)
            else:
                _check_of(name, value)(value)
        except Fault as fault:
            raise fault.below(f".{name}") from None


def _check_of(name: str, value: object) -> Check:
    if name in _OF_GPU:
        return _OF_GPU[name]
    one = number(1, _MOST) if name.endswith("_per_s") else number(0, _MOST)
    return rows(one) if isinstance(value, list) else one


_MOST = 1 << 60
_OPTIONAL = ("gemm_f32",)
_OF_GPU: Mapping[str, Check] = {
    **dict.fromkeys(("profile", "name", "driver_release"), text),
    "assumed": flag,
    "deviceNumaId": number(-1, _MOST),
    "efficiency": number(0.001, 1),
    "intervals": mapping(row(number(), number(), text)),
}
_MISSHAPEN = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError)


def load_gpus(cluster: Cluster, nodes: int) -> tuple[GpuProfile, dict[str, GpuProfile]]:
    """The GPU of the first node, and by profile those of other nodes. Raises: UsageError."""
    gpus = {node.gpu: gpu_of_node(node) for node in cluster.node_types(nodes)}
    return gpus.pop(next(iter(gpus))), gpus

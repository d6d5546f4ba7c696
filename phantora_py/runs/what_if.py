"""What a resimulation is to change of a recorded run, and what the recording does not allow.

What stays as it was recorded, and why, is in docs/decisions/resimulation.md.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Mapping, Sequence
from typing import Any

from phantora_py.data import RunData
from phantora_py.runs.scales import scale_settings
from sim_server.cluster import Cluster, place
from sim_server.collectives.environment import NcclEnvironment, not_modelled
from sim_server.errors import UsageError
from sim_server.gpu import GpuProfile
from sim_server.kernels import KernelScale, RatioTimer, RecordedTimer, ScaledTimer, Timer
from sim_server.settings import Settings, load_gpus
from sim_server.timings import model_timer

# Names that are shown where none matches.
_MOST_NAMES = 6


@dataclasses.dataclass(frozen=True)
class WhatIf:
    """Everything as it was recorded, unless told otherwise."""

    cluster: Cluster | None = None
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """NCCL's variables; an empty one is unset."""
    host_time_off: bool = False
    kernels: tuple[KernelScale, ...] = ()
    parts: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """By part of the cluster (`phantora_py.runs.scales`): how many times as much of it."""

    is_control: bool = False
    """Treat the run as one in which something changes, even if nothing does."""

    @property
    def host_factor(self) -> float:
        """What the program does between its calls takes so many times as long."""
        return 0.0 if self.host_time_off else self.parts.get("host", 1.0)

    def settings(self, data: RunData, recorded: Settings) -> Settings:
        """What is simulated. Raises: UsageError if the ranks of the recording would notice."""
        changed = recorded
        if self.cluster is not None:
            place(self.cluster, nodes=recorded.nodes, gpus_per_node=recorded.gpus_per_node)
            gpu, others = load_gpus(self.cluster, recorded.nodes)
            cache = recorded.cache if gpu.name == recorded.gpu.name else None
            changed = dataclasses.replace(
                changed, cluster=self.cluster, gpu=gpu, other_gpus=others, cache=cache
            )
            for rank in range(recorded.ranks):
                _check_gpu(changed.gpu_of(rank), recorded.gpu_of(rank), rank, data)
        if self.environment:
            variables = {**recorded.nccl_environment, **self.environment}
            variables = {name: value for name, value in variables.items() if value}
            for node in changed.cluster.node_types(recorded.nodes):
                NcclEnvironment.read(variables).used_nics(node.nic.per_node)
            changed = dataclasses.replace(changed, nccl_environment=variables)
        return scale_settings(changed, self.parts) if self.parts else changed

    def timer(self, data: RunData, settings: Settings) -> Timer:
        """How long kernels take. Raises: UsageError if a pattern names none of the run's."""
        names = {(timing["name"], timing["class"]) for timing in data.timings}
        for scale in self.kernels:
            if not any(scale.matches(*name) for name in names):
                raise UsageError(_no_kernel(scale.pattern, data))
        after = models = model_timer(settings)
        timer = after
        if settings.gpu.name == data.settings["gpu"]["name"]:
            if "memory" in self.parts:
                unscaled = dataclasses.replace(self, parts={})
                models = model_timer(unscaled.settings(data, data.told_settings))
            timer = RecordedTimer(models, data.timings)
            if models is not after:
                timer = RatioTimer(timer, models, after)
        return ScaledTimer(timer, self.kernels) if self.kernels else timer

    def to_dict(self) -> dict[str, Any]:
        """What the data file says, without the cluster, which it has anyway."""
        return {
            "environment": dict(self.environment),
            "host_time": "off" if self.host_time_off else None,
            "kernels": {scale.pattern: scale.factor for scale in self.kernels},
            "parts": dict(self.parts),
        }


def parse_variables(texts: Sequence[str]) -> dict[str, str]:
    """`NCCL_ALGO=Tree`. Raises: UsageError for one that would not change the simulation."""
    variables: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--env {text!r} is not a variable; write for example NCCL_ALGO=Tree.")
        if not name.startswith("NCCL_"):
            raise UsageError(
                f"--env {name}: what the program made of it is recorded and stays. Only NCCL's "
                "variables can be changed afterwards; for others run the program again."
            )
        if value and not_modelled({name: value}):
            raise UsageError(
                f"--env {text}: the model of NCCL does not know it, and nothing would change. "
                "docs/network.md lists the variables that it knows."
            )
        variables[name] = value
    return variables


def parse_scales(texts: Sequence[str]) -> tuple[KernelScale, ...]:
    """`flash*=0.8`. Raises: UsageError."""
    scales = []
    for text in texts:
        pattern, _, number = text.rpartition("=")
        try:
            factor = float(number)
        except ValueError:
            factor = math.nan
        if not pattern or not 0 < factor < math.inf:
            raise UsageError(
                f"--scale-kernel {text!r}: write for example 'flash*=0.8', a kernel's name or "
                "class, in which * stands for anything, and a factor above 0."
            )
        scales.append(KernelScale(pattern, factor))
    return tuple(scales)


def _no_kernel(pattern: str, data: RunData) -> str:
    """Names that look like the pattern, else those that the devices spent most time with."""
    counted = {timing["name"]: timing["count"] * timing["duration_ns"] for timing in data.timings}
    classes = sorted({timing["class"] for timing in data.timings})
    wanted = pattern.strip("*").lower()
    known = [*counted, *classes]
    near = [name for name in known if wanted and wanted[:4] in name.lower()][:_MOST_NAMES]
    near = near or difflib.get_close_matches(pattern, known, _MOST_NAMES)
    near = near or sorted(counted, key=lambda name: -counted[name])[:_MOST_NAMES]
    return (
        f"--scale-kernel {pattern}: no kernel of {data.path} has such a name or class. Names are "
        f"for example: {'; '.join(near)}. Classes are: {', '.join(classes)}."
    )


def _check_gpu(gpu: GpuProfile, recorded: GpuProfile, rank: int, data: RunData) -> None:
    """Libraries choose their kernels by architecture and multiprocessors, and programs fill the
    memory that they see; times may differ.
    """
    again = "run the program again on that cluster"
    if (gpu.compute_capability, gpu.sm_count) != (recorded.compute_capability, recorded.sm_count):
        raise UsageError(
            f"{data.path} was recorded on {_look(recorded)}, and its kernels were chosen for that; "
            f"{_look(gpu)} would run others: {again}"
        )
    per_rank = data.memory["per_rank"]
    peak_bytes = per_rank[rank]["device_peak_bytes"] if per_rank else 0
    if peak_bytes > gpu.memory_bytes:
        raise UsageError(
            f"{data.path} needs {peak_bytes:,} bytes of device memory and {gpu.name} has "
            f"{gpu.memory_bytes:,}; to see what becomes of it {again}"
        )


def _look(gpu: GpuProfile) -> str:
    return f"{gpu.name} ({gpu.architecture})"

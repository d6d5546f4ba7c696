"""The processor that a run with `--host-time counted` is for."""

from __future__ import annotations

from phantora_py.launch.options import RunOptions
from sim_server.cluster import Cluster
from sim_server.cpu import DEFAULT_CPU, CpuProfile, load_cpu
from sim_server.errors import UsageError


def choose_cpu(options: RunOptions, cluster: Cluster) -> CpuProfile | None:
    """That of the options, of the cluster's first node, or the default; None for other models.

    Raises: UsageError if options contradict each other or there is no such processor.
    """
    if options.host_samples and options.host_time != "measured":
        raise UsageError(
            f"--host-samples is for --host-time measured, but the host time is {options.host_time}."
        )
    if options.host_time != "counted":
        if options.cpu is not None:
            raise UsageError(
                f"--cpu is for --host-time counted, but the host time is {options.host_time}."
            )
        return None
    return load_cpu(options.cpu or cluster.node(0).host.cpu or DEFAULT_CPU)

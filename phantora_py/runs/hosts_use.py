"""What a run took of its hosts: the sums of run.json, and each host's part."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from phantora_py.agent.kept_files import HostUse, read_uses
from phantora_py.agent.parts import Outcome
from phantora_py.launch.shares import Share
from sim_server.deadlock import ranges_text


def with_hosts(
    outcome: Outcome, shares: tuple[Share, ...], run_dir: Path, core_seconds: float
) -> Outcome:
    """With what the other hosts have told of themselves. `core_seconds`: of the first one."""
    own = outcome.host_memory or {"pss_bytes": {}, "total_bytes": 0, "limit_bytes": None}
    first = HostUse(shares[0].host, 0, core_seconds, own, outcome.by_machine)
    uses = [first, *read_uses(run_dir, len(shares))]
    weights = {rank: pss for use in uses for rank, pss in use.host_memory["pss_bytes"].items()}
    memory = {
        "pss_bytes": {rank: weights[rank] for rank in sorted(weights, key=int)},
        "total_bytes": sum(use.host_memory["total_bytes"] for use in uses),
        "limit_bytes": own["limit_bytes"],
    }
    hosts = [
        {
            "host": use.host,
            "ranks": ranges_text(shares[use.index].ranks),
            "core_seconds": use.core_seconds,
            "total_bytes": use.host_memory["total_bytes"],
        }
        for use in uses
    ]
    by_machine = [row for use in uses for row in use.by_machine]
    return replace(outcome, host_memory=memory, by_machine=by_machine, hosts=hosts)

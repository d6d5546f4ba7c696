"""PyTorch's elastic agent, in a program that starts it: it restarts nothing, and says so."""

from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import Any

ELASTIC_AGENT = "torch.distributed.elastic.agent.server.api"


def tell_of_restarts(module: ModuleType) -> None:
    """Before it starts its workers. `module`: ELASTIC_AGENT."""
    agent = module.SimpleElasticAgent
    start = agent._initialize_workers

    @functools.wraps(start)
    def tell_and_start(self: Any, worker_group: Any, *rest: Any) -> Any:
        restarts = worker_group.spec.max_restarts
        if restarts > 0:
            print(
                f"note: max_restarts={restarts} of torch.distributed.elastic is ignored: a rank "
                "that fails ends the simulated run",
                file=sys.stderr,
                flush=True,
            )
        return start(self, worker_group, *rest)

    agent._initialize_workers = tell_and_start

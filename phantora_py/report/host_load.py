"""How busy the host of a rank is in an iteration, whether or not its GPU waits for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phantora_py.data import RunData
from phantora_py.report.stream_order import outside_waits
from phantora_py.report.window import Window
from sim_server.log.history import HOST_WAIT_SPAN

PLAIN_LAUNCH_NS = 30_000
"""What an eager program without hooks takes for a launch: `counted` has 26 us for one of DDP
(docs/host-time.md).
"""
SLOW_LAUNCH_NS = 120_000
"""What a host with hooks may take for a launch: published steps of ZeRO-3 take 95 to 111 us
(docs/accuracy-host.md), FSDP2 and DTensor took more on a loaded machine (docs/host-time.md).
"""
BLIND = ("fixed", "off")
"""Models that know of the program's own work no more than its calls."""
LAUNCHES_SOURCE = "eager programs without hooks, docs/host-time.md"


@dataclass(frozen=True)
class HostLoad:
    """Means over ranks and iterations."""

    busy_ns: float
    """Neither a wait for its GPU nor for others."""
    launches: float
    """Work given to the GPU."""
    is_blind: bool
    """The model does not see the program's own work."""

    def most_ns(self, high: float) -> float:
        """What the host may take, where the model's host time may be `high` times as long. It has
        no hooks: few programs have many.
        """
        launches_ns = self.launches * PLAIN_LAUNCH_NS if self.is_blind else 0.0
        return max(self.busy_ns * high, launches_ns)


def host_load(data: RunData, window: Window) -> HostLoad:
    """Of the iterations of a window, or of the whole run."""
    ranks, iterations = len(data.told.ranks), max(window.iterations, 1)
    spans = window.ended_in(data.spans)
    waits = spans[spans["kind"] == HOST_WAIT_SPAN]
    waited_ns = int((waits["end_ns"] - waits["start_ns"]).sum())
    outside_ns = np.array([wait for one in data.told.ranks for wait in outside_waits(data, one)])
    if len(outside_ns):
        held = outside_ns[window.holds(outside_ns[:, 1])]
        waited_ns += int((held[:, 1] - held[:, 0]).sum())
    busy_ns = window.length_ns - waited_ns / ranks
    launches = (len(spans) - len(waits)) / ranks
    is_blind = data.run["host_time"] in BLIND
    return HostLoad(max(busy_ns, 0) / iterations, launches / iterations, is_blind)

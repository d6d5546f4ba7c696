"""A recorded run simulated again, in this process: from one data file to another.

Owns what the new file says of itself. What may differ from the recording is `what_if`; the
simulation is the live run's, its records come from `sim_server.sources`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from phantora_py import __version__
from phantora_py.agent.parts import Outcome
from phantora_py.data import RunData
from phantora_py.data.schema import END_KEYS
from phantora_py.runs.simulated_file import Watch, simulate_into
from phantora_py.runs.what_if import WhatIf
from sim_server.errors import UsageError
from sim_server.files.output_file import require_output
from sim_server.settings import Settings
from sim_server.simulation import Simulation
from sim_server.sources.drive import drive
from sim_server.sources.recorded import Acts, Approximations, RecordedRank


def resimulate(data: RunData, what_if: WhatIf, output: Path, watch: Watch = nullcontext) -> Outcome:
    """Simulates `data`, with the changes of `what_if`, into a data file at `output`.

    Raises: UsageError if the recording does not allow that.
    """
    require_output(output, "-o", [data.path])
    recorded = data.told_settings
    live = recorded.live_ranks
    settings = what_if.settings(data, recorded)
    free_host = what_if.host_time_off and data.run["host_time"] != "off"
    host_factor = 1.0 if data.run["host_time"] == "off" else what_if.host_factor
    changed = settings.to_json() != recorded.to_json() or host_factor != 1
    same = not (changed or what_if.kernels or what_if.is_control)
    approximations = Approximations()
    acts = Acts() if same else Acts({rank: data.answers(rank) for rank in live})
    ranks = [
        RecordedRank(
            *(rank, data.records(rank), data.answers(rank), same, approximations, acts),
            host_factor=host_factor,
        )
        for rank in live
    ]
    timer = what_if.timer(data, settings)
    start = _describe(data, settings, free_host)
    run = data.run
    tables = json.dumps(run.get("deadlock", []))
    known = Outcome(
        *(run.get("exit_code", 0), run.get("message", ""), run.get("failed_rank"), tables),
        unsimulated=run.get("unsimulated", []),
        by_machine=run.get("by_machine", []),
    )

    def play(simulation: Simulation, write: Callable[[str, bytes], None]) -> None:
        drive(simulation, ranks, data.exits, write, broke_off=data.is_cut)

    def refusal(error: Exception) -> UsageError:
        return UsageError(
            f"{data.path} is damaged: what its ranks recorded cannot be simulated: {error!r}. If "
            "phantora wrote it so, this is a fault of phantora; please report it."
        )

    def told(digest: str) -> dict[str, Any]:
        return {
            "resimulation": {
                "of": data.path.name,
                "cluster_name": run["cluster_name"],
                "same_settings": same,
                "same_history": None if data.broke_off or not same else digest == run["digest"],
                "what_if": what_if.to_dict(),
                **vars(approximations),
            }
        }

    return simulate_into(
        *(output, start, settings, timer),
        watch=watch,
        play=play,
        refusal=refusal,
        known=known,
        more=told,
        iterations=(run.get("steady") or {}).get("iterations"),
    )


def _describe(data: RunData, settings: Settings, free_host: bool) -> dict[str, Any]:
    """start.json: the recorded run's, but for what is simulated and who does it."""
    start = {key: value for key, value in data.run.items() if key not in END_KEYS}
    others = {
        name: value
        for name, value in start.get("environment", {}).items()
        if not name.startswith("NCCL_")
    }
    return start | {
        "environment": others | dict(settings.nccl_environment),
        "host_time": "off" if free_host else start["host_time"],
        "cluster": settings.cluster.to_dict(),
        "cluster_name": settings.cluster.name,
        "versions": data.run["versions"] | {"phantora": __version__},
    }

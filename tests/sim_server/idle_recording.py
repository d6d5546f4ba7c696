"""The file of a run whose ranks did nothing: the quickest to simulate again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from phantora_py.agent.datafile import DataFile
from phantora_py.data import SCHEMA
from sim_server.cluster import load_cluster
from sim_server.gpu import load_gpu
from sim_server.settings import Settings
from sim_server.simulation import Simulation


def make_recording(path: Path, peak_bytes: int = 0) -> None:
    """A run on two GPUs of an H200 machine, whose ranks did nothing."""
    settings = Settings(2, 1, 2, load_cluster("h200"), load_gpu("h200"))
    simulation = Simulation(settings)
    for rank in range(2):
        simulation.exited(rank, 0)
    run: dict[str, Any] = {
        **{"schema": SCHEMA, "ranks": 2, "nodes": 1, "gpus_per_node": 2, "command": ["x"]},
        **{"cluster": settings.cluster.to_dict(), "cluster_name": "h200", "notes": []},
        **{"host_time": "fixed", "isolation": {"tier": "T0", "reason": ""}, "versions": {}},
        "seed": 0,
    }
    data = DataFile(path, run, settings.to_json())
    for name, content in simulation.files():
        changed = content
        if name == "memory.json":
            memory = json.loads(content)
            memory["per_rank"][0]["device_peak_bytes"] = peak_bytes
            changed = json.dumps(memory).encode()
        data.write(name, changed)
    wall = {"total_s": 1.0, "startup_s": 0.5, "core_seconds": 1.0}
    end = {"exit_code": 0, "failed_rank": None, "message": "", "wall": wall}
    data.complete(run | end | {"digest": data.digest})

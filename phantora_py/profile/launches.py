"""Which kernels a call really launches on a GPU, and how long each takes, as PyTorch's profiler
sees them.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phantora_py.profile.calls import Call
from sim_server.kernels.names import demangle


@dataclass(frozen=True)
class Launched:
    """One kernel that ran."""

    name: str
    """Demangled, without spaces."""
    grid: tuple[int, ...]
    block: tuple[int, ...]
    duration_ns: float

    def is_of(self, signature: Mapping[str, Any]) -> bool:
        """Whether this is the launch of a {"kind": "kernel"} signature."""
        return (
            self.name == demangle(signature["name"]).replace(" ", "")
            and self.grid == tuple(signature["grid"])
            and self.block == tuple(signature["block"])
        )


def launched(torch: Any, call: Call) -> list[Launched]:
    """The kernels that `call` launches."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        call()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        return kernels_of(json.loads(path.read_text(encoding="utf-8")))


def kernels_of(trace: Mapping[str, Any]) -> list[Launched]:
    """Those of a trace in Chrome's format, as PyTorch writes it: durations in microseconds."""
    return [
        Launched(
            name=event["name"].replace(" ", ""),
            grid=tuple(event["args"]["grid"]),
            block=tuple(event["args"]["block"]),
            duration_ns=1000.0 * event["dur"],
        )
        for event in trace["traceEvents"]
        if event.get("cat") == "kernel"
    ]

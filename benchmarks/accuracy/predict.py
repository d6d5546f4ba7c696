"""What `phantora run` says of a published run."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from published import HERE, Run

from phantora_py.report.certainty import WHOLE_TRAINING

_PHANTORA = str(Path(sys.executable).with_name("phantora"))
STEPS = 2  # the first is warm-up; with a fixed time for each call all others are alike


@dataclass(frozen=True)
class Prediction:
    """Of an iteration. `as_is_s`: with the kernels of today. `shorter` and `longer`: the shares of
    its time that the models' errors leave open, without what is added for whole trainings.
    `memory_gib`: what rank 0's allocator reserved; nanotron's rank 0 wrote the published tables
    (log_throughput in its helpers.py).
    """

    seconds: float
    as_is_s: float
    shorter: float
    longer: float
    host_share: float
    exposed_share: float
    memory_gib: float
    classes: dict[str, float]


class Predictions:
    """By run; kept in a file, so that a run is simulated once."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known: dict[str, Prediction] = {}
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                held = json.loads(line)
                key = held.pop("key")
                self._known[key] = Prediction(**held)

    def has(self, run: Run) -> bool:
        """Whether it was simulated before."""
        return run.key in self._known

    def of(self, run: Run) -> Prediction:
        """Raises: subprocess.CalledProcessError if the simulation fails."""
        if run.key not in self._known:
            found = self._known[run.key] = predict(run)
            if self._path is not None:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"key": run.key, **asdict(found)}) + "\n")
        return self._known[run.key]


def predict(run: Run) -> Prediction:
    """Runs it. Raises: subprocess.CalledProcessError if the simulation fails."""
    script, *options = run.program
    with tempfile.TemporaryDirectory() as folder:
        first, second = f"{folder}/run.phr", f"{folder}/scaled.phr"
        summary = as_is = _summary(
            *("run", "--cluster", run.cluster, "--ranks", str(run.gpus), *run.folding),
            *("--host-time", "fixed", "-o", first, "--"),
            *(sys.executable, str(HERE / script), *options, "--steps", str(STEPS)),
        )
        if run.scales:
            scales = [word for scale in run.scales for word in ("--scale-kernel", scale)]
            summary = _summary("resimulate", first, "-o", second, *scales)
    interval, breakdown = summary["trust"]["interval"], summary["breakdown_ns"]
    whole_ns = sum(
        breakdown[name]
        for name in ("compute", "exposed_communication", "waiting_for_ranks", "host", "idle")
    )
    classes = [one for one in interval["classes"] if one["class"] != WHOLE_TRAINING]
    return Prediction(
        seconds=summary["iterations"]["median_ns"] / 1e9,
        as_is_s=as_is["iterations"]["median_ns"] / 1e9,
        shorter=math.hypot(*(one["shorter"] for one in classes)),
        longer=math.hypot(*(one["longer"] for one in classes)),
        host_share=breakdown["host"] / whole_ns,
        exposed_share=breakdown["exposed_communication"] / whole_ns,
        memory_gib=as_is["memory"]["peak_reserved_bytes"][0] / 2**30,
        classes={one["class"]: one["share"] for one in classes},
    )


def _summary(command: str, *arguments: str) -> dict[str, Any]:
    full = [_PHANTORA, command, "--quiet", "--json", *arguments]
    output = subprocess.run(full, check=True, capture_output=True, text=True).stdout
    found: dict[str, Any] = json.loads(output[output.index("{\n") :])
    return found

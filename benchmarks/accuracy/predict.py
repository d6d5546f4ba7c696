"""What `phantora run` says of published runs, which an engine of `phantora sweep` carries out."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from published import HERE, Run

import phantora_py as phantora
from phantora_py.launch import fork_servers
from phantora_py.report.certainty import WHOLE_TRAINING
from phantora_py.sweep.engines.engine import Engine
from phantora_py.sweep.plan import Configuration, configured
from phantora_py.sweep.results import Result, Results
from phantora_py.sweep.runner import run_all

STEPS = 2  # the first is warm-up; the second is as all others but for counted host time

Ended = Callable[[str, Path], None]
"""Is given the name and the data file of a run that ended well."""


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

    def of(self, run: Run) -> Prediction | None:
        """None if it was not simulated."""
        return self._known.get(run.key)

    def simulate(self, runs: Sequence[Run], results: Results, engine: Engine) -> None:
        """Those that are not known yet. Of one that fails the reason is printed."""
        left = {run.key: run for run in runs if run.key not in self._known}
        as_is: dict[str, Path] = {}

        def ended(key: str, data: Path) -> None:
            as_is[key] = data
            if not left[key].scales:
                self._keep(key, _prediction(data, data))

        def scaled(key: str, data: Path) -> None:
            self._keep(key, _prediction(as_is[key], data))

        with fork_servers.offered():
            _carry_out([_configuration(run) for run in left.values()], results, engine, ended)
            again = [_scaled(left[key], data) for key, data in as_is.items() if left[key].scales]
            _carry_out(again, results, engine, scaled)

    def _keep(self, key: str, found: Prediction) -> None:
        self._known[key] = found
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, **asdict(found)}) + "\n")


def _configuration(run: Run) -> Configuration:
    script, *options = run.program
    command = [sys.executable, str(HERE / script), *options, "--steps", str(STEPS)]
    where = {"cluster": run.cluster, "ranks": run.gpus, **run.folding}
    return configured(run.key, command, {f"run.{name}": value for name, value in where.items()})


def _scaled(run: Run, data: Path) -> Configuration:
    """The same with the kernels of the software of its time."""
    scales = [word for scale in run.scales for word in ("--scale-kernel", scale)]
    return configured(run.key, ["phantora", "resimulate", str(data), *scales], {})


def _carry_out(
    plan: Sequence[Configuration], results: Results, engine: Engine, ended: Ended
) -> None:
    def tell(number: int, result: Result | None) -> None:
        if result is None:
            return
        name = plan[number].name
        if result.exit_code or result.data is None:
            print(f"{name} failed: {result.message}", file=sys.stderr)
        else:
            print(f"{name}: {result.wall_s:.0f} s", file=sys.stderr)
            ended(name, result.data)

    run_all(plan, results, engine, retry=True, tell=tell)


def _prediction(as_is_data: Path, data: Path) -> Prediction:
    """`data`: with the kernels of the software of the time, if there is a run of these."""
    as_is, found = (phantora.open(path) for path in (as_is_data, data))
    interval, breakdown = found.summary["trust"]["interval"], found.summary["breakdown_ns"]
    host_ns, exposed_ns = breakdown["host"], breakdown["exposed_communication"]
    assert interval is not None
    assert host_ns is not None
    assert exposed_ns is not None
    assert found.iteration_ns is not None
    assert as_is.iteration_ns is not None
    classes = [one for one in interval["classes"] if one["class"] != WHOLE_TRAINING]
    return Prediction(
        seconds=found.iteration_ns / 1e9,
        as_is_s=as_is.iteration_ns / 1e9,
        shorter=math.hypot(*(one["shorter"] for one in classes)),
        longer=math.hypot(*(one["longer"] for one in classes)),
        host_share=host_ns / found.iteration_ns,
        exposed_share=exposed_ns / found.iteration_ns,
        memory_gib=as_is.summary["memory"]["peak_reserved_bytes"][0] / 2**30,
        classes={one["class"]: one["share"] for one in classes},
    )

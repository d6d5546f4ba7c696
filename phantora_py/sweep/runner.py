"""Runs the configurations of a sweep, each in a `phantora` of its own."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from phantora_py.data import RunData
from phantora_py.launch.module import module_command
from phantora_py.sweep.parallel_runs import ParallelRuns
from phantora_py.sweep.plan import RUN_FLAGS, Configuration
from phantora_py.sweep.results import Result, Results, inputs_of
from sim_server.errors import Interrupted, UsageError

Tell = Callable[[int, Result | None], None]
"""Is told the number of a configuration, from 0, and how it ended, None when it begins; from any
thread, one at a time.
"""


def run_all(
    plan: Sequence[Configuration], results: Results, parallel: ParallelRuns, retry: bool, tell: Tell
) -> list[Result]:
    """Runs what has not been run, as many at a time as `parallel` lets in. Failures are results.

    Raises: UsageError before anything is run; KeyboardInterrupt once what runs has been stopped.
    """
    inputs = [inputs_of(configuration) for configuration in plan]
    keys = [results.key(one) for one in inputs]
    for position, key in enumerate(keys):
        if key in keys[:position]:
            names = f"'{plan[keys.index(key)].name}' and '{plan[position].name}'"
            raise UsageError(f"The configurations {names} have the same inputs; leave one out.")
    running = _Running()
    lock = threading.Lock()

    def carry_out(number: int) -> Result:
        name, key, ranks = plan[number].name, keys[number], plan[number].ranks
        result = results.find(key, name, retry)
        if result is None:
            parallel.enter(ranks)
            try:
                with lock:
                    tell(number, None)
                result = running.run(plan[number], results.data(key), results.log(key))
                results.keep(key, inputs[number], result)
            finally:
                parallel.leave(ranks)
        if taken_bytes := _taken_bytes(result):
            parallel.learn(ranks, taken_bytes)
        with lock:
            tell(number, result)
        return result

    with ThreadPoolExecutor(parallel.most) as pool:
        try:
            futures = [pool.submit(carry_out, number) for number in range(len(plan))]
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            running.stop()
            raise


class _Running:
    """The runs that are under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def run(self, configuration: Configuration, data: Path, log: Path) -> Result:
        """One run to its end. Raises: Interrupted if it was stopped."""
        start_s = time.monotonic()
        data.unlink(missing_ok=True)
        words = _words(configuration, data)
        with log.open("wb") as output:
            with self._lock:
                if self._stopped:
                    raise Interrupted("the sweep was stopped.")
                process = subprocess.Popen(
                    words,
                    env={**os.environ, **configuration.environment},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
                self._processes.add(process)
            exit_code = process.wait()
        with self._lock:
            self._processes.discard(process)
            if self._stopped:
                raise Interrupted("the sweep was stopped.")
        return _result(configuration.name, exit_code, time.monotonic() - start_s, data, log)

    def stop(self) -> None:
        """Ends them as an interrupt from the keyboard would, which they have got too if there was
        one; a second one does not hurt.
        """
        with self._lock:
            self._stopped = True
            for process in self._processes:
                process.terminate()


def _words(configuration: Configuration, data: Path) -> list[str]:
    """What is executed."""
    ours = [*module_command("phantora_py")]
    output = ["--quiet", "-o", str(data)]
    if configuration.resimulates:
        return [*ours, "resimulate", *output, *configuration.command[2:]]
    options = [
        f"--{name}" if name in RUN_FLAGS else f"--{name}={value}"
        for name, value in configuration.run.items()
        if name not in RUN_FLAGS or value == "true"
    ]
    return [*ours, "run", *output, *options, "--", *configuration.command]


def _taken_bytes(result: Result) -> int:
    """What a run has taken of this machine; 0 if that is not known."""
    weighed = RunData(result.data).run.get("host_memory") if result.data else None
    return int(weighed["total_bytes"]) if weighed else 0


def _result(name: str, exit_code: int, wall_s: float, data: Path, log: Path) -> Result:
    """How a run ended, by its data file, else by what it has printed last."""
    if not data.is_file():
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
        said = [line for line in lines if line.startswith("phantora: ")]
        message = (said or [f"it ended without a word; see {log}"])[-1].removeprefix("phantora: ")
        return Result(name, exit_code, message, False, wall_s, None)
    run = RunData(data)
    failed = [memory for memory in run.memory["per_rank"] if memory["oom"]]
    return Result(
        *(name, exit_code, run.run.get("message", "")),
        out_of_memory=bool(failed) and exit_code != 0,
        wall_s=wall_s,
        data=data,
    )

"""One configuration of a sweep, run to its end on the machine that calls this; what engines start.

    python -m phantora_py.sweep.task FILE

runs the task in a file that `write_task` wrote.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from phantora_py import __version__
from phantora_py.data import RunData
from phantora_py.launch.module import module_command
from phantora_py.machine.process_tree import cpu_s
from phantora_py.sweep.plan import Configuration, option_words
from phantora_py.sweep.results import Result, Results
from sim_server.errors import UsageError
from sim_server.files.output_file import write_file


@dataclass(frozen=True)
class Task:
    """A run that is to be. `arguments`: of phantora, but for where its data file goes. `ranks`: how
    much it takes of a machine against others.
    """

    name: str
    key: str
    ranks: int
    arguments: Sequence[str]
    environment: Mapping[str, str]
    inputs: Mapping[str, Any]


Started = Callable[["subprocess.Popen[bytes]"], None]


def make_task(configuration: Configuration, key: str, inputs: Mapping[str, Any]) -> Task:
    """The run of a configuration; `key`: the name of its files."""
    if configuration.resimulates:
        arguments = ["resimulate", *configuration.command[2:]]
    else:
        options = option_words(configuration.run)
        arguments = ["run", *options, "--", *configuration.command]
    environment = dict(configuration.environment)
    return Task(configuration.name, key, configuration.ranks, arguments, environment, inputs)


def carry_out(task: Task, results: Results, started: Started = lambda _: None) -> Result:
    """Runs to the end and keeps the result. `started` is given the process, or stops it by raising.

    Raises: what `started` raises, and anything that interrupts the wait, once the run has ended.
    """
    data, log = results.data(task.key), results.log(task.key)
    data.unlink(missing_ok=True)
    verb, *arguments = task.arguments
    start_s = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*module_command("phantora_py"), verb, "--quiet", "-o", str(data), *arguments],
            env={**os.environ, **task.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            started(process)
            used_s = _used_s(process)
            exit_code = process.wait()
        except BaseException:
            process.terminate()
            process.wait()
            raise
    result = _result(task.name, exit_code, time.monotonic() - start_s, data, log)
    if result.cpu_s is None:
        result = replace(result, cpu_s=used_s)
    results.keep(task.key, task.inputs, result)
    return result


def refuse_other_version(task: Task) -> None:
    """Raises: UsageError if this host's phantora is not the one that planned the task."""
    if task.inputs["version"] != __version__:
        raise UsageError(
            f"{socket.gethostname()} has phantora {__version__}, and the sweep was started with "
            f"{task.inputs['version']}. Install the same on all hosts."
        )


def taken_bytes(result: Result) -> int:
    """What a run has taken of its machine; 0 if that is not known."""
    weighed = RunData(result.data).run.get("host_memory") if result.data else None
    return int(weighed["total_bytes"]) if weighed else 0


def write_task(path: Path, task: Task, job: str = "") -> None:
    """For `main`, on whatever machine. `job`: what an engine calls it. Raises: UsageError if it
    cannot be written.
    """
    write_file(path, json.dumps({"job": job, "task": asdict(task)}).encode(), "-o")


def read_task(path: Path) -> tuple[Task, str]:
    """What `write_task` wrote. Raises: FileNotFoundError."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return Task(**content["task"]), content["job"]


def main(file: str) -> None:
    """Runs the task in a file, whose directory is that of the results."""
    task, _ = read_task(Path(file))
    results = Results(Path(file).parent)
    signal.signal(signal.SIGTERM, _stop)
    try:
        refuse_other_version(task)
        carry_out(task, results)
    except UsageError as error:
        results.keep(task.key, task.inputs, failed(task, str(error), error.exit_code))


def failed(task: Task, message: str, exit_code: int) -> Result:
    """The result of a task that has not run."""
    return Result(task.name, exit_code, message, False, 0.0, None)


def _stop(*_: object) -> NoReturn:
    sys.exit(128 + signal.SIGTERM)


def _used_s(process: subprocess.Popen[bytes]) -> float | None:
    """Waits until it has ended; the processors' time of it and of all that it has waited for."""
    try:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:  # who stopped it has waited for it
        return None
    return cpu_s(process.pid)


def _result(name: str, exit_code: int, wall_s: float, data: Path, log: Path) -> Result:
    """How a run ended, by its data file, else by what it has printed last."""
    if not data.is_file():
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
        said = [line for line in lines if line.startswith("phantora: ")]
        message = (said or [f"it ended without a word; see {log}"])[-1].removeprefix("phantora: ")
        return Result(name, exit_code, message, False, wall_s, None)
    run = RunData(data)
    out_of_memory = exit_code != 0 and any(memory["oom"] for memory in run.memory["per_rank"])
    message, wall = run.run.get("message", ""), run.run.get("wall")
    # Of what a fork server has started only the run itself knows.
    cpu_s = wall and wall["core_seconds"]
    return Result(name, exit_code, message, out_of_memory, wall_s, data, cpu_s=cpu_s)


if __name__ == "__main__":
    main(sys.argv[1])

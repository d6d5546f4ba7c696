"""Runs as tasks of Ray. All hosts see the results and this installation under the same paths.

Source: Ray's reference of ray.init, ray.remote, ray.wait and ray.cancel, version 2.
"""

from __future__ import annotations

import importlib.util
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from phantora_py.launch.module import module_command
from phantora_py.sweep.engines.engine import Ended, RankMemory, in_batches
from phantora_py.sweep.parallel_runs import PROCESSORS_OF_A_RUN
from phantora_py.sweep.results import Results
from phantora_py.sweep.task import Task, write_task
from sim_server.errors import UsageError

# How long runs that were cancelled have to end.
_STOP_LIMIT_S = 10.0


class RayEngine:
    """In the cluster that RAY_ADDRESS names or that runs on this machine; if there is none, Ray
    starts one here. `most`: runs at a time, None: as many as Ray starts.
    """

    def __init__(self, results: Results, most: int | None) -> None:
        """Raises: UsageError where Ray is not to be had."""
        require()
        import ray  # noqa: PLC0415 - an extra, which takes a second

        self._ray = ray
        self._results = results
        self._most = most
        self._memory = RankMemory()
        self._tasks: dict[Any, Task] = {}
        terminate = signal.getsignal(signal.SIGTERM)
        try:
            ray.init(ignore_reinit_error=True, log_to_driver=False, logging_level="error")
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise UsageError(f"Ray cannot be reached: {error}") from error
        finally:
            signal.signal(signal.SIGTERM, terminate)  # Ray takes it for itself.

    def run(self, tasks: Sequence[Task], begun: Callable[[Task], None]) -> Iterator[Ended]:
        """As `Engine.run`. Ray does not tell when a task begins: `begun` is told when it may."""
        for batch in in_batches(tasks, self._memory):
            waiting = list(reversed(batch))
            while waiting or self._tasks:
                while waiting and (self._most is None or len(self._tasks) < self._most):
                    self._submit(waiting[-1])
                    begun(waiting.pop())
                (reference,), _ = self._ray.wait(list(self._tasks), num_returns=1)
                yield self._end(reference)

    def learn(self, ranks: int, size_bytes: int) -> None:
        """As `Engine.learn`."""
        self._memory.learn(ranks, size_bytes)

    def stop(self) -> None:
        """As `Engine.stop`."""
        for reference in self._tasks:
            self._ray.cancel(reference, force=False)
        if self._tasks:
            self._ray.wait(list(self._tasks), num_returns=len(self._tasks), timeout=_STOP_LIMIT_S)
        for task in self._tasks.values():
            self._results.task_file(task.key).unlink()
        self._ray.shutdown()

    def _submit(self, task: Task) -> None:
        needs: dict[str, Any] = {"num_cpus": PROCESSORS_OF_A_RUN}
        if self._memory.known:
            needs["memory"] = self._memory.declared_bytes(task.ranks)
        file = self._results.task_file(task.key)
        write_task(file, task)
        remote = self._ray.remote(_runner()).options(max_retries=0, name=task.name, **needs)
        command = [*module_command("phantora_py.sweep.task"), str(file)]
        self._tasks[remote.remote(command)] = task

    def _end(self, reference: Any) -> Ended:
        task = self._tasks.pop(reference)
        self._results.task_file(task.key).unlink()
        try:
            self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            return task, f"Ray's task left no result: {str(error).strip().splitlines()[-1]}"
        if not self._results.has(task.key):
            return task, f"all hosts must see {self._results.directory}; one did not."
        return task, ""


def require() -> None:
    """Raises: UsageError where Ray is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise UsageError("--engine ray needs Ray. To install it: pip install 'phantora[ray]'")


def _runner() -> Callable[[Sequence[str]], None]:
    """What runs on the host that Ray has chosen. Ray sends a function within another as it is; a
    module of ours its worker might find in a checkout that lacks the compiled parts.
    """

    def run(command: Sequence[str]) -> None:
        import subprocess  # noqa: PLC0415

        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            try:
                _, said = process.communicate()
            except BaseException:
                process.terminate()
                raise
            if process.returncode != 0:
                raise RuntimeError(
                    said.strip().rpartition("\n")[2] or f"exit code {process.returncode}"
                )

    return run

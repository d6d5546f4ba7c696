"""Runs as tasks of Slurm's array jobs. All hosts see the working directory, the results and this
installation under the same paths, as is usual with Slurm.

Slurm's commands do the work (sbatch, squeue, sacct, scontrol, scancel: their manual pages of
version 22.05). What they read from the environment, as SBATCH_PARTITION, is the user's to set.
"""

from __future__ import annotations

import itertools
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from phantora_py.launch.module import module_command
from phantora_py.sweep.engines.engine import Ended, RankMemory, in_batches
from phantora_py.sweep.parallel_runs import PROCESSORS_OF_A_RUN
from phantora_py.sweep.results import Results
from phantora_py.sweep.task import Task, read_task, write_task
from sim_server.errors import UsageError

# How often the queue is looked at (assumed: what a controller bears from every user).
_LOOK_EVERY_S = 2.0
# Tasks of an array: Slurm takes fewer than MaxArraySize, by default 1,001.
_ARRAY = 1000
# A result may come to be seen so much later than the end of its job: file systems of clusters keep
# listings of directories for some seconds (assumed).
_LATE_S = 20.0
_COMMAND_LIMIT_S = 60.0
# How long a controller may not answer, as when it is started again (assumed).
_PATIENCE_S = 600.0


class SlurmEngine:
    """`most`: tasks of an array at a time, None: as many as Slurm starts."""

    def __init__(self, results: Results, most: int | None) -> None:
        """Raises: UsageError where Slurm is not to be had."""
        self._results = results
        self._most = most
        self._memory = RankMemory()
        self._jobs: dict[str, Task] = {}
        """Of tasks that have no result yet, by job: `17_3`, number 3 of array 17."""
        require()

    def run(self, tasks: Sequence[Task], begun: Callable[[Task], None]) -> Iterator[Ended]:
        """As `Engine.run`. Tasks that an earlier sweep left in the queue are waited for."""
        given = {task.key: self._job_of(task) for task in tasks}
        queue = _queue()
        self._jobs = {given[task.key]: task for task in tasks if given[task.key] in queue}
        yield from self._wait(begun)
        left = [task for task in tasks if given[task.key] not in queue]
        for batch in in_batches(left, self._memory):
            by_ranks = sorted(batch, key=_ranks)
            for ranks, group in itertools.groupby(by_ranks, key=_ranks):
                alike = list(group)
                for first in range(0, len(alike), _ARRAY):
                    self._submit(ranks, alike[first : first + _ARRAY])
            yield from self._wait(begun)

    def learn(self, ranks: int, size_bytes: int) -> None:
        """As `Engine.learn`."""
        self._memory.learn(ranks, size_bytes)

    def stop(self) -> None:
        """As `Engine.stop`."""
        if self._jobs:
            _command("scancel", *self._jobs)
        for job in list(self._jobs):
            self._end(job)

    def _submit(self, ranks: int, tasks: Sequence[Task]) -> None:
        """One array: all of it is given the same."""
        files = [self._results.task_file(task.key) for task in tasks]
        for task, file in zip(tasks, files, strict=True):
            write_task(file, task)
        limit = "" if self._most is None else f"%{self._most}"
        options = [f"--array=0-{len(tasks) - 1}{limit}", f"--cpus-per-task={PROCESSORS_OF_A_RUN}"]
        if self._memory.known:
            options.append(f"--mem={(self._memory.declared_bytes(ranks) >> 20) + 1}M")
        command = shlex.join(module_command("phantora_py.sweep.task"))
        said = _command(
            *("sbatch", "--parsable", "--ntasks=1", "--job-name=phantora-sweep"),
            *(f"--output={self._output('%A_%a')}", *options),
            script=f"#!/bin/sh\nset -- {shlex.join(map(str, files))}\n"
            f'shift "$SLURM_ARRAY_TASK_ID"\nexec {command} "$1"\n',
        )
        array = said.strip().partition(";")[0]  # The cluster's name may follow.
        for number, (task, file) in enumerate(zip(tasks, files, strict=True)):
            self._jobs[f"{array}_{number}"] = task
            write_task(file, task, job=f"{array}_{number}")

    def _wait(self, begun: Callable[[Task], None]) -> Iterator[Ended]:
        """Until all that was submitted has ended."""
        running: set[str] = set()
        gone_s: dict[str, float] = {}
        while self._jobs:
            queue = _queue()
            for job, task in list(self._jobs.items()):
                if queue.get(job) == "RUNNING" and job not in running:
                    running.add(job)
                    begun(task)
                if self._results.has(task.key):
                    yield self._end(job)
                elif job not in queue:
                    now_s = time.monotonic()
                    if now_s - gone_s.setdefault(job, now_s) > _LATE_S:
                        yield self._end(job, self._fate(job))
            if self._jobs:
                time.sleep(_LOOK_EVERY_S)

    def _end(self, job: str, fate: str = "") -> Ended:
        """Removes what was for Slurm; of a task that was lost its output stays."""
        task = self._jobs.pop(job)
        self._results.task_file(task.key).unlink(missing_ok=True)
        if not fate:
            self._output(job).unlink(missing_ok=True)
        return task, fate

    def _output(self, job: str) -> Path:
        return self._results.directory.absolute() / f"slurm-{job}.out"

    def _job_of(self, task: Task) -> str:
        """The job that an earlier sweep has given this task to, "" if none."""
        try:
            return read_task(self._results.task_file(task.key))[1]
        except FileNotFoundError:
            return ""

    def _fate(self, job: str) -> str:
        """Why a job has left no result, as far as Slurm tells."""
        for words in (
            ("sacct", "--noheader", "--parsable2", "--allocations", "--format=State,NodeList"),
            ("scontrol", "--oneliner", "show", "job"),
        ):
            named = ("-j", job) if words[0] == "sacct" else (job,)
            try:
                said = _command(*words, *named)
            except UsageError:
                continue  # Not all have accounting, and the controller forgets jobs.
            if said.strip():
                return (
                    f"Slurm's job {job} left no result: {state_text(said)}. "
                    f"See {self._output(job)}; all hosts must see that directory."
                )
        return (
            f"Slurm's job {job} left no result, and Slurm does not know it any more: it was "
            "cancelled before it began, or ended long ago."
        )


def require() -> None:
    """Raises: UsageError where Slurm's commands are not, or have no controller."""
    _command("sinfo", "--noheader")


def _ranks(task: Task) -> int:
    return task.ranks


def state_text(said: str) -> str:
    """Of sacct's line, or of scontrol's fields."""
    said = said.strip()
    if "JobState=" not in said:
        state, _, hosts = said.partition("|")
        return f"{state} on {hosts}"
    fields = dict(word.partition("=")[::2] for word in said.split())
    shown = ("JobState", "Reason", "ExitCode", "NodeList")
    return ", ".join(f"{name} {fields[name]}" for name in shown if name in fields)


def _queue() -> dict[str, str]:
    """The state of each task of the user's that waits or runs. A controller that does not answer
    is waited for: what runs goes on without it. Raises: UsageError if that lasts too long.
    """
    start_s = time.monotonic()
    while True:
        try:
            said = _command("squeue", "--me", "--noheader", "--array", "--format=%i %T")
        except UsageError:
            if time.monotonic() - start_s > _PATIENCE_S:
                raise
            time.sleep(_LOOK_EVERY_S)
        else:
            return dict(line.split(" ", 1) for line in said.splitlines())


def _command(*words: str, script: str | None = None) -> str:
    """What it prints. Raises: UsageError if there is no such command, or it fails."""
    try:
        done = subprocess.run(
            words,
            input=script,
            check=True,
            capture_output=True,
            text=True,
            timeout=_COMMAND_LIMIT_S,
        )
    except FileNotFoundError:
        raise UsageError(
            f"--engine slurm needs Slurm's commands, and there is no {words[0]} here."
        ) from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"Slurm does not answer: {words[0]}.") from None
    except subprocess.CalledProcessError as error:
        raise UsageError(f"Slurm refuses: {error.stderr.strip() or words[0]}") from None
    return done.stdout

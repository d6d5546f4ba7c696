"""Runs the configurations of a sweep by an engine, but for those whose result is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from phantora_py.sweep.engines.engine import Engine
from phantora_py.sweep.plan import Configuration
from phantora_py.sweep.results import Result, Results, inputs_of
from phantora_py.sweep.task import Task, failed, make_task, taken_bytes
from sim_server.errors import RankFailed, UsageError

Tell = Callable[[int, Result | None], None]
"""Is told the number of a configuration, from 0, and how it ended, None when it begins; from any
thread, one at a time.
"""


def run_all(
    plan: Sequence[Configuration], results: Results, engine: Engine, retry: bool, tell: Tell
) -> list[Result]:
    """Runs what has not been run. Failures are results.

    Raises: UsageError before anything is run; KeyboardInterrupt once what runs has been stopped.
    """
    tasks = make_tasks(plan, results)
    numbers = {task.key: number for number, task in enumerate(tasks)}
    ended: dict[str, Result] = {}

    def end(task: Task, result: Result) -> None:
        ended[task.key] = result
        if size_bytes := taken_bytes(result):
            engine.learn(task.ranks, size_bytes)
        tell(numbers[task.key], result)

    for task in tasks:
        found = results.find(task.key, task.name, retry)
        if found is None:
            results.forget(task.key)
        else:
            end(task, found)
    left = [task for task in tasks if task.key not in ended]
    try:
        for task, lost in engine.run(left, lambda task: tell(numbers[task.key], None)):
            if lost:
                end(task, failed(task, lost, RankFailed.exit_code))
            else:
                end(task, results.read(task.key, task.name))
    except BaseException:
        engine.stop()
        raise
    return [ended[task.key] for task in tasks]


def make_tasks(plan: Sequence[Configuration], results: Results) -> list[Task]:
    """Raises: UsageError if two are the same."""
    inputs = [inputs_of(configuration) for configuration in plan]
    keys = [results.key(one) for one in inputs]
    for position, key in enumerate(keys):
        if key in keys[:position]:
            names = f"'{plan[keys.index(key)].name}' and '{plan[position].name}'"
            raise UsageError(f"The configurations {names} have the same inputs; leave one out.")
    return [
        make_task(configuration, key, one)
        for configuration, key, one in zip(plan, keys, inputs, strict=True)
    ]

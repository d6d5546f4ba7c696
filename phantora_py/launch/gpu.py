"""Measured kernel times of a run: which cache has them, what measures what it lacks, and what the
user should know of both.
"""

from __future__ import annotations

import shlex
from collections.abc import Set
from pathlib import Path
from typing import Any

from phantora_py.launch.command import Command, Program
from phantora_py.launch.interpreter import Interpreter
from phantora_py.launch.module import module_command
from phantora_py.launch.options import RunOptions
from sim_server.errors import UsageError
from sim_server.gpu import GpuProfile
from sim_server.timing_cache import Damaged, Environment, TimingCache, put_away

_EXECUTOR = "phantora_py.profile.torch_executor"


def check_cache(options: RunOptions, gpu: GpuProfile, program: Program) -> list[str]:
    """Returns what the user should be told. Raises: UsageError if the cache that was named cannot
    be used.
    """
    if options.executor is not None and not options.gpu:
        raise UsageError("--executor says what measures for --gpu, which was not given.")
    if options.cache is None:
        if options.gpu:
            raise UsageError(
                "--gpu needs --cache FILE, where measurements are kept; it is made if new."
            )
        return []
    if options.server is not None:
        raise UsageError("--cache is for a server of the run's own, not for --server.")
    environments = open_cache(options.cache, write=options.gpu)
    return [] if options.gpu else cache_notes(environments, program_environment(gpu, program))


def open_cache(path: Path, *, write: bool) -> set[Environment]:
    """Where its measurements are from. Raises: UsageError if it cannot be used."""
    try:
        with TimingCache(path, write=write) as cache:
            return {environment for environment, _ in cache.measurements()}
    except Damaged as error:
        raise put_away(path, error) from error


def cache_settings(options: RunOptions, gpu: GpuProfile, program: Program) -> dict[str, str] | None:
    """`Settings.cache`."""
    if options.cache is None:
        return None
    environment = program_environment(gpu, program)
    return {
        "path": str(options.cache.resolve()),
        "cuda": environment.cuda,
        "libraries": environment.libraries,
    }


def executor_settings(
    options: RunOptions, command: Command, launches: Path
) -> dict[str, Any] | None:
    """`Settings.executor`."""
    if not options.gpu:
        return None
    words = shlex.split(options.executor) if options.executor else None
    return {
        "command": words or executor_command(command.program.interpreter),
        "origin": shlex.join(["phantora", "run", "--gpu", "--", *command.words]),
        "limit_s": options.executor_limit_s,
        "launches": str(launches),
    }


def executor_command(interpreter: Interpreter | None = None) -> list[str]:
    """PyTorch on this machine's GPU: the PyTorch of `interpreter`, so that its libraries are those
    of the program.
    """
    if interpreter is None or interpreter.ours:
        return module_command(_EXECUTOR)
    return module_command(_EXECUTOR, interpreter=interpreter.executable)


def cache_notes(environments: Set[Environment], wanted: Environment) -> list[str]:
    """What is not as a user would expect it of a cache with measurements of these environments."""
    own = [one for one in environments if one.gpu == wanted.gpu]
    if not own:
        there = ", ".join(sorted({one.gpu for one in environments})) or "nothing"
        return [f"the cache has no measurement of {wanted.gpu} (it has {there}): all is modelled."]
    alike = [one for one in own if not one.differences(wanted).kernels]
    if not alike:
        others = {one.differences(wanted).text for one in own}
        return [
            f"the cache has measurements with {' and with '.join(sorted(others))} alone; their "
            "kernels may be others, so they count as interpolated."
        ]
    drivers = {one.driver: one.driver_version for one in alike}
    names = sorted(drivers, key=lambda name: drivers[name])
    if len(names) > 1:
        return [
            f"the cache has measurements with drivers {', '.join(names)}; those with {names[-1]} "
            "come first."
        ]
    return []


def program_environment(gpu: GpuProfile, program: Program) -> Environment:
    """What the program runs on, as far as that is known."""
    torch = program.versions["torch"]
    return Environment(gpu.name, "", program.versions["cuda"], f"torch {torch}" if torch else "")

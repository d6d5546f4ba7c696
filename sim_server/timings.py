"""Where a run's kernel times come from, as its settings say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sim_server.errors import UsageError
from sim_server.gpu import GpuProfile
from sim_server.kernels import (
    CachedTimer,
    KernelTimer,
    MeasuringTimer,
    MixedTimer,
    Timer,
    TrainingTimer,
)
from sim_server.kernels.data_aware import KnownTable, LookupTimer
from sim_server.processes.executor import ANSWER_LIMIT_S, Executor
from sim_server.settings import Settings
from sim_server.timing_cache import Damaged, Environment, TimingCache


def make_timer(settings: Settings) -> Timer:
    """The models of the GPUs, behind the cache if there is one.

    Raises: UsageError if the cache cannot be used.
    """
    return _by_gpu(settings, lambda gpu: _timer_of(gpu, settings))


def model_timer(settings: Settings) -> Timer:
    """The models of the GPUs alone."""
    return _by_gpu(settings, lambda gpu: _models(gpu, settings))


@contextmanager
def open_measuring_timer(
    settings: Settings, tell: Callable[[], None]
) -> Iterator[tuple[Timer, MeasuringTimer]]:
    """Starts the GPU executor of the settings, and ends it. What the cache lacks is measured and
    kept there. `tell` is called now and then while somebody waits for it.

    Yields: the timer of all GPUs, and the one in it that measures.
    Raises: UsageError if the executor does not start, has another GPU, or the cache cannot be used.
    """
    assert settings.cache is not None, "what is measured has to be kept"
    assert settings.executor is not None
    command, origin = settings.executor["command"], settings.executor["origin"]
    limit_s = settings.executor.get("limit_s", ANSWER_LIMIT_S)
    kept = settings.executor.get("launches")
    path = Path(settings.cache["path"])
    try:
        with (
            Executor(command, origin, limit_s, tell, kept and Path(kept)) as executor,
            TimingCache(path, write=True) as cache,
        ):
            own = _simulated(executor.environment, settings)
            failures = cache.failures(own.name)
            here = executor.environment
            measuring = MeasuringTimer(
                CachedTimer(_models(own, settings), cache.entries(own.name), here),
                executor,
                lambda environment, row: cache.add([(environment, row)]),
                [one for where, one in failures if where == here and one.holds(limit_s)],
            )
            timer = _by_gpu(
                settings, lambda gpu: measuring if gpu is own else _timer_of(gpu, settings)
            )
            yield timer, measuring
    except Damaged as error:
        raise UsageError(f"the cache {path} is damaged: {error}") from error


def wanted_environment(gpu: GpuProfile, cache: Mapping[str, Any]) -> Environment:
    """What the program runs on as far as that is known: it has no driver."""
    return Environment(gpu.name, "", cache["cuda"], cache.get("libraries", ""))


def _by_gpu(settings: Settings, make: Callable[[GpuProfile], Timer]) -> Timer:
    others = {name: make(gpu) for name, gpu in settings.other_gpus.items()}
    first = make(settings.gpu)
    return MixedTimer(first, others) if others else first


def _models(gpu: GpuProfile, settings: Settings) -> Timer:
    """The models of a GPU; lookups in tables whose statistics are known take these into account.

    Raises: UsageError if the statistics are none.
    """
    models: Timer = KernelTimer(gpu)
    if gpu.training_factor > 1:
        models = TrainingTimer(models, gpu.training_factor)
    if not settings.lookups:
        return models
    return LookupTimer(models, gpu, [KnownTable.read(table) for table in settings.lookups])


def _timer_of(gpu: GpuProfile, settings: Settings) -> Timer:
    models = _models(gpu, settings)
    if settings.cache is None:
        return models
    path = Path(settings.cache["path"])
    try:
        with TimingCache(path) as cache:
            entries = cache.entries(gpu.name)
    except Damaged as error:
        raise UsageError(f"the cache {path} is damaged: {error}") from error
    return CachedTimer(models, entries, wanted_environment(gpu, settings.cache))


def _simulated(environment: Environment, settings: Settings) -> GpuProfile:
    """The cluster's GPU that is the one that measures. Raises: UsageError if none is."""
    gpus = [settings.gpu, *settings.other_gpus.values()]
    for gpu in gpus:
        if gpu.name == environment.gpu:
            return gpu
    names = " and ".join(repr(gpu.name) for gpu in gpus)
    raise UsageError(
        f"this machine's GPU is {environment.gpu!r} and the simulated cluster has {names}: times "
        "of one are none of the other. Name a cluster with this machine's GPU (`phantora cluster "
        "list` shows some), or leave --gpu out."
    )

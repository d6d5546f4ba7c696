"""Where a run's kernel times come from, as its settings say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sim_server.errors import UsageError
from sim_server.gpu import GpuProfile
from sim_server.kernels import CachedTimer, KernelTimer, MixedTimer, Timer
from sim_server.settings import Settings
from sim_server.timing_cache import Damaged, Environment, TimingCache


def make_timer(settings: Settings) -> Timer:
    """The models of the GPUs, behind the cache if there is one.

    Raises: UsageError if the cache cannot be used.
    """
    return _by_gpu(settings, lambda gpu: _timer_of(gpu, settings))


def model_timer(settings: Settings) -> Timer:
    """The models of the GPUs alone."""
    return _by_gpu(settings, KernelTimer)


def _by_gpu(settings: Settings, make: Callable[[GpuProfile], Timer]) -> Timer:
    others = {name: make(gpu) for name, gpu in settings.other_gpus.items()}
    first = make(settings.gpu)
    return MixedTimer(first, others) if others else first


def _timer_of(gpu: GpuProfile, settings: Settings) -> Timer:
    models = KernelTimer(gpu)
    if settings.cache is None:
        return models
    path = Path(settings.cache["path"])
    try:
        with TimingCache(path) as cache:
            entries = cache.entries(gpu.name)
    except Damaged as error:
        raise UsageError(f"the cache {path} is damaged: {error}") from error
    return CachedTimer(models, entries, wanted_environment(gpu, settings.cache))


def wanted_environment(gpu: GpuProfile, cache: Mapping[str, Any]) -> Environment:
    """What the program runs on as far as that is known: it has no driver."""
    return Environment(gpu.name, "", cache["cuda"], cache.get("libraries", ""))

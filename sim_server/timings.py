"""Where a run's kernel times come from, as its settings say."""

from __future__ import annotations

from pathlib import Path

from sim_server.errors import UsageError
from sim_server.kernels import CachedTimer, KernelTimer, Timer
from sim_server.settings import Settings
from sim_server.timing_cache import Damaged, TimingCache


def make_timer(settings: Settings) -> Timer:
    """The models of the GPU, behind the cache if there is one.

    Raises: UsageError if the cache cannot be used.
    """
    models = KernelTimer(settings.gpu)
    if settings.cache is None:
        return models
    path = Path(settings.cache["path"])
    try:
        with TimingCache(path) as cache:
            entries = cache.entries(settings.gpu.name)
    except Damaged as error:
        raise UsageError(f"the cache {path} is damaged: {error}") from error
    return CachedTimer(models, entries, settings.cache["cuda"])

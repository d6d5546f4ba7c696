"""How long kernels, library calls and copies take on a GPU, each with the tier of trust it
deserves.
"""

from sim_server.kernels.cached import CachedTimer, RecordedTimer
from sim_server.kernels.copies import copy_rates, fill_rate
from sim_server.kernels.measuring import MeasuringTimer
from sim_server.kernels.mixed import MixedTimer, name_gpu
from sim_server.kernels.scaled import KernelScale, RatioTimer, ScaledTimer
from sim_server.kernels.timer import KernelTimer, Timer
from sim_server.kernels.timing import Interval, Tier, Timing
from sim_server.kernels.training import TrainingTimer

__all__ = [
    "CachedTimer",
    "Interval",
    "KernelScale",
    "KernelTimer",
    "MeasuringTimer",
    "MixedTimer",
    "RatioTimer",
    "RecordedTimer",
    "ScaledTimer",
    "Tier",
    "Timer",
    "Timing",
    "TrainingTimer",
    "copy_rates",
    "fill_rate",
    "name_gpu",
]

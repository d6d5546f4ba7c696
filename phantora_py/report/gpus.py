"""The GPUs of a run that figures are means over: those on which ranks have work."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from phantora_py.data import RunData
from sim_server.log.history import HOST_WAIT_SPAN


class RunGpu(NamedTuple):
    """A GPU of a rank. A rank has one, unless its program uses several."""

    rank: int
    device: int | None
    """None: whichever the rank uses."""


def run_gpus(data: RunData) -> list[RunGpu]:
    """In the order of ranks and devices.

    A rank without work counts as a GPU that is idle, unless another rank uses that GPU.
    """
    found: list[RunGpu] = []
    several: list[RunGpu] = []
    idle: list[RunGpu] = []
    for rank in data.told.ranks:
        devices = devices_of(data, rank)
        if len(devices) > 1:
            several += [RunGpu(rank, device) for device in devices]
        else:
            (found if devices else idle).append(RunGpu(rank, None))
    if several and idle:
        numbers = data.told_settings.gpu_numbers
        used = {numbers.of_device(rank, device) for rank, device in several}
        idle = [gpu for gpu in idle if gpu.rank not in used]
    return sorted(found + several + idle)


def gpu_spans(data: RunData, gpu: RunGpu) -> npt.NDArray[np.void]:
    """What a GPU did, and what its rank's host waited for, if the rank has one."""
    spans = data.spans_of(gpu.rank)
    return spans if gpu.device is None else spans[spans["device"] == gpu.device]


def device_of(data: RunData, gpu: RunGpu) -> int:
    """Which device of its rank a GPU is; -1 if it has no work."""
    if gpu.device is not None:
        return gpu.device
    return next(iter(devices_of(data, gpu.rank)), -1)


def devices_of(data: RunData, rank: int) -> list[int]:
    """On which devices a rank has work."""
    spans = data.spans_of(rank)
    devices = spans["device"][spans["kind"] != HOST_WAIT_SPAN]
    return [int(device) for device in np.unique(devices)]


def moves_from(data: RunData, spans: npt.NDArray[np.void]) -> npt.NDArray[np.int64]:
    """When each of these communication spans begins to move bytes: at its end if it never does."""
    begins_ns: npt.NDArray[np.int64] = np.clip(
        data.moves_ns[spans["id"]], spans["start_ns"], spans["end_ns"]
    )
    return begins_ns

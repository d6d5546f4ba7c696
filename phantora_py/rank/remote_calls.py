"""Lets torch.distributed.rpc run on simulated ranks.

Its transport by shared memory polls without a pause and passes messages that nobody else sees, so
that no virtual time could be told for them: messages go by sockets. Tensors of a GPU would go from
GPU to GPU by means that are not simulated, so that they are refused.

A process that is no rank, or none yet, has this machine's clock. By that a call takes as long as it
takes to simulate, which says nothing: its calls have none that matters.
"""

from __future__ import annotations

import ctypes
import functools
import os
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

# What an interpreter takes to end, at least (assumed). On real machines that keeps the store alive
# until the last rank has read the last key of the shutdown.
_END_S = 0.1
# Eleven days. 0, which means none in a call, ends the start of RPC at once.
_NO_TIME_OUT_S = 1e6


def actions() -> dict[str, Callable[[ModuleType], None]]:
    """By module, what is to be done once it has been imported."""
    return {
        "torch.distributed.rpc.options": _use_sockets,
        "torch.distributed.rpc.backend_registry": _refuse_device_maps,
        "torch.distributed.rpc": _end_late,
    }


def _use_sockets(options: ModuleType) -> None:
    kind = options.TensorPipeRpcBackendOptions
    usual = kind.__init__

    @functools.wraps(usual)
    def make(self: Any, **given: Any) -> None:
        given["_transports"], given["_channels"] = ["uv"], ["basic"]
        if "PHANTORA_OWN_RANKS" in os.environ and not ctypes.CDLL(None).ph_has_clock():
            given["rpc_timeout"] = _NO_TIME_OUT_S
        usual(self, **given)

    kind.__init__ = make


def _refuse_device_maps(registry: Any) -> None:
    usual = registry._validate_device_maps

    @functools.wraps(usual)
    def check(names: Any, counts: Any, maps: Any, *more: Any, **options: Any) -> None:
        having = sorted(name for name, of_one in maps.items() if of_one)
        if having:
            raise RuntimeError(
                f"torch.distributed.rpc: {having[0]} has a device map, and how RPC passes tensors "
                "from GPU to GPU is not simulated. Pass tensors of the host (.cpu()), or use the "
                "collectives of torch.distributed."
            )
        usual(names, counts, maps, *more, **options)

    registry._validate_device_maps = check


def _end_late(rpc: Any) -> None:
    usual = rpc.shutdown

    @functools.wraps(usual)
    def shut_down(*arguments: Any, **options: Any) -> None:
        usual(*arguments, **options)
        time.sleep(_END_S)

    rpc.shutdown = shut_down

"""Tells the run why its report is to be trusted less. The standard library only."""

from __future__ import annotations

import ctypes
import json
from typing import Any

# Fewer bytes of parameters a processor updates in less than a millisecond (assumed: AdamW reads and
# writes seven times as many, at 10 GB/s).
_LEAST_HOST_BYTES = 1 << 20


def tell_caveat(shim: ctypes.CDLL, what: str) -> None:
    """`what`: of Caveat in sim_server/records/payloads.py."""
    told = {"kind": "caveat", "what": what, "count": 1}
    shim.ph_statistics(json.dumps(told).encode())


def tell_host_step(shim: ctypes.CDLL, optimizer: Any) -> None:
    """After a step: whether it updated parameters in host memory, in no virtual time."""
    updated_bytes = sum(
        one.numel() * one.element_size()
        for group in optimizer.param_groups
        for one in group["params"]
        if one.device.type == "cpu" and one.grad is not None
    )
    if updated_bytes >= _LEAST_HOST_BYTES:
        tell_caveat(shim, "host_step")

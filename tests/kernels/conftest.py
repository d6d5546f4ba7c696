"""Timers of the built-in GPUs, and launches made from demangled or mangled names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sim_server.gpu import load_gpu, profile_names
from sim_server.kernels import KernelTimer

MakeLaunch = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def timers() -> dict[str, KernelTimer]:
    return {name: KernelTimer(load_gpu(name)) for name in profile_names()}


@pytest.fixture(scope="session")
def launch() -> MakeLaunch:
    def make(
        name: str,
        grid: tuple[int, ...] = (1, 1, 1),
        block: tuple[int, ...] = (128, 1, 1),
        scalars: tuple[tuple[int, int], ...] = (),
        sizes: dict[str, int] | None = None,
    ) -> dict[str, Any]:
        signature: dict[str, Any] = {
            "kind": "kernel",
            "name": name,
            "grid": list(grid),
            "block": list(block),
            "shared_bytes": 0,
            "scalars": [list(pair) for pair in scalars],
        }
        return signature | ({"sizes": sizes} if sizes else {})

    return make

"""Kernels on GPUs of several models: the signature of one on another than the first names it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sim_server.kernels.timer import Timer
from sim_server.kernels.timing import Timing

_GPU = "gpu"


def name_gpu(signature: bytes, profile: str) -> bytes:
    """The signature of a launch on a GPU that is not the run's first."""
    named = json.loads(signature) | {_GPU: profile}
    return json.dumps(named, sort_keys=True).encode()


class MixedTimer:
    """Times as the timer of the GPU that a signature names; without a name as the first GPU's."""

    def __init__(self, first: Timer, others: Mapping[str, Timer]) -> None:
        """`others`: by profile."""
        self._first = first
        self._others = others

    def time(self, signature: Mapping[str, Any]) -> Timing:
        """The timing of one launch."""
        if _GPU not in signature:
            return self._first.time(signature)
        plain = {key: value for key, value in signature.items() if key != _GPU}
        return self._others[signature[_GPU]].time(plain)

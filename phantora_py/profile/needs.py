"""What a recorded run launches: its signatures, found by simulating it again."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phantora_py.data import RunData
from phantora_py.runs.resimulate import resimulate
from phantora_py.runs.what_if import WhatIf
from sim_server.kernels import KernelScale, Timer, Timing
from sim_server.settings import Settings
from sim_server.timing_cache.entry import signature_key
from sim_server.timings import model_timer


@dataclasses.dataclass(frozen=True)
class TimedBy(WhatIf):
    """The recorded run with another timer."""

    own: Timer | None = None
    # Something is changed, so that the replay does not insist on the recorded times.
    kernels: tuple[KernelScale, ...] = (KernelScale("*", 1.0),)

    def timer(self, data: RunData, settings: Settings) -> Timer:
        """The one that was given."""
        assert self.own is not None
        return self.own


class _Listener:
    """Times as the models do and remembers what it was asked for, in that order."""

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self.signatures: dict[str, Mapping[str, Any]] = {}

    def time(self, signature: Mapping[str, Any]) -> Timing:
        """The timing of one launch."""
        self.signatures[signature_key(signature)] = signature
        return self._timer.time(signature)


def signatures_of(data: RunData) -> list[Mapping[str, Any]]:
    """Each once."""
    listener = _Listener(model_timer(data.told_settings))
    with tempfile.TemporaryDirectory() as folder:
        resimulate(data, TimedBy(own=listener), Path(folder) / "again.phr")
    # A signature that names its GPU is of another model than the run's first.
    return [one for one in listener.signatures.values() if "gpu" not in one]

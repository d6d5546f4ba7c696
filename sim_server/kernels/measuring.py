"""Timings that are measured when they are first asked for, on the one real GPU of a run.

Whoever asks waits: the simulation is conservative, and a time that came later would have to be
corrected. docs/decisions/timing-cache.md has the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from sim_server.kernels.cached import CachedTimer
from sim_server.kernels.timing import Timing
from sim_server.processes.executor import Broke, Refused
from sim_server.timing_cache.entry import Entry, Environment, Failure, Measurement, signature_key


class Measurer(Protocol):
    """What measures, see `sim_server.processes.executor.Executor`."""

    environment: Environment
    restarts: int

    def measure(self, signature: Mapping[str, Any]) -> Measurement:
        """A series of launches. Raises: Refused."""

    def failure(self, signature: Mapping[str, Any], broke: Broke) -> Failure:
        """What is to be remembered of it."""


class MeasuringTimer:
    """Times as `cached` does, after measuring what that does not have."""

    def __init__(
        self,
        cached: CachedTimer,
        measurer: Measurer,
        keep: Callable[[Environment, Measurement | Failure], object],
        failures: Iterable[Failure] = (),
    ) -> None:
        """`keep` is given every measurement at once, so that an interruption costs none, and what
        broke the executor. `failures`: those in this environment that hold for its limit.
        """
        self._cached = cached
        self._measurer = measurer
        self._keep = keep
        self._failed = {signature_key(one.signature): one for one in failures}
        self._asked: set[str] = set()
        self._measured = 0
        self._known = 0
        self._refused: list[tuple[str, str, str]] = []

    def time(self, signature: Mapping[str, Any]) -> Timing:
        """The timing of one launch; it may take a while."""
        key = signature_key(signature)
        if key not in self._asked:
            self._asked.add(key)
            self._find(signature)
        return self._cached.time(signature)

    @property
    def asked(self) -> int:
        """Signatures that the GPU was asked for."""
        return len(self._asked) - self._known

    def to_dict(self) -> dict[str, Any]:
        """What became of the signatures, for the data file."""
        return {
            "environment": vars(self._measurer.environment),
            "measured": self._measured,
            "known": self._known,
            "restarts": self._measurer.restarts,
            "refused": [
                {"class": kernel_class, "name": name, "reason": reason}
                for kernel_class, name, reason in sorted(self._refused)
            ],
        }

    def _find(self, signature: Mapping[str, Any]) -> None:
        environment = self._measurer.environment
        if self._cached.has(signature, environment):
            self._known += 1
            return
        failed = self._failed.get(signature_key(signature))
        if failed is not None:
            self._refuse(signature, told_again(failed))
            return
        try:
            measurement = self._measurer.measure(signature)
        except Refused as refusal:
            self._refuse(signature, str(refusal))
            if isinstance(refusal, Broke):
                self._keep(environment, self._measurer.failure(signature, refusal))
            return
        self._measured += 1
        self._keep(environment, measurement)
        self._cached.add(Entry(environment, [measurement]))

    def _refuse(self, signature: Mapping[str, Any], reason: str) -> None:
        model = self._cached.models.time(signature)
        self._refused.append((model.kernel_class, model.name, reason))


def told_again(failed: Failure) -> str:
    """Why it is not measured."""
    told = f"not tried again since {failed.date[:10]}: {failed.failure}"
    if failed.limit_s is None:
        return told
    return f"{told}; `phantora profile` with a longer --limit tries it"

"""A processor as the model of counted host time knows it: a time for each thing that is counted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sim_server.errors import UsageError

WORKS = (
    "frame",
    "instruction",
    "dispatch",
    "backward",
    "node",
    "tensor",
    "view",
    "binding",
    "wrap",
    "rewrap",
)
"""What is counted between intercepted calls; csrc/shim/core/work_kinds.h says what each is."""
CALLS = ("light", "launch", "library", "copy", "event", "sync", "alloc", "collective", "setup")
"""Classes of intercepted calls, around which the program has work of its own."""

# A second for one count: beyond it is a mistake.
_MOST_NS = 1e9


@dataclass(frozen=True)
class CpuProfile:
    """Times of one processor. Units: nanoseconds for each count."""

    name: str
    title: str
    """The processor, as its maker names it."""
    source: str
    """Where the times are from."""
    works: Mapping[str, float]
    calls: Mapping[str, float]
    interval: tuple[float, float]
    """Of what multiples of the predicted host time 90 % are."""

    @property
    def is_amd(self) -> bool:
        """Whether AMD made it."""
        return self.title.startswith("AMD")

    def scaled(self, name: str, title: str, source: str, speed: float, widest: float) -> CpuProfile:
        """Of a processor that is `speed` times as fast on one thread, give or take `widest`, which
        is independent of how far off the times themselves are.
        """
        low, high = (math.hypot(math.log(end), math.log(widest)) for end in self.interval)
        return CpuProfile(
            name,
            title,
            source,
            {work: each_ns / speed for work, each_ns in self.works.items()},
            {call: each_ns / speed for call, each_ns in self.calls.items()},
            (math.exp(-low), math.exp(high)),
        )

    def shim_keys(self) -> dict[str, str]:
        """Its lines of shim.conf, in picoseconds."""
        works = {f"cpu.{work}_ps": self.works[work] for work in WORKS}
        calls = {f"cpu.call_{call}_ps": self.calls.get(call, 0.0) for call in CALLS}
        return {key: str(round(1000 * each_ns)) for key, each_ns in (works | calls).items()}

    def to_dict(self) -> dict[str, Any]:
        """For the data file."""
        return {
            "name": self.name,
            "title": self.title,
            "source": self.source,
            "works": dict(self.works),
            "calls": dict(self.calls),
            "interval": list(self.interval),
        }

    @classmethod
    def from_dict(cls, name: str, values: Mapping[str, Any]) -> CpuProfile:
        """Of a TOML file. Raises: UsageError that says what is wrong with it."""
        try:
            low, high = (float(end) for end in values["interval"])
            profile = cls(
                name,
                str(values["title"]),
                str(values["source"]),
                {work: _time_ns(values["works"], work) for work in WORKS},
                {call: _time_ns(values["calls"], call) for call in CALLS},
                (low, high),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(
                f"The processor profile {name} is damaged: {type(error).__name__} {error}. "
                "`phantora calibrate-host` writes one."
            ) from error
        if not 0 < low <= 1 <= high:
            raise UsageError(f"The processor profile {name}: its interval must hold 1.")
        return profile


def _time_ns(table: Mapping[str, Any], key: str) -> float:
    value = float(table[key])
    if not 0 <= value <= _MOST_NS:
        raise ValueError(f"{key} = {value} is no time in ns")
    return value

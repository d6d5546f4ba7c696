"""What a cache holds: measurements of signatures, made in an environment."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, order=True)
class Environment:
    """What a duration depends on beside its signature. `gpu`: its name as CUDA tells it;
    `libraries`: name and version of those that bring kernels, as "cublas 13.2, cudnn 9.26".
    """

    gpu: str
    driver: str
    cuda: str
    libraries: str


@dataclass(frozen=True)
class Measurement:
    """One series of launches of one signature. Units: ns, kHz.

    `cold_ns` are launches after the L2 cache had been filled with something else.
    """

    signature: Mapping[str, Any]
    warm_ns: tuple[float, ...]
    cold_ns: tuple[float, ...]
    sm_khz: int
    """The multiprocessors' clock meanwhile; 0 if it is not known."""
    date: str
    """ISO 8601, UTC."""
    origin: str
    """Who measured: a command, a file, a person."""

    def __post_init__(self) -> None:
        if not self.warm_ns or min((*self.warm_ns, *self.cold_ns)) <= 0:
            raise ValueError("a measurement has warm samples, and all of them are above 0")

    @property
    def key(self) -> str:
        """Equal for equal signatures."""
        return signature_key(self.signature)

    def to_json(self) -> str:
        """Canonical: equal measurements have equal texts."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Measurement:
        """Inverse of `to_json`. Raises: ValueError, TypeError, KeyError for anything else."""
        values = json.loads(text)
        for name in ("warm_ns", "cold_ns"):
            values[name] = tuple(float(value) for value in values[name])
        return cls(**values)


@dataclass(frozen=True)
class Entry:
    """All measurements of one signature in one environment."""

    environment: Environment
    measurements: Sequence[Measurement]

    @property
    def signature(self) -> Mapping[str, Any]:
        """The one that all of them have."""
        return self.measurements[0].signature

    @property
    def warm_ns(self) -> list[float]:
        """Samples, sorted."""
        return sorted(sample for one in self.measurements for sample in one.warm_ns)

    @property
    def cold_ns(self) -> list[float]:
        """Likewise."""
        return sorted(sample for one in self.measurements for sample in one.cold_ns)

    @property
    def median_ns(self) -> float:
        """Of the warm samples."""
        return statistics.median(self.warm_ns)

    @property
    def spread(self) -> float:
        """Half the distance of the warm quartiles, as a share of the median."""
        samples = self.warm_ns
        if len(samples) < 2:
            return 0.0
        first, _, third = statistics.quantiles(samples, n=4, method="inclusive")
        return (third - first) / 2 / self.median_ns

    @property
    def date(self) -> str:
        """Of the latest measurement."""
        return max(one.date for one in self.measurements)


def signature_key(signature: Mapping[str, Any]) -> str:
    """The canonical text of a signature (docs/records.md)."""
    return json.dumps(signature, sort_keys=True)

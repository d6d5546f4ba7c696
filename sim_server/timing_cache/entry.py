"""What a cache holds: measurements of signatures, made in an environment, and what failed."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

from sim_server.files.schema import (
    Fault,
    anything,
    mapping,
    number,
    optional,
    parse,
    printable,
    record,
    rows,
    shown,
    text,
    whole,
)


@dataclass(frozen=True, order=True)
class Environment:
    """What a duration depends on beside its signature. `gpu`: its name as CUDA tells it;
    `libraries`: name and version of those that bring kernels, as "cublas 13.2, cudnn 9.26".
    """

    gpu: str
    driver: str
    cuda: str
    libraries: str

    def differences(self, wanted: Environment) -> Differences:
        """Where it is not as `wanted`, whose empty fields stand for anything."""
        theirs, ours = _versions(wanted.libraries), _versions(self.libraries)
        others = [
            f"{name} {ours[name]}"
            for name in sorted(theirs.keys() & ours.keys())
            if not _is_same(theirs[name], ours[name])
        ]
        if wanted.cuda and wanted.cuda != self.cuda:
            others.insert(0, f"CUDA {self.cuda}")
        other_driver = bool(wanted.driver) and wanted.driver != self.driver
        return Differences(tuple(others), f"driver {self.driver}" if other_driver else "")

    @property
    def driver_version(self) -> tuple[int, ...]:
        """The driver's, to be compared."""
        return tuple(int(part) for part in self.driver.split(".") if part.isdigit())


@dataclass(frozen=True)
class Differences:
    """Between the environment of a measurement and that of a program. `kernels`: versions that
    bring kernels, as "CUDA 12.8". Empty ones: none.
    """

    kernels: tuple[str, ...]
    driver: str

    @property
    def text(self) -> str:
        """All of them."""
        return ", ".join((*self.kernels, *([self.driver] if self.driver else [])))


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
    memory_khz: int | None = None
    """The memory's clock meanwhile. None here and below: it is not known."""
    temperature_c: int | None = None
    """The GPU's, in degrees Celsius, at the end."""
    outliers: int | None = None
    """Samples that were left out."""

    def __post_init__(self) -> None:
        if not self.warm_ns or min((*self.warm_ns, *self.cold_ns)) <= 0:
            raise ValueError("a measurement has warm samples, and all of them are above 0")

    @property
    def key(self) -> str:
        """Equal for equal signatures."""
        return signature_key(self.signature)

    def to_json(self) -> str:
        """Canonical: equal measurements have equal texts."""
        known = {name: value for name, value in asdict(self).items() if value is not None}
        return json.dumps(known, sort_keys=True)

    @classmethod
    def from_json(cls, content: str) -> Measurement:
        """Inverse of `to_json`. Raises: Fault for anything else."""
        return cls.from_values(parse(content))

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Measurement:
        """Of what JSON says. Raises: Fault."""
        _MEASUREMENT(values)
        values = _only(values, cls)
        for name in ("warm_ns", "cold_ns"):
            values[name] = tuple(float(value) for value in values[name])
        return cls(**values)


@dataclass(frozen=True)
class Failure:
    """A signature that is not to be measured again: it killed whatever measured it, or hung."""

    signature: Mapping[str, Any]
    failure: str
    """What happened."""
    date: str
    origin: str
    """Both as of `Measurement`."""
    limit_s: float | None = None
    """The time that it ran out of. None: it failed in another way."""

    def holds(self, limit_s: float) -> bool:
        """Whether a measurement with this limit would come to the same."""
        return self.limit_s is None or limit_s <= self.limit_s

    def to_json(self) -> str:
        """Canonical, as of `Measurement`."""
        known = {name: value for name, value in asdict(self).items() if value is not None}
        return json.dumps(known, sort_keys=True)


Row = tuple[Environment, Measurement | Failure]


def row_of(content: str) -> Measurement | Failure:
    """What `to_json` of either wrote. Raises: Fault for anything else."""
    return row_of_values(parse(content))


def row_of_values(values: Any) -> Measurement | Failure:
    """Likewise, of what JSON says. Raises: Fault."""
    if isinstance(values, dict) and "failure" in values:
        _FAILURE(values)
        return Failure(**_only(values, Failure))
    return Measurement.from_values(values)


def environment_of(values: Any) -> Environment:
    """Of what JSON says; other keys are let be. Raises: Fault."""
    _ENVIRONMENT(values)
    return Environment(*(values[field.name] for field in fields(Environment)))


def _only(values: Mapping[str, Any], record_type: type) -> dict[str, Any]:
    """Raises: Fault for a key that is none of the record's."""
    unknown = values.keys() - {field.name for field in fields(record_type)}
    if unknown:
        raise Fault(f"{shown(min(unknown))} is no key of a {record_type.__name__.lower()}")
    return dict(values)


def _date(value: Any) -> None:
    text(value)
    try:
        datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        raise Fault(f"{shown(value)} is no date; write it as 2026-01-31T12:00:00+00:00") from None


_sample_ns = number(1e-3, 1e15)
_clock_khz = whole(0, 10**9)
_SIGNATURE = mapping(anything)
_ENVIRONMENT = record(dict.fromkeys(("gpu", "driver", "cuda", "libraries"), printable))
_MEASUREMENT = record(
    {
        "signature": _SIGNATURE,
        "warm_ns": rows(_sample_ns, least=1),
        "cold_ns": rows(_sample_ns),
        "sm_khz": _clock_khz,
        "date": _date,
        "origin": printable,
    },
    {
        "memory_khz": optional(_clock_khz),
        "temperature_c": optional(whole(-273, 1000)),
        "outliers": optional(whole(0, 10**9)),
    },
)
_FAILURE = record(
    {"signature": _SIGNATURE, "failure": printable, "date": _date, "origin": printable},
    {"limit_s": optional(number(0, 1e9))},
)


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


def _versions(libraries: str) -> dict[str, str]:
    """By name, of "cublas 13.2, cudnn 9.26"."""
    parts = (part.strip().partition(" ") for part in libraries.split(","))
    return {name: version.strip() for name, _, version in parts if version}


def _is_same(one: str, other: str) -> bool:
    """Whether two versions agree as far as both tell: 13.4 and 13.4.0.1 do."""
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def signature_key(signature: Mapping[str, Any]) -> str:
    """The canonical text of a signature (docs/records.md)."""
    return json.dumps(signature, sort_keys=True)

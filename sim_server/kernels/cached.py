"""Timings from a cache of measurements where it has them, from its neighbours where it has those,
and from the models otherwise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from math import ceil
from statistics import median
from typing import Any

import numpy as np

from sim_server.kernels.neighbours import Neighbours, place
from sim_server.kernels.timer import Timer
from sim_server.kernels.timing import Interval, Tier, Timing
from sim_server.timing_cache.entry import Entry, signature_key

# What another card of the model, or another day, adds to the spread of the samples (assumed).
_OTHER_CARD = 0.03
# Likewise another version of CUDA and its libraries, whose kernels may be others (assumed).
_OTHER_VERSION = 0.1


class CachedTimer:
    """Times as `models` does what was not measured. Equal signatures give equal timings."""

    def __init__(self, models: Timer, entries: Iterable[Entry], cuda: str) -> None:
        """`entries`: of one GPU. `cuda`: the version that the program runs on, "13.2"."""
        self._models = models
        self._cuda = cuda
        self._entries: dict[str, Entry] = {}
        for entry in entries:
            key = signature_key(entry.signature)
            before = self._entries.get(key)
            if before is None or self._preference(entry) > self._preference(before):
                self._entries[key] = entry
        self._families: dict[str, Neighbours] | None = None
        self._timings: dict[str, Timing] = {}

    def time(self, signature: Mapping[str, Any]) -> Timing:
        """The timing of one launch."""
        key = signature_key(signature)
        timing = self._timings.get(key)
        if timing is None:
            entry = self._entries.get(key)
            found = self._models.time(signature)
            timing = self._measured(found, entry) if entry else self._interpolated(found, signature)
            self._timings[key] = timing
        return timing

    def _preference(self, entry: Entry) -> tuple[bool, str, str]:
        """The same version of CUDA, then the latest."""
        environment = entry.environment
        return environment.cuda == self._cuda, entry.date, environment.driver

    def _measured(self, model: Timing, entry: Entry) -> Timing:
        """Warm, as most kernels find what the kernel before wrote; cold is an end of the
        interval.
        """
        median_ns, samples = entry.median_ns, entry.warm_ns
        same = entry.environment.cuda == self._cuda
        margin = _OTHER_CARD if same else _OTHER_VERSION
        low, high = np.quantile(samples, (0.05, 0.95)) / median_ns
        if entry.cold_ns:
            high = max(high, median(entry.cold_ns) / median_ns)
        version = "" if same else f", CUDA {entry.environment.cuda}"
        return dataclasses.replace(
            model,
            duration_ns=max(1, ceil(median_ns)),
            tier=Tier.MEASURED if same else Tier.INTERPOLATED,
            interval=Interval(
                float(low) * (1 - margin),
                float(high) * (1 + margin),
                f"{len(samples)} samples{version}",
            ),
        )

    def _interpolated(self, model: Timing, signature: Mapping[str, Any]) -> Timing:
        if self._families is None:
            self._families = self._find_families()
        family, coordinates = place(signature)
        neighbours = self._families.get(family)
        found = neighbours.ratio(coordinates) if neighbours else None
        if found is None:
            return model
        ratio, low, high = found
        return dataclasses.replace(
            model,
            duration_ns=max(1, ceil(model.duration_ns * ratio)),
            tier=Tier.INTERPOLATED,
            interval=Interval(low, high, "neighbours in the cache"),
        )

    def _find_families(self) -> dict[str, Neighbours]:
        families: dict[str, Neighbours] = {}
        for key in sorted(self._entries):
            entry = self._entries[key]
            family, coordinates = place(entry.signature)
            ratio = entry.median_ns / self._models.time(entry.signature).duration_ns
            families.setdefault(family, Neighbours()).add(coordinates, ratio)
        return families


class RecordedTimer:
    """A recorded run's timings that were not from models, for its resimulation."""

    def __init__(self, models: Timer, rows: Iterable[Mapping[str, Any]]) -> None:
        """`rows`: of `timings` in the data file (docs/data-file.md)."""
        self._models = models
        self._rows = {signature_key(row["signature"]): row for row in rows if "signature" in row}

    def time(self, signature: Mapping[str, Any]) -> Timing:
        """The timing of one launch."""
        timing = self._models.time(signature)
        row = self._rows.get(signature_key(signature))
        if row is None:
            return timing
        low, high = row["interval"]
        return dataclasses.replace(
            timing,
            duration_ns=row["duration_ns"],
            tier=Tier(row["tier"]),
            interval=Interval(low, high, row["interval_source"]),
        )

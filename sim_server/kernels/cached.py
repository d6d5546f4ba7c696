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
from sim_server.timing_cache.entry import Entry, Environment, signature_key

# What another card of the model, or another day, adds to the spread of the samples (assumed).
_OTHER_CARD = 0.03
# Likewise another driver, which runs the same kernels (assumed).
_OTHER_DRIVER = 0.05
# Likewise another version of CUDA and its libraries, whose kernels may be others (assumed).
_OTHER_VERSION = 0.1


class CachedTimer:
    """Times as `models` does what was not measured. Equal signatures give equal timings."""

    def __init__(self, models: Timer, entries: Iterable[Entry], wanted: Environment) -> None:
        """`entries`: of one GPU. `wanted`: what the program runs on; what is empty of it is
        not known.
        """
        self.models = models
        self._wanted = wanted
        self._entries: dict[str, Entry] = {}
        for entry in entries:
            key = signature_key(entry.signature)
            before = self._entries.get(key)
            if before is None or self._preference(entry) > self._preference(before):
                self._entries[key] = entry
        # Entries that come later are not neighbours: their order may differ from run to run.
        self._neighbours = dict(self._entries)
        self._families: dict[str, Neighbours] | None = None
        self._timings: dict[str, Timing] = {}

    def time(self, signature: Mapping[str, Any]) -> Timing:
        """The timing of one launch."""
        key = signature_key(signature)
        timing = self._timings.get(key)
        if timing is None:
            entry = self._entries.get(key)
            found = self.models.time(signature)
            if signature.get("host_bytes"):  # measured ones have all on the GPU
                timing = found
            elif entry:
                timing = self._measured(found, entry)
            else:
                timing = self._interpolated(found, signature)
            self._timings[key] = timing
        return timing

    def has(self, signature: Mapping[str, Any], environment: Environment) -> bool:
        """Whether this very signature was measured there."""
        entry = self._entries.get(signature_key(signature))
        return entry is not None and entry.environment == environment

    def add(self, entry: Entry) -> None:
        """A measurement of a signature that was not asked for yet."""
        key = signature_key(entry.signature)
        assert key not in self._timings, "its timing has been told"
        self._entries[key] = entry

    def _preference(self, entry: Entry) -> tuple[object, ...]:
        """The program's own environment, as far as it goes; then the newest driver, so that one
        environment serves a whole run; then the latest.
        """
        differences = entry.environment.differences(self._wanted)
        return (
            -len(differences.kernels),
            not differences.driver,
            entry.environment.driver_version,
            entry.environment.libraries,
            entry.date,
        )

    def _measured(self, model: Timing, entry: Entry) -> Timing:
        """Warm, as most kernels find what the kernel before wrote; cold is an end of the
        interval.
        """
        median_ns, samples = entry.median_ns, entry.warm_ns
        differences = entry.environment.differences(self._wanted)
        same = not differences.kernels
        margin = _OTHER_VERSION
        if same:
            margin = _OTHER_DRIVER if differences.driver else _OTHER_CARD
        low, high = np.quantile(samples, (0.05, 0.95)) / median_ns
        if entry.cold_ns:
            high = max(high, median(entry.cold_ns) / median_ns)
        version = f", {differences.text}" if differences.text else ""
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
        for key in sorted(self._neighbours):
            entry = self._neighbours[key]
            family, coordinates = place(entry.signature)
            ratio = entry.median_ns / self.models.time(entry.signature).duration_ns
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

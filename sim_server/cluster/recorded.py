"""Checks a description that was read back from a file, in base units, by the schema of its fields
(`sim_server.cluster.description`).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, get_type_hints

from sim_server.cluster.description import Cluster
from sim_server.cluster.fabric_checks import fabric_fault
from sim_server.cluster.graph import GraphLink
from sim_server.cluster.limits import (
    MOST_BYTES_PER_S,
    MOST_CLOCK_KHZ,
    MOST_LATENCY_NS,
    MOST_MEMORY_BYTES,
    MOST_POWER_W,
)
from sim_server.cluster.node_checks import node_fault
from sim_server.cluster.settings import Setting
from sim_server.cluster.units import (
    parse_bytes,
    parse_bytes_per_s,
    parse_khz,
    parse_ns,
    parse_watts,
)
from sim_server.files.schema import Check, Fault, whole

_bytes_per_s = whole(1, MOST_BYTES_PER_S)
_latency_ns = whole(0, MOST_LATENCY_NS)
# What a file writes as text with a unit is a number here.
_NUMBERS: dict[Callable[[object], object], Check] = {
    parse_bytes_per_s: _bytes_per_s,
    parse_ns: _latency_ns,
    parse_bytes: whole(1, MOST_MEMORY_BYTES),
    parse_khz: whole(1, MOST_CLOCK_KHZ),
    parse_watts: whole(1, MOST_POWER_W),
}


def check_recorded(cluster: Cluster) -> None:
    """Raises: Fault for a value that no description would have been read with."""
    _check_record(cluster)
    fault = node_fault(cluster) or fabric_fault(cluster)
    if fault is not None:
        raise Fault(fault)


def _check_record(one: Any) -> None:
    hints = _hints(one.__class__)
    for field in dataclasses.fields(one):
        value = getattr(one, field.name)
        try:
            for setting in getattr(hints[field.name], "__metadata__", ()):
                if value != field.default or field.default is dataclasses.MISSING:
                    _check_value(setting, value)
            for part in value if isinstance(value, tuple) else (value,):
                if isinstance(part, GraphLink):
                    _bytes_per_s(part.bandwidth_bytes_per_s)
                    _latency_ns(part.latency_ns)
                elif dataclasses.is_dataclass(part):
                    _check_record(part)
        except Fault as fault:
            raise fault.below(f".{field.name}") from None


@functools.cache
def _hints(record: type) -> dict[str, Any]:
    return get_type_hints(record, include_extras=True)


def _check_value(setting: Setting, value: Any) -> None:
    if isinstance(value, tuple):  # made by the reader, of lists that it has looked at
        return
    if setting.parse in _NUMBERS:
        _NUMBERS[setting.parse](value)
        return
    try:
        setting.parse(value)
    except ValueError as error:
        raise Fault(str(error)) from None

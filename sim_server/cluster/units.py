"""Quantities with units, as users write them: "400 Gb/s", "2 us", "80 GB".

The one place where text becomes a number with a unit. Prefixes are decimal; "Ki", "Mi", "Gi", "Ti"
are binary. A small "b" is a bit, a capital "B" a byte.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

from sim_server.cluster.limits import (
    MOST_BYTES_PER_S,
    MOST_CLOCK_KHZ,
    MOST_LATENCY_NS,
    MOST_MEMORY_BYTES,
    MOST_POWER_W,
)
from sim_server.files.schema import shown

_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,2})?)\s*([A-Za-z/]*)\s*")

# Longer ones are no quantity, and take long to compute with.
_MOST_CHARACTERS = 60

_DECIMAL = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}

_BYTES = {f"{prefix}B": Fraction(n) for prefix, n in (_DECIMAL | _BINARY).items()}
_BYTES_PER_S = {f"{unit}/s": size for unit, size in _BYTES.items()} | {
    f"{prefix}b/s": Fraction(n, 8) for prefix, n in _DECIMAL.items()
}
# As data sheets write them.
_ALSO = {f"{unit.removesuffix('/s')}ps": unit for unit in _BYTES_PER_S} | {
    f"{prefix}bit/s": f"{prefix}b/s" for prefix in _DECIMAL
}
_KILOHERTZ = {f"{prefix}Hz": Fraction(n, 1000) for prefix, n in _DECIMAL.items()}
_WATTS = {"W": Fraction(1), "kW": Fraction(1000)}
_NANOSECONDS = {
    "ns": Fraction(1),
    "us": Fraction(10**3),
    "ms": Fraction(10**6),
    "s": Fraction(10**9),
}


def parse_bytes(text: object) -> int:
    """Bytes in a quantity such as "80 GB" or "4 MiB". Raises: ValueError."""
    return _within(_parse(text, "size", _BYTES, "80 GB"), MOST_MEMORY_BYTES, text)


def parse_bytes_per_s(text: object) -> int:
    """Bytes per second in a quantity such as "400 Gb/s", also as "400 Gbps", or "450 GB/s".

    Raises: ValueError.
    """
    value = _parse(text, "bandwidth", _BYTES_PER_S, "400 Gb/s")
    if value == 0:
        raise ValueError(f'"{text}" is no capacity: nothing would ever arrive; write more than 0')
    if value > MOST_BYTES_PER_S:
        raise ValueError(f"{shown(text)} is more than any link has; write at most 10000000 GB/s")
    return value


def parse_ns(text: object) -> int:
    """Nanoseconds in a quantity such as "2 us". Raises: ValueError."""
    value = _parse(text, "time", _NANOSECONDS, "2 us")
    if value > MOST_LATENCY_NS:
        raise ValueError(f"{shown(text)} is longer than any link takes; write at most 100 s")
    return value


def parse_khz(text: object) -> int:
    """Kilohertz in a clock such as "1.98 GHz". Raises: ValueError."""
    return _within(_parse(text, "clock", _KILOHERTZ, "1.98 GHz"), MOST_CLOCK_KHZ, text)


def parse_watts(text: object) -> int:
    """Watts in a power such as "500 W". Raises: ValueError."""
    return _within(_parse(text, "power", _WATTS, "500 W"), MOST_POWER_W, text)


def _within(value: int, most: int, text: object) -> int:
    if not 1 <= value <= most:
        raise ValueError(f"{shown(text)} is {'none' if value < 1 else 'more than any GPU has'}")
    return value


def _parse(text: object, what: str, units: Mapping[str, Fraction], example: str) -> int:
    if not isinstance(text, str):
        raise ValueError(
            f'{shown(text)} has no unit; write a {what} as text with one, as "{example}"'
        )
    match = _QUANTITY.fullmatch(text) if len(text) <= _MOST_CHARACTERS else None
    if match is None:
        raise ValueError(
            f'"{text[:_MOST_CHARACTERS]}" is not a {what}; write a number and a unit, as '
            f'"{example}"'
        )
    number, unit = match.groups()
    unit = _ALSO.get(unit, unit)
    if not unit:
        raise ValueError(f'"{text}" has no unit; write a {what} with one, as "{example}"')
    if unit not in units:
        raise ValueError(f"'{unit}' is not a unit of {what}; use one of {', '.join(units)}")
    value = Fraction(number) * units[unit]
    if value.denominator != 1:
        raise ValueError(
            f'"{text}" is not a whole number of base units; write it with fewer digits'
        )
    return int(value)

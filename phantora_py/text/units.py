"""Numbers as people read them: three significant digits and a unit."""

from __future__ import annotations


def duration_text(duration_ns: float) -> str:
    """`duration_ns` in the unit that keeps it between 1 and 1000."""
    for unit, size_ns in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if duration_ns >= 0.9995 * size_ns:  # what would be rounded to 1000 of the next unit
            return f"{_significant(duration_ns / size_ns)} {unit}"
    return f"{duration_ns:.0f} ns"


def size_text(size_bytes: float) -> str:
    """`size_bytes` in binary units."""
    for unit, exponent in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size_bytes >= 1 << exponent:
            return f"{_significant(size_bytes / (1 << exponent))} {unit}"
    return f"{size_bytes:.0f} B"


def amount_text(amount: float) -> str:
    """`amount` with three significant digits at least, and commas."""
    return f"{amount:,.0f}" if amount >= 99.95 else _significant(amount)


def percent_text(share: float) -> str:
    """`share` of one, one digit after the point; "< 0.1 %" for a little that is not nothing."""
    return "< 0.1 %" if 0 < share < 0.001 else f"{100 * share:.1f} %"


def _significant(value: float) -> str:
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f}"


def long_time_text(time_s: float) -> str:
    """`time_s` in the unit that people plan in: seconds to days."""
    for unit, size_s in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if time_s >= 2 * size_s:
            return f"{amount_text(time_s / size_s)} {unit}"
    return duration_text(1e9 * time_s)


def money_text(amount: float) -> str:
    """A price, in whatever currency: two digits after the point, more for a little."""
    return f"{amount:,.2f}" if amount >= 1 or not amount else f"{amount:.3g}"


def energy_text(energy_j: float) -> str:
    """`energy_j` as electricity is sold, or in joules if it is little."""
    for unit, size_j in (("GWh", 3.6e12), ("MWh", 3.6e9), ("kWh", 3.6e6), ("Wh", 3.6e3)):
        if energy_j >= 0.9995 * size_j:
            return f"{amount_text(energy_j / size_j)} {unit}"
    return f"{amount_text(energy_j)} J"

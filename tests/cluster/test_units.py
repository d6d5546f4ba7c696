"""Quantities with units."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sim_server.cluster.units import parse_bytes, parse_bytes_per_s, parse_ns


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_bytes, "80 GB", 80 * 10**9),
        (parse_bytes, "4 MiB", 4 * 2**20),
        (parse_bytes, "1.5kB", 1500),
        (parse_bytes, "1e3 B", 1000),
        (parse_bytes_per_s, "400 Gb/s", 50 * 10**9),
        (parse_bytes_per_s, "450 GB/s", 450 * 10**9),
        (parse_bytes_per_s, "400 Gbps", 50 * 10**9),
        (parse_bytes_per_s, "450GBps", 450 * 10**9),
        (parse_bytes_per_s, "1 GiBps", 2**30),
        (parse_bytes_per_s, "400 Gbit/s", 50 * 10**9),
        (parse_bytes_per_s, "31.5 GB/s", 31_500_000_000),
        (parse_bytes_per_s, "1 GiB/s", 2**30),
        (parse_ns, "2 us", 2000),
        (parse_ns, "0.25 us", 250),
        (parse_ns, "1 s", 10**9),
        (parse_ns, "0 ns", 0),
    ],
)
def test_quantity_has_value(parse: Callable[[str], int], text: str, value: int) -> None:
    """Prefixes are decimal, Ki and its like binary, b is a bit and B a byte."""
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (
            parse_ns,
            "2 GB",
            "'GB' is not a unit of time; use one of ns, us, ms, s",
        ),
        (
            parse_bytes,
            "80 Gb",
            "'Gb' is not a unit of size; use one of B, kB, MB, GB, TB, KiB, MiB, GiB, TiB",
        ),
        (
            parse_bytes_per_s,
            "400 Gpbs",
            "'Gpbs' is not a unit of bandwidth; use one of B/s, kB/s, MB/s, GB/s, TB/s, KiB/s, "
            "MiB/s, GiB/s, TiB/s, b/s, kb/s, Mb/s, Gb/s, Tb/s",
        ),
        (parse_ns, 2, '2 has no unit; write a time as text with one, as "2 us"'),
        (parse_ns, "2", '"2" has no unit; write a time with one, as "2 us"'),
        (parse_ns, "-1 us", '"-1 us" is not a time; write a number and a unit, as "2 us"'),
        (
            parse_ns,
            "0.5 ns",
            '"0.5 ns" is not a whole number of base units; write it with fewer digits',
        ),
    ],
)
def test_wrong_quantity_says_what_is_right(
    parse: Callable[[str], int], text: str, message: str
) -> None:
    """The message names the wrong part and the units there are."""
    with pytest.raises(ValueError, match=r".") as error:
        parse(text)
    assert str(error.value) == message

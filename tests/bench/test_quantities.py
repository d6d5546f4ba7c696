"""Sizes and subsets on the command line."""

from __future__ import annotations

import pytest

from phantora_py.bench.quantities import parse_size_bytes, parse_subset, sizes_bytes
from sim_server.errors import UsageError


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("8", 8), ("1K", 1024), ("64k", 65536), ("128M", 1 << 27), ("4G", 1 << 32), ("1MiB", 1 << 20)],
)
def test_size(text: str, size_bytes: int) -> None:
    """Letters are powers of 1024, as in nccl-tests."""
    assert parse_size_bytes(text) == size_bytes


@pytest.mark.parametrize("text", ["", "0", "-8", "4X", "1.5G", "G"])
def test_no_size(text: str) -> None:
    """Nothing else passes."""
    with pytest.raises(UsageError, match="is not a size"):
        parse_size_bytes(text)


@pytest.mark.parametrize("text", ["1025T", "9" * 5000, "9" * 16 + "G"])
def test_a_size_that_no_gpu_has(text: str) -> None:
    """Model and memory would be asked for what cannot be."""
    with pytest.raises(UsageError, match="is more than a GPU has"):
        parse_size_bytes(text)


def test_sizes_grow_by_the_factor() -> None:
    """The last size is included."""
    assert sizes_bytes("8", "128", 4) == [8, 32, 128]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("8", "64", 1), "at least 2"), (("64", "8", 2), "-b 64 is more than -e 8")],
)
def test_impossible_sizes(arguments: tuple[str, str, int], message: str) -> None:
    """A range that never ends or is empty is refused."""
    with pytest.raises(UsageError, match=message):
        sizes_bytes(*arguments)


@pytest.mark.parametrize(
    ("text", "ranks"),
    [("0-3", (0, 1, 2, 3)), ("7,0", (7, 0)), ("0-7:4,6", (0, 4, 6))],
)
def test_subset(text: str, ranks: tuple[int, ...]) -> None:
    """Ranges, lists and strides, in the order in which they are written."""
    assert parse_subset(text, 8) == ranks


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0-8", "no rank 8; 8 ranks are 0 to 7"),
        ("3-1", "'3-1' is empty"),
        ("0-7:0", "'0-7:0' is empty"),
        ("0,x", "'x' is no set of ranks"),
        ("0-3,2", "rank 2 is there twice"),
        ("5", "at least 2 ranks"),
    ],
)
def test_no_subset(text: str, message: str) -> None:
    """What is wrong is named."""
    with pytest.raises(UsageError, match=message):
        parse_subset(text, 8)

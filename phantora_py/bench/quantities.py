"""Sizes and sets of ranks as the command line of `phantora bench` writes them."""

from __future__ import annotations

import re

from sim_server.errors import UsageError

_SIZE = re.compile(r"(\d+)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_EXPONENTS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_PART = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")


MOST_BYTES = 1 << 50
"""More than any GPU has (assumed)."""


def whole_bytes(digits: str) -> int | None:
    """A number of bytes in decimal digits; None if it is more than `MOST_BYTES`."""
    size_bytes = int(digits) if len(digits) <= len(str(MOST_BYTES)) else MOST_BYTES + 1
    return size_bytes if size_bytes <= MOST_BYTES else None


def parse_size_bytes(text: str) -> int:
    """`128M` as 134217728: K, M, G and T are powers of 1024, as in nccl-tests.

    Raises: UsageError.
    """
    match = _SIZE.fullmatch(text.strip())
    number = whole_bytes(match[1]) if match else 0
    if match is None or number == 0:
        raise UsageError(f"'{text}' is not a size; write for example 8, 64K, 128M or 4G")
    size_bytes = MOST_BYTES + 1 if number is None else number << _EXPONENTS[match[2].upper()]
    if size_bytes > MOST_BYTES:
        raise UsageError(f"'{text}' is more than a GPU has; the most is 1024T")
    return size_bytes


def sizes_bytes(first: str, last: str, factor: int) -> list[int]:
    """Sizes from `first` to `last`, each `factor` times the one before. Raises: UsageError."""
    if factor < 2:
        raise UsageError(f"-f {factor}: sizes grow by a factor of at least 2")
    size_bytes, last_bytes = parse_size_bytes(first), parse_size_bytes(last)
    if size_bytes > last_bytes:
        raise UsageError(f"-b {first} is more than -e {last}; the first size is the smaller one")
    sizes = []
    while size_bytes <= last_bytes:
        sizes.append(size_bytes)
        size_bytes *= factor
    return sizes


def parse_subset(text: str, ranks: int) -> tuple[int, ...]:
    """`0-7`, `0,8,16` or `0-63:8` (every eighth) as ranks of a communicator, in this order.

    Raises: UsageError.
    """
    chosen: list[int] = []
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise UsageError(
                f"--subset {text}: '{part}' is no set of ranks; write for example 0-7, 0,8,16 or "
                "0-63:8 for every eighth"
            )
        first = int(match[1])
        last, step = int(match[2] or first), int(match[3] or 1)
        if last < first or step < 1:
            raise UsageError(f"--subset {text}: '{part}' is empty")
        chosen += range(first, last + 1, step)
    beyond = [rank for rank in chosen if rank >= ranks]
    if beyond:
        raise UsageError(
            f"--subset {text}: there is no rank {beyond[0]}; {ranks} ranks are 0 to {ranks - 1}"
        )
    twice = [rank for rank in set(chosen) if chosen.count(rank) > 1]
    if twice:
        raise UsageError(f"--subset {text}: rank {min(twice)} is there twice")
    if len(chosen) < 2:
        raise UsageError(f"--subset {text}: a communicator to measure has at least 2 ranks")
    return tuple(chosen)

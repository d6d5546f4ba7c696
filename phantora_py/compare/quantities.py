"""Values on the command line of `phantora compare`: work of an iteration, prices, gates."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sim_server.errors import UsageError

_WORK = re.compile(r"(\d+(?:\s*x\s*\d+)*)\s*([A-Za-z]*)")
_GATE = re.compile(r"\s*(\w+)\s*<=\s*([0-9.]+)\s*")
GATE_METRICS = ("iteration_time", "exposed_communication", "waiting_for_ranks", "peak_memory")


@dataclass(frozen=True)
class Work:
    """What an iteration of the whole cluster gets through."""

    amount: float
    unit: str


@dataclass(frozen=True)
class Gate:
    """A figure may be at most so many times that of the first run."""

    text: str
    metric: str
    limit: float


def parse_work(texts: Sequence[str], runs: int) -> list[Work | None]:
    """One entry per run, of none, one or that many texts as `64x4096 tokens`.

    Raises: UsageError.
    """
    if not texts:
        return [None] * runs
    if len(texts) not in (1, runs):
        raise UsageError(
            f"--per-iteration was given {len(texts)} times for {runs} runs; give it once for all, "
            "or once for each, in their order."
        )
    works = [work_of(text) for text in texts]
    if len({work.unit for work in works}) > 1:
        units = ", ".join(sorted({work.unit for work in works}))
        raise UsageError(f"--per-iteration counts {units}, which cannot be compared; use one unit.")
    return [*works] if len(works) == runs else [*works] * runs


def work_of(text: str) -> Work:
    """`64x4096 tokens`; samples unless it says of what. Raises: UsageError."""
    match = _WORK.fullmatch(text.strip())
    amount = math.prod(int(one) for one in match[1].split("x")) if match else 0
    if match is None or amount < 1:
        raise UsageError(
            f"--per-iteration {text!r} is not an amount; write what all ranks together get through "
            "in an iteration, as '64x4096 tokens' or '256 samples'."
        )
    return Work(amount, match[2] or "samples")


@dataclass(frozen=True)
class Prices:
    """Per GPU-hour, in whatever currency: by GPU, or of every other one."""

    by_gpu: dict[str, float]
    other: float | None

    def of(self, gpu: str) -> float | None:
        """The price of a GPU, None if it was not told."""
        return self.by_gpu.get(gpu, self.other)


def check_prices(prices: Prices, gpus: Iterable[str]) -> None:
    """Raises: UsageError for a price of a GPU that no run has."""
    known = sorted(set(gpus))
    for gpu in prices.by_gpu:
        if gpu not in known:
            nearest = difflib.get_close_matches(gpu, known, 1, cutoff=0.0)[0]
            raise UsageError(
                f"--price {gpu}=...: no run has a GPU of that name; did you mean {nearest!r}? "
                f"The runs have {', '.join(known)}."
            )


def parse_prices(texts: Sequence[str]) -> Prices:
    """`2.49`, or `h100=2.49` for one kind of GPU. Raises: UsageError."""
    by_gpu: dict[str, float] = {}
    other: float | None = None
    for text in texts:
        gpu, equals, number = text.rpartition("=")
        try:
            price = float(number)
        except ValueError:
            price = -1.0
        if not 0 <= price < math.inf or (equals and not gpu):
            raise UsageError(
                f"--price {text!r} is not a price per GPU-hour; write for example 2.49, or "
                "h100=2.49 for one kind of GPU."
            )
        if gpu:
            by_gpu[gpu] = price
        else:
            other = price
    return Prices(by_gpu, other)


def hourly_cost(prices: Prices, gpus: Mapping[str, int]) -> float | None:
    """Of so many GPUs of each kind together. None: the price of one was not told."""
    total = 0.0
    for gpu, count in gpus.items():
        price = prices.of(gpu)
        if price is None:
            return None
        total += price * count
    return total


def parse_amount(option: str, text: str) -> float:
    """`2e12`, a number above 0. Raises: UsageError."""
    try:
        amount = float(text)
    except ValueError:
        amount = math.nan
    if not 0 < amount < math.inf:
        raise UsageError(f"{option} {text!r} is not an amount; write a number above 0, as 2e12.")
    return amount


def parse_gate(text: str) -> Gate:
    """`iteration_time<=1.02`. Raises: UsageError."""
    match = _GATE.fullmatch(text)
    try:
        limit = float(match[2]) if match else -1.0
    except ValueError:
        limit = -1.0
    if match is None or limit < 0 or match[1] not in GATE_METRICS:
        raise UsageError(
            f"--gate {text!r} is not a gate; write for example 'iteration_time<=1.02', the ratio "
            f"to the first run, of {', '.join(GATE_METRICS)}."
        )
    return Gate("".join(text.split()), match[1], limit)

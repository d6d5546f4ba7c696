"""`--min-trust` and `--strict`: what is refused, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from phantora_py.report.trust import doubts_of


def summary(
    assumed: float = 0.0,
    between: tuple[int, int] | None = (900, 1200),
    variables: tuple[str, ...] = (),
    skipped: int = 0,
) -> dict[str, Any]:
    """As far as it is looked at; iterations take 1,000 ns."""
    interval = between and {
        **{"low_ns": between[0], "high_ns": between[1], "classes": [{"class": "gemm"}]}
    }
    return {
        "iterations": {"median_ns": 1000 if between else None},
        "trust": {
            "gpu_time_share": {"assumed": assumed},
            "interval": interval,
            "nccl_not_modelled": list(variables),
            "unsupported": {"skipped": skipped},
        },
    }


def test_nothing_is_asked_for_and_nothing_refused() -> None:
    """Without the options any run passes; with them one that is sure."""
    assert not list(doubts_of(summary(0.9, None, ("NCCL_X=1",)), None, strict=False))
    assert not list(doubts_of(summary(0.005), 0.99, strict=True))


def test_min_trust_is_about_what_is_assumed() -> None:
    """Exactly what is asked for suffices; the message has both shares."""
    assert not list(doubts_of(summary(0.25), 0.75, strict=False))
    (said,) = doubts_of(summary(0.25, None), 0.8, strict=False)
    assert "25.0% of the GPU time are assumed, more than --min-trust 80.0% leaves" in said


@pytest.mark.parametrize(("min_trust", "strict"), [(0.0, False), (None, True)])
def test_calls_that_did_nothing(min_trust: float | None, strict: bool) -> None:
    """Whatever is asked for, a run that left calls out falls short of it."""
    assert not list(doubts_of(summary(skipped=6), None, strict=False))
    (said,) = doubts_of(summary(skipped=6), min_trust, strict)
    assert said.startswith("6 calls that are not modelled did nothing and took no time")


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (summary(0.02), "2.0% of the GPU time are merely assumed"),
        (summary(between=(700, 1100)), "may take 30.0% less or 10.0% more than simulated"),
        (summary(between=(900, 1300)), "mostly because of gemm"),
        (summary(between=None), "no iteration after the first"),
        (summary(variables=("NCCL_X=1", "NCCL_Y=2")), "not modelled: NCCL_X=1, NCCL_Y=2"),
    ],
)
def test_strict_refuses_each_doubt(found: dict[str, Any], words: str) -> None:
    """Each by itself is one too many."""
    (said,) = doubts_of(found, None, strict=True)
    assert said.startswith("--strict: ")
    assert words in said

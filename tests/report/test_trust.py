"""`--min-trust` and `--strict`: what is refused, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from phantora_py.report.sections.unknown_reads import parse_places
from phantora_py.report.trust import doubts_of
from sim_server.errors import UsageError


def summary(
    assumed: float = 0.0,
    between: tuple[int, int] | None = (900, 1200),
    variables: tuple[str, ...] = (),
    skipped: int = 0,
    unsimulated: int = 0,
) -> Any:
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
            "folding": None,
            "unsupported": {"skipped": skipped},
            "unsimulated": [{"rank": 0, "device": 1, "processes": unsimulated}] * bool(unsimulated),
            "shared_gpus": [],
            "by_machine": [],
            "caveats": [],
            "unknown_reads": [],
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


@pytest.mark.parametrize(("min_trust", "strict"), [(0.0, False), (None, True)])
def test_processes_that_are_no_ranks(min_trust: float | None, strict: bool) -> None:
    """Whatever is asked for, a run that lacks what they did on a GPU falls short of it."""
    assert not list(doubts_of(summary(unsimulated=2), None, strict=False))
    (said,) = doubts_of(summary(unsimulated=2), min_trust, strict)
    assert said.startswith("2 processes that rank 0 started used a GPU, and what was done there")


def test_gpus_that_several_processes_use() -> None:
    """Only --strict refuses them: the work is there, but not that it adds up."""
    found = summary()
    found["trust"]["shared_gpus"] = [{"node": 1, "device": 2, "ranks": [8, 9]}] * 2
    assert not list(doubts_of(found, 0.99, strict=False))
    (said,) = doubts_of(found, None, strict=True)
    assert said.startswith("--strict: ranks 8, 9 work on GPU 2 of node 1, and 1 other GPU, too: ")


def test_what_the_machine_decided() -> None:
    """Only --strict refuses it: a guess may be right. All of it is said."""
    found = summary()
    found["trust"]["by_machine"] = [
        {"rank": 1, "guesses": 2, "slept_s": 0.0, "ran_out": 0},
        {"rank": 3, "guesses": 1, "slept_s": 6103.4, "ran_out": 2},
    ]
    assert not list(doubts_of(found, 0.99, strict=False))
    guesses, slept, ran_out = doubts_of(found, None, strict=True)
    assert guesses.startswith("--strict: 3 times a rank was taken to wait for others by a guess")
    assert slept.startswith(
        "--strict: rank 3 slept 6,103 s longer than in reality, beside a process"
    )
    assert ran_out.startswith("--strict: rank 3 waited 2 times until its time-out, since a process")


def test_what_ranks_have_found() -> None:
    """Only --strict refuses it, in one sentence for each kind."""
    found = summary()
    found["trust"]["caveats"] = [
        {"rank": 0, "what": "hooks", "count": 1},
        {"rank": 0, "what": "host_step", "count": 3},
        {"rank": 1, "what": "host_step", "count": 4},
        {"rank": 1, "what": "watchdog", "count": 1},
        {"rank": 1, "what": "workers", "count": 1},  # Told, but refused by nobody.
    ]
    assert not list(doubts_of(found, 0.99, strict=False))
    hooks, watchdog, steps = doubts_of(found, None, strict=True)
    assert hooks.startswith("--strict: rank 0: 1 Python started with -I, -E or -S: optimizer steps")
    assert watchdog.startswith("--strict: rank 1: 1 wait for PyTorch's watchdogs ended after 2 s")
    assert steps.startswith("--strict: 2 ranks: 7 optimizer steps on parameters in host memory")


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
def test_strict_refuses_each_doubt(found: Any, words: str) -> None:
    """Each by itself is one too many."""
    (said,) = doubts_of(found, None, strict=True)
    assert said.startswith("--strict: ")
    assert words in said


READ = {
    **{"site": "a b/train.py:50 main", "place": "a b/train.py:50", "count": 80},
    **{"differs_between_ranks": False, "differs_between_iterations": True},
}


@pytest.mark.parametrize(
    ("accepted", "said"),
    [
        ((), ["add --accept-unknown 'a b/train.py:50'."]),
        (("a b/train.py:50",), []),
        (("train.py:50",), []),
        (("ain.py:50",), ["read at a b/train.py:50", "ain.py:50: no unknown value was read"]),
        (("train.py:50", "other.py:5"), ["other.py:5: no unknown value was read there"]),
    ],
)
def test_strict_refuses_unknown_values_that_were_read(
    accepted: tuple[str, ...], said: list[str]
) -> None:
    """Each line that --accept-unknown does not name, and each name that stands for nothing."""
    found = summary()
    found["trust"]["unknown_reads"] = [READ]
    assert not list(doubts_of(found, 0.5, strict=False))
    doubts = list(doubts_of(found, None, True, accepted))
    assert len(doubts) == len(said)
    assert all(words in doubt for words, doubt in zip(said, doubts, strict=True))


@pytest.mark.parametrize("text", ["train.py", "train.py:", ":5", "train.py:0", "train.py:x", ""])
def test_places_that_are_none(text: str) -> None:
    """What is not FILE:LINE is refused before the run."""
    with pytest.raises(UsageError, match="is no Python line; write FILE:LINE"):
        parse_places([text])

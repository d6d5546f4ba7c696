"""What tests share that feed nonsense: how many examples, and values that break programs.

PHANTORA_ATTACK_EXAMPLES is the number of examples of each; PHANTORA_ATTACK_SEED repeats a run.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("PHANTORA_ATTACK_EXAMPLES", "40"))


def attack(share: float = 1.0) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A property test of as many examples as asked for, of which slow ones take a `share`. What
    fails is printed with the line that repeats it.
    """

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        test = settings(
            max_examples=max(1, int(EXAMPLES * share)),
            deadline=None,
            print_blob=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )(test)
        chosen = os.environ.get("PHANTORA_ATTACK_SEED")
        return test if chosen is None else seed(int(chosen))(test)

    return decorate


def words(bits: int = 64) -> st.SearchStrategy[int]:
    """Numbers of so many bits: small ones, edges of types, and anything."""
    edges = [
        edge + near
        for edge in (0, *(1 << one for one in (31, 32, 53, 60, 63)))
        for near in (-1, 0, 1)
    ]
    return st.one_of(st.integers(0, 20), st.sampled_from(edges), st.integers(0, (1 << 64) - 1)).map(
        lambda word: word & (1 << bits) - 1
    )

"""How much of everything tests/attack tries, and with which seed.

PHANTORA_ATTACK_EXAMPLES: inputs of each format and messages of each kind. PHANTORA_ATTACK_RUNS:
whole runs of each kind, which take seconds each. Without them: the short form, for every change.
PHANTORA_ATTACK_SEED: with which each begins.
"""

from __future__ import annotations

import os

SEED = int(os.environ.get("PHANTORA_ATTACK_SEED", "0"))


def inputs(short: int, one_in: int = 1) -> int:
    """`short` in the short form. `one_in`: of what takes so many times as long as others."""
    return _amount("PHANTORA_ATTACK_EXAMPLES", short, one_in)


def runs(short: int, one_in: int = 1) -> int:
    """The same of whole runs."""
    return _amount("PHANTORA_ATTACK_RUNS", short, one_in)


def _amount(variable: str, short: int, one_in: int) -> int:
    asked = os.environ.get(variable)
    return short if asked is None else max(1, int(asked) // one_in)

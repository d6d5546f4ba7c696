"""What two cheap runs say of a full one: a line through them, where they differ in one number.

An iteration takes so much for each layer and so much beside. One cheap run weighs what is beside
the layers too much, and ranks those too low of which that is much.
"""

from __future__ import annotations

from collections.abc import Mapping

from phantora_py.advice.space import Space


def predicted(space: Space, rung: int, number: int, earlier: float, loss: float) -> float | None:
    """The loss of the full run: on the line through this rung's `loss` and that of the rung before,
    at the configuration's own value; None where there is no such line.
    """
    full = space.configurations[number]
    before, now = (space.cheaper(full, one).values for one in (rung - 1, rung))
    differing = [name for name in now if now[name] != before.get(name)]
    if len(differing) != 1:
        return None
    (name,) = differing
    points = [_number(values, name) for values in (before, now, full.values)]
    first, second, at = points
    if first is None or second is None or at is None:
        return None
    found = loss + (loss - earlier) * (at - second) / (second - first)
    return found if found > 0 else None


def _number(values: Mapping[str, object], name: str) -> float | None:
    value = values.get(name)
    return None if isinstance(value, bool) or not isinstance(value, (int, float)) else value

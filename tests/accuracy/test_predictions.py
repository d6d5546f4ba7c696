"""No change of a model goes unseen: what all of them give is written down."""

from __future__ import annotations

import json
from statistics import median

import pytest
from predictions import CLASSES, FILE, GPUS, POINTS, predictions

# Rounding may differ between platforms.
_SAME = 2e-3


@pytest.fixture(scope="module")
def now() -> dict[str, list[int]]:
    return predictions()


def test_all_classes_are_written_down(now: dict[str, list[int]]) -> None:
    """A hundred points each, none of which is free or takes minutes."""
    written = json.loads(FILE.read_text(encoding="utf-8"))
    assert written.keys() == now.keys()
    for name, times_ns in written.items():
        assert len(times_ns) == len(GPUS) * POINTS
        assert all(1_000 < time < 100_000_000_000 for time in times_ns), name


@pytest.mark.parametrize(
    "name", [*CLASSES, "all_reduce", "all_gather", "reduce_scatter", "all_to_all"]
)
def test_predictions_are_as_written_down(now: dict[str, list[int]], name: str) -> None:
    """A model that changes on purpose is checked by `nox -s accuracy` first, and then written
    down by `python tests/accuracy/predictions.py --write`.
    """
    written = json.loads(FILE.read_text(encoding="utf-8"))[name]
    ratios = [new / old for new, old in zip(now[name], written, strict=True)]
    changed = [ratio for ratio in ratios if abs(ratio - 1) > _SAME]
    assert not changed, (
        f"{len(changed)} of {len(ratios)} predictions of {name} changed, to {min(changed):.3f} to "
        f"{max(changed):.3f} times, in the median {median(changed):.3f}"
    )

"""What the report says of a folded run."""

from __future__ import annotations

from phantora_py.report.sections import folding


def told(host_share: float | None) -> folding.Folding:
    """Eight ranks as one, with a witness that took so much of its host time."""
    return {
        "mesh": [{"name": "dp", "size": 8, "folded": True}],
        "processes": 2,
        "classes": 1,
        "ranks_per_class": [8],
        "witnesses": [
            {
                "rank": 7,
                "representative": 0,
                "steps": 30,
                "difference": "",
                "host_share": host_share,
            }
        ],
        "stand_ins": [],
        "partial_checkpoints": [],
        "images": 0,
        "spread_ns": 0,
        "spread_share": 0.0,
    }


def test_a_witness_with_another_host_time_is_named() -> None:
    """Its representative's counts for the whole class."""
    (_, line) = folding.lines(told(0.7))
    assert "witness 7 took 70.0 % of the host time of rank 0" in line


def test_small_differences_of_host_time_are_not_told() -> None:
    """Nor what an earlier version's file does not have."""
    for share in (0.98, 1.0, None):
        assert len(folding.lines(told(share))) == 1

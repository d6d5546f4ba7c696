"""What is printed as JSON is what the published schemas say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conforming import check_conforms
from jsonschema import ValidationError
from made_runs import KERNEL, make_run, rank_memory, run_json

from phantora_py.report.summary import summarise
from sim_server.records import MarkerKind

SPANS = [(KERNEL, 10 * step, 10 * step, 10 * step + 5) for step in range(4)]
MARKERS = [(0, 10 * step + 6, MarkerKind.ITERATION, "i") for step in range(4)]
FAILURE = {"asked_bytes": 2, "free_bytes": 1, "site": "train.py:7 main"}
RESIMULATION = {
    **{"of": "a.phr", "cluster_name": "h100", "same_settings": True, "same_history": None},
    **{"polls": 0, "outside_waits": 1},
}


@pytest.mark.parametrize(
    "run",
    [
        {},
        {"host_memory": {"pss_bytes": {"0": 1}, "total_bytes": 2}},
        {"hosts": [{"host": "a", "ranks": "0-3", "core_seconds": 1.5, "total_bytes": 7}]},
        {"steady": {"iterations": 6, "time_ns": 7, "median_ns": 1}},
        {"steady": {"iterations": 6}},
        {"unsimulated": [{"rank": 0, "device": 1, "processes": 2}]},
        {"by_machine": [{"rank": 0, "guesses": 2, "slept_s": 0.5}]},
        {"by_machine": [{"rank": 0, "guesses": 0, "slept_s": 0.0, "ran_out": 1}]},
        {"exit_code": 4, "message": "rank 0 failed", "resimulation": RESIMULATION},
    ],
)
@pytest.mark.parametrize("markers", [MARKERS, []])
def test_summaries_conform(tmp_path: Path, run: dict[str, Any], markers: Any) -> None:
    """Of runs with and without iterations, and with whatever a run may leave behind."""
    memory = {"capacity_bytes": 80 << 30, "per_rank": [rank_memory(oom=[FAILURE])]}
    caveats = [{"rank": 0, "what": "hooks", "count": 1}]
    run = run_json(1, **run)
    path = tmp_path / "a.phr"
    data = make_run(path, [SPANS], markers, run=run, memory=memory, caveats=caveats)
    check_conforms(summarise(data), "summary")


@pytest.mark.parametrize(
    "change", [{"ranks": "2"}, {"ranks": None}, {"new": 1}, {"trust": {}}, {"wall": {"total_s": 1}}]
)
def test_what_does_not_conform_is_found(tmp_path: Path, change: dict[str, Any]) -> None:
    """Another type, a key that the schema lacks, one that is missing."""
    summary: dict[str, Any] = dict(summarise(make_run(tmp_path / "a.phr", [SPANS], MARKERS)))
    with pytest.raises(ValidationError):
        check_conforms(summary | change, "summary")

"""What a fabric and NCCL's variables do to a whole run: PAT, CollNet, slow congestion control."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
from phantora_runs import PROGRAMS, Phantora, Run

pytestmark = pytest.mark.torch

RANKS = 8


def ways(run: Run) -> dict[str, str]:
    """The algorithm of the largest operation of each kind."""
    ordered = sorted(run.data.operations, key=lambda one: one["bytes"])
    return {one["kind"]: one["algorithm"] for one in ordered if one.get("algorithm")}


def incast_ns(run: Run) -> int:
    """From the first send to the end of the last."""
    sends = [one for one in run.data.operations if one["kind"] == "send"]
    assert len(sends) == RANKS - 1
    ends_ns: list[int] = [max(one["ends_ns"]) for one in sends]
    return max(ends_ns) - max(int(one["moves_ns"]) for one in sends)


def run_on(
    phantora: Phantora,
    folder: Path,
    fabric: str,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Run:
    cluster = folder / "cluster.toml"
    cluster.write_text(f'base = "h100"\n[fabric]\n{fabric}\n', encoding="utf-8")
    options = ["--cluster", str(cluster), "--nodes", str(RANKS), "--gpus-per-node", "1"]
    run = phantora.run(options, [PROGRAMS / "between_nodes.py"], variables)
    assert run.exit_code == 0, run.errors
    return run


def test_switches_add_up_where_fabric_and_user_want_it(phantora: Phantora, tmp_path: Path) -> None:
    """What SHARP can do it does: it gathers at once, and adds up in a chain of one rank a node."""
    run = run_on(phantora, tmp_path, "sharp = true", {"NCCL_COLLNET_ENABLE": "1"})
    assert ways(run)["all_gather"] == "CollNetDirect"
    assert ways(run)["all_reduce"] == "CollNetChain"


def test_an_incast_waits_for_congestion_control(phantora: Phantora, tmp_path: Path) -> None:
    """An incast of a few microseconds takes the time that rates need to settle, and no PAT is no
    PAT."""
    fast = run_on(phantora, tmp_path, "", {"NCCL_PAT_ENABLE": "0"})
    slow = run_on(phantora, tmp_path, 'convergence = "5 ms"')
    assert (ways(fast)["all_gather"], ways(slow)["all_gather"]) == ("Ring", "PAT")
    assert ways(fast)["all_reduce"] == "Ring"
    assert incast_ns(slow) > 2 * incast_ns(fast)

"""A program of three ranks for runs on two hosts that share this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from phantora_py.isolation import probe

PROGRAM = """\
import os
import torch
import torch.distributed as dist

torch.cuda.set_device(0)
dist.init_process_group("nccl")
ones = torch.ones(1 << 20, device="cuda")
for _ in range(3):
    dist.all_reduce(ones)
    torch.cuda.synchronize()
print("rank", dist.get_rank(), os.environ["PHANTORA_RUN_DIR"], flush=True)
dist.destroy_process_group()
"""

MARKS = [
    pytest.mark.torch,
    pytest.mark.skipif(
        not probe.probe().own_network,
        reason="simulated nodes have no network of their own on this machine",
    ),
]


def check_places(printed: str) -> None:
    """Each host had a run directory of its own, which is gone."""
    said = [line.partition("rank ")[2].split() for line in printed.splitlines()]
    places = {int(number): place for number, place in (one for one in said if len(one) == 2)}
    assert sorted(places) == [0, 1, 2], printed
    assert places[0] != places[1] == places[2]
    assert not any(Path(place).exists() for place in places.values())

"""Runs that several tests look at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from phantora_runs import EXAMPLES, Phantora, Run

SMALL = ["--layers", "2", "--steps", "4", "--batch", "2"]


@pytest.fixture(scope="session")
def phantora(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Phantora]:
    """For runs that end well; nothing may be left of them."""
    runs = Phantora(tmp_path_factory.mktemp("runs"))
    yield runs
    runs.close()


@pytest.fixture
def failing_phantora(tmp_path: Path) -> Iterator[Phantora]:
    """For one run that does not; nothing may be left of it either."""
    runs = Phantora(tmp_path)
    yield runs
    runs.close()


@pytest.fixture(scope="session")
def ddp(phantora: Phantora) -> Run:
    """DistributedDataParallel on two ranks."""
    return phantora.run(["--ranks", "2"], [EXAMPLES / "train_gpt_ddp.py", *SMALL])


@pytest.fixture(scope="session")
def ddp_again(phantora: Phantora) -> Run:
    """The same once more."""
    return phantora.run(["--ranks", "2"], [EXAMPLES / "train_gpt_ddp.py", *SMALL])


@pytest.fixture(scope="session")
def fsdp(phantora: Phantora) -> Run:
    """FSDP2 on two ranks, through torchrun."""
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", "2"]
    return phantora.run([], [*torchrun, EXAMPLES / "train_gpt_fsdp.py", *SMALL])

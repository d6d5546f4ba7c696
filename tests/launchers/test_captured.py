"""Launchers that are run up to the point where they would start processes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from phantora_py.launchers.captured import Captured, parse_captured
from phantora_py.launchers.launch import FoundGpus

pytestmark = pytest.mark.torch

LAUNCHER = """
import sys

import torch
from torch.distributed import run

if torch.cuda.is_available() and torch.cuda.get_device_capability() < (9, 0):
    sys.exit("this GPU is too old")
if torch.cuda.get_device_properties("cuda").total_memory < 1 << 30:
    sys.exit("this GPU is too small")


def main():
    processes = str(torch.cuda.device_count())
    name = torch.cuda.get_device_name()
    run.run(run.get_args_parser().parse_args(["--nproc-per-node", processes, "train.py", name]))
"""


def test_what_a_launcher_finds_of_the_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries ask already when they are imported, as torchtune's does for the capability."""
    (tmp_path / "asking_launcher.py").write_text(LAUNCHER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    launcher = Captured("asking", "asking_launcher", "main", ("run",), "--processes", "--nodes")
    properties = {
        "name": "NVIDIA H100",
        "major": 9,
        "minor": 0,
        "total_memory": 80 << 30,
        "multi_processor_count": 132,
    }
    launch = parse_captured(launcher, ["run"], sys.executable, FoundGpus(3, properties))
    assert (launch.processes_per_node, launch.program) == (3, ("train.py", "NVIDIA H100"))

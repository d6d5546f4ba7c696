"""Iteration times of whole training runs against published measurements.

    python benchmarks/training_accuracy.py

Runs examples/train_gpt_fsdp.py in the shape of MosaicML's MPT models on 8 virtual GPUs, without any
tuning, and prints the ratio of virtual to published time. The published runs used an older PyTorch
(1.13 to 2.0, FSDP1) and a slightly different decoder, so a ratio near one is not to be expected;
one far from it is a fault.

Source: mosaicml/llm-foundry, scripts/train/benchmarking/README.md at commit 8c8dd48 (Apache-2.0).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

EXAMPLE = Path(__file__).parent.parent / "examples" / "train_gpt_fsdp.py"
RANKS = 8


@dataclass(frozen=True)
class Published:
    """One measured run on 8 GPUs, bf16, no activation checkpointing, sequences of 2048 tokens."""

    model: str
    cluster: str
    layers: int
    width: int
    heads: int
    batch: int
    accumulate: int
    tokens_per_s_per_gpu: int

    @property
    def iteration_s(self) -> float:
        """Seconds per optimizer step."""
        return 2048 * self.batch * self.accumulate / self.tokens_per_s_per_gpu


RUNS = (
    Published("MPT-125m", "a100", 12, 768, 12, 32, 2, 141_737),
    Published("MPT-350m", "a100", 24, 1024, 16, 32, 2, 58_782),
    Published("MPT-1b", "a100", 24, 2048, 16, 14, 4, 20_513),
    Published("MPT-1b", "h100", 24, 2048, 16, 14, 1, 45_455),
)


def simulated_s(run: Published) -> float:
    """Virtual seconds per optimizer step of `run`.

    Raises: subprocess.CalledProcessError if the simulation fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [str(Path(sys.executable).with_name("phantora")), "run", "--quiet", "--json"]
        command += [
            "--cluster",
            run.cluster,
            "--ranks",
            str(RANKS),
            "-o",
            f"{folder}/run.phr",
            "--",
        ]
        command += [sys.executable, str(EXAMPLE), "--no-checkpoint", "--steps", "3"]
        for option in ("layers", "width", "heads", "batch", "accumulate"):
            command += [f"--{option}", str(getattr(run, option))]
        command += ["--sequence", "2048", "--vocabulary", "50368"]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    summary = json.loads(output[output.index("{\n") :])
    return float(summary["iterations"]["median_ns"]) / 1e9


def main() -> None:
    """Print the table."""
    table = Table("model", "GPUs", "published s", "virtual s", "ratio")
    for run in RUNS:
        virtual_s = simulated_s(run)
        table.add_row(
            run.model,
            f"{RANKS} {run.cluster}",
            f"{run.iteration_s:.3f}",
            f"{virtual_s:.3f}",
            f"{virtual_s / run.iteration_s:.2f}",
        )
        print(f"{run.model} on {run.cluster} done", file=sys.stderr)
    Console().print(table)


if __name__ == "__main__":
    main()

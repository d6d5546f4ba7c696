"""The scripts of the tests under `phantora run`, as the table of docs/scripts.md.

    python benchmarks/scripts.py [--only NAME ...]

Each runs once on H100s. Virtual times and memory are the same on every machine, wall times are not.
What a tier is: docs/kernels.md. `synthetic`: reads by all ranks of values that nothing computed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from phantora_py.data import RunData
from phantora_py.launch.module import module_command
from phantora_py.report.summary import summarise
from phantora_py.text.units import duration_text, size_text

PROGRAMS = Path(__file__).parents[1] / "tests" / "e2e" / "programs"


@dataclass(frozen=True)
class Script:
    """A row: a program, its arguments and what is set for it."""

    words: Sequence[str]
    ranks: int = 2
    environment: Mapping[str, str] = field(default_factory=dict)


ALLOCATOR = "PYTORCH_CUDA_ALLOC_CONF"
SCRIPTS = {
    "FSDP1, full shard": Script(["fsdp1.py", "full"], 4),
    "FSDP1, hybrid shard": Script(["fsdp1.py", "hybrid"], 4),
    "FSDP1, parameters on the CPU": Script(["fsdp1.py", "offload"], 4),
    "tensor and sequence parallel, FSDP2": Script(["tensor_parallel.py"], 4),
    "context parallel, all-gather": Script(["context_parallel.py", "allgather"]),
    "context parallel, all-to-all": Script(["context_parallel.py", "alltoall"]),
    "pipeline, GPipe": Script(["pipelining.py", "GPipe", "4"], 4),
    "pipeline, 1F1B": Script(["pipelining.py", "1F1B", "2"]),
    "pipeline, interleaved": Script(["pipelining.py", "Interleaved1F1B", "4"]),
    "convolutions, SyncBatchNorm, AMP": Script(["resnet.py"]),
    "the same with cudnn.benchmark": Script(["resnet.py", "--benchmark"]),
    "Hugging Face Trainer, GPT-2": Script(["hf_trainer.py", "gpt2"]),
    "Hugging Face Trainer, Llama": Script(["hf_trainer.py", "llama"]),
    "compiled, DDP": Script(["compiled.py", "ddp"], 4),
    "compiled, FSDP2": Script(["compiled.py", "fsdp"], 8),
    "mixture of experts": Script(["experts.py"]),
    "the same on eight ranks": Script(["experts.py"], 8),
    "FP8 by tensor": Script(["scaled_products.py", "tensor"], 1),
    "FP8 by rows": Script(["scaled_products.py", "rows"], 1),
    "grouped products": Script(["scaled_products.py", "grouped"], 1),
    "attention, flash": Script(["attentions.py", "flash"], 1),
    "attention, memory-efficient": Script(["attentions.py", "efficient"], 1),
    "attention, cuDNN": Script(["attentions.py", "cudnn"], 1),
    "attention, flex, not compiled": Script(["attentions.py", "flex"], 1),
    "recommender": Script(["recommender.py"]),
    "SGD": Script(["optimizers.py", "sgd"]),
    "Adam, foreach": Script(["optimizers.py", "adam-foreach"]),
    "AdamW, fused": Script(["optimizers.py", "adamw-fused"]),
    "AdamW, capturable": Script(["optimizers.py", "adamw-capturable"]),
    "Adafactor": Script(["optimizers.py", "adafactor"]),
    "Muon": Script(["optimizers.py", "muon"]),
    "AdamW, 8-bit states of torchao": Script(["optimizers.py", "adamw-8bit"]),
    "ZeroRedundancyOptimizer": Script(["optimizers.py", "zero"]),
    "distributed checkpoint": Script(["checkpoint.py", "saved"]),
    "transforms": Script(["vendor_libraries.py", "fourier"], 1),
    "factorisations, real and complex": Script(["vendor_libraries.py", "factors", "complex"], 1),
    "sparse products": Script(["vendor_libraries.py", "sparse"], 1),
    "allocator": Script(["allocators.py"], 1),
    "allocator, expandable segments": Script(
        ["allocators.py"], 1, {ALLOCATOR: "expandable_segments:True"}
    ),
    "allocator, cudaMallocAsync": Script(
        ["allocators.py"], 1, {ALLOCATOR: "backend:cudaMallocAsync"}
    ),
}
COLUMNS = (
    "script",
    "ranks",
    "torch",
    "iteration",
    "peak memory",
    "modelled",
    "assumed",
    "unsupported",
    "synthetic",
    "wall s",
)


def run(script: Script) -> dict[str, Any]:
    """The summary of a run. Raises: FileNotFoundError if it left no data file."""
    with tempfile.TemporaryDirectory() as directory:
        command = [*module_command("phantora_py"), "run", "--quiet", "--cluster", "h100"]
        command += ["--ranks", str(script.ranks), "-o", f"{directory}/run.phr", "--"]
        command += [sys.executable, str(PROGRAMS / script.words[0]), *script.words[1:]]
        environment = {**os.environ, **script.environment}
        subprocess.run(command, cwd=directory, env=environment, capture_output=True, check=False)
        return dict(summarise(RunData(Path(directory, "run.phr"))))


def cells(name: str, script: Script, summary: dict[str, Any]) -> list[str]:
    """One row of the table."""
    median_ns = summary["iterations"]["median_ns"]
    trust, share = summary["trust"], summary["trust"]["gpu_time_share"]
    peaks = summary["memory"]["peak_device_bytes"]
    failed = "does not run" if summary["exit_code"] else None
    return [
        name,
        str(script.ranks),
        str(summary["versions"].get("torch", "")),
        failed or (duration_text(median_ns) if median_ns else "-"),
        size_text(max(peaks)) if peaks else "-",
        f"{share['modelled']:.1%}",
        f"{share['assumed']:.1%}",
        str(trust["calls"]["unsupported"]),
        str(trust["synthetic_reads"]),
        f"{summary['wall']['total_s']:.0f}" if summary["wall"] else "-",
    ]


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--only", nargs="+", choices=SCRIPTS, default=list(SCRIPTS))
    print("| " + " | ".join(COLUMNS) + " |")
    print("| --- |" + " ---: |" * (len(COLUMNS) - 1))
    for name in options.parse_args().only:
        row = cells(name, SCRIPTS[name], run(SCRIPTS[name]))
        print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()

"""Memory of torchtitan's Llama 3 8B with and without expandable segments (docs/scripts.md).

    python benchmarks/torchtitan_memory.py [--ranks 8] [--json]

Takes torchtitan from PyPI (`pip install torchtitan`). Its own trainer and configuration: FSDP2 on
8 H100, selective activation checkpointing, sequences of 8192, one a rank; with a tokenizer and
texts that are made here. A run stops when its iteration time has settled.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from measurement import Results, parser

from phantora_py.data import RunData
from phantora_py.launch.module import module_command
from phantora_py.report.summary import summarise

GIB = 1 << 30
TESTS = Path(__file__).parents[1] / "tests" / "e2e"
# Made as the test of torchtitan makes them.
ASSETS = (
    "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1]);"
    "from test_frameworks import make_assets; make_assets(Path('tests/assets'))"
)


def simulate(directory: Path, ranks: int, setting: str) -> dict[str, Any]:
    """The summary of one run. Raises: CalledProcessError."""
    path = directory / f"{setting}.phr"
    options = ["--quiet", "--cluster", "h100", "--ranks", str(ranks), "--until-steady"]
    command = [sys.executable, "-m", "torchtitan.train", "--module", "llama3"]
    command += ["--config", "llama3_8b", "--dataloader.dataset", "c4_test"]
    command += ["--hf_assets_path", "./tests/assets/tokenizer", "--training.steps", "20"]
    variables = {"PYTORCH_CUDA_ALLOC_CONF": f"expandable_segments:{setting}"}
    subprocess.run(
        [*module_command("phantora_py"), "run", *options, "-o", str(path), "--", *command],
        cwd=directory,
        env={**os.environ, **variables},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return dict(summarise(RunData(path)))


def main() -> None:
    """Run both and print a table, or JSON."""
    options = parser(__doc__)
    options.add_argument("--ranks", type=int, default=8)
    arguments = options.parse_args()
    columns = ["expandable segments", "allocated GiB", "reserved GiB", "device GiB", "iteration ms"]
    results = Results("Peak memory of a rank of torchtitan's Llama 3 8B", columns)
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        subprocess.run([sys.executable, "-c", ASSETS, str(TESTS)], cwd=directory, check=True)
        for setting in ("True", "False"):
            summary = simulate(directory, arguments.ranks, setting)
            kinds = ("peak_allocated_bytes", "peak_reserved_bytes", "peak_device_bytes")
            peaks = [max(summary["memory"][kind]) / GIB for kind in kinds]
            results.add(setting, *peaks, summary["iterations"]["median_ns"] / 1e6)
    results.show(arguments.json)


if __name__ == "__main__":
    main()

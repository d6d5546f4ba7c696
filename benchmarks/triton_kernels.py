"""What kernels of Inductor that loop or load twice take (docs/decisions/compiled-kernels.md).

    python benchmarks/triton_kernels.py [--cluster h100] [--json]

Compiles and simulates them; times are not measured but follow from the bytes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from measurement import Results, parser

from phantora_py.data import RunData
from phantora_py.launch.module import module_command

PROGRAM = """
import torch
import torch.nn.functional as F

def compiled(function):
    return torch.compile(function)

loss = compiled(lambda x, t: F.cross_entropy(x.float(), t))
norm = compiled(lambda x, w: F.layer_norm(x, (x.shape[-1],), w))
total = compiled(lambda x: x.sum(0))
half = {"device": "cuda", "dtype": torch.bfloat16}
logits = torch.randn(4096, 32000, requires_grad=True, **half)
targets = torch.zeros(4096, device="cuda", dtype=torch.int64)
rows, weights = torch.randn(4096, 16384, **half), torch.ones(16384, **half)
for _ in range(3):
    loss(logits, targets).backward()
    norm(rows, weights)
    total(rows)
    torch.cuda.synchronize()
"""


def times_us(cluster: str, folder: Path) -> dict[str, float]:
    """Of one run, by kernel."""
    data = folder / "run.phr"
    command = [*module_command("phantora_py"), "run", "--quiet", "--cluster", cluster]
    command += ["--ranks", "1", "-o", str(data), "--", sys.executable, "-c", PROGRAM]
    caches = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "caches"), "PYTHONWARNINGS": "ignore"}
    subprocess.run(command, env=os.environ | caches, check=True)
    rows = [row for row in RunData(data).timings if row["name"].startswith("triton_")]
    data.unlink()
    return {row["name"]: row["duration_ns"] / 1e3 for row in rows}


def main() -> None:
    """Prints the times with Triton's code, and without it, as machine code alone gives them."""
    options = parser(__doc__)
    options.add_argument("--cluster", default="h100")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        times_us(chosen.cluster, folder)  # tries variants of the kernels
        told = times_us(chosen.cluster, folder)
        for code in folder.rglob("*.ttir"):
            code.unlink()
        alone = times_us(chosen.cluster, folder)
    columns = ("kernel, 4,096 rows in bf16", "machine code", "Triton's code")
    results = Results("Times of Inductor's kernels in us", columns)
    for kernel, time_us in told.items():
        results.add(kernel, alone.get(kernel), time_us)
    results.show(chosen.json)


if __name__ == "__main__":
    main()

"""Times of Liger's Triton kernels as simulated on an A100, beside those that Liger publishes.

    python benchmarks/triton_published.py FOLDER [--write]

The kernels run live (pip install liger-kernel); FOLDER has `liger_a100.csv.gz`, the table of
linkedin/Liger-Kernel@ead96b61 (docs/accuracy-triton.md).
"""

from __future__ import annotations

import csv
import gzip
import importlib.util
import json
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import accuracy_pages

from phantora_py.launch.module import module_command

PAGE = Path(__file__).parents[1] / "docs/accuracy-triton.md"
MARK = "<!-- python benchmarks/triton_published.py FOLDER --write -->"
# Others are backward passes, which have changed since, or have products in them.
_OPERATORS = ("cross_entropy", "rms_norm", "layer_norm", "rope", "embedding")
# Operators and sizes, JSON, are its argument; a line of output is a call's time in ns.
_PROGRAM = """
import json, sys
import torch
from torch.profiler import ProfilerActivity, profile
from liger_kernel.transformers import LigerCrossEntropyLoss, LigerLayerNorm, LigerRMSNorm
from liger_kernel.transformers import liger_rotary_pos_emb
from liger_kernel.transformers.experimental.embedding import LigerEmbedding

half = torch.bfloat16

def cross_entropy(B, T, V):
    logits, targets = torch.empty(B * T, V), torch.randint(V, (B * T,))
    return lambda: LigerCrossEntropyLoss()(logits.requires_grad_(), targets)

def rms_norm(M, H):
    norm, rows = LigerRMSNorm(H).to(half), torch.empty(M, H, dtype=half)
    return lambda: norm(rows)

def layer_norm(M, N):
    norm, rows = LigerLayerNorm(N), torch.empty(M, N)
    return lambda: norm(rows)

def rope(T, hidden, queries, keys):
    width = hidden // queries
    query, key = (
        torch.empty(1, T, heads, width, dtype=half).transpose(1, 2) for heads in (queries, keys)
    )
    turned = torch.empty(1, T, width, dtype=half)
    return lambda: liger_rotary_pos_emb(query, key, turned, turned)

def embedding(B, T, D, V):
    table, rows = LigerEmbedding(V, D), torch.randint(V, (B, T))
    return lambda: table(rows)

torch.set_default_device("cuda")
for operator, sizes in json.loads(sys.argv[1]):
    call = globals()[operator](**sizes)
    call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        call()
        torch.cuda.synchronize()
    print(round(1e3 * sum(event.device_time_total for event in profiled.key_averages())))
"""


def main() -> int:
    """Prints the page's tables, or writes them. Returns the exit code."""
    if importlib.util.find_spec("liger_kernel") is None:
        print("Liger's kernels are not installed: pip install liger-kernel", file=sys.stderr)
        return 2
    return accuracy_pages.command(__doc__, PAGE, MARK, _tables)


def _tables(folder: Path) -> Iterator[str]:
    calls = list(_calls(folder / "liger_a100.csv.gz"))
    command = [*module_command("phantora_py"), "run", "--quiet", "--cluster", "a100"]
    command += ["--ranks", "1", "--", sys.executable, "-c", _PROGRAM]
    command += [json.dumps([call[:2] for call in calls])]
    ran = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
    )
    ratios: dict[str, list[float]] = defaultdict(list)
    rows = [
        "",
        "| operator | sizes | measured | simulated | ratio |",
        "| --- | --- | --- | --- | --- |",
    ]
    for (operator, sizes, measured_us), simulated in zip(calls, ran.stdout.split(), strict=True):
        simulated_us = int(simulated) / 1e3
        ratios[operator].append(simulated_us / measured_us)
        shape = ", ".join(f"{name} {size:,}" for name, size in sizes.items())
        rows.append(
            f"| {operator} | {shape} | {measured_us:,.0f} us | {simulated_us:,.0f} us"
            f" | {ratios[operator][-1]:.2f} |"
        )
    yield from (
        "| operator | points | median error | largest | ratios |",
        "| --- | --- | --- | --- | --- |",
    )
    for operator, found in ratios.items():
        errors = [abs(ratio - 1) for ratio in found]
        yield (
            f"| {operator} | {len(found)} | {statistics.median(errors):.1%} | {max(errors):.1%}"
            f" | {min(found):.2f} to {max(found):.2f} |"
        )
    yield from rows


def _calls(table: Path) -> Iterator[tuple[str, dict[str, int], float]]:
    """Operator, sizes, measured us."""
    with gzip.open(table, "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            operator = row["kernel_name"]
            key = (row["kernel_provider"], row["kernel_operation_mode"], row["metric_unit"])
            if operator in _OPERATORS and key == ("liger", "forward", "ms"):
                sizes = json.loads(row["extra_benchmark_config_str"])
                sizes = {name: size for name, size in sizes.items() if isinstance(size, int)}
                sizes |= {row["x_name"]: int(row["x_value"])}
                yield operator, _named(operator, sizes), float(row["y_value_50"]) * 1e3


def _named(operator: str, sizes: dict[str, int]) -> dict[str, int]:
    if operator != "rope":
        return sizes
    return {
        "T": sizes.get("T") or sizes["seq_len"],
        "hidden": sizes.get("H") or sizes["hidden_size"],
        "queries": sizes["num_q_heads"],
        "keys": sizes["num_kv_heads"],
    }


if __name__ == "__main__":
    sys.exit(main())

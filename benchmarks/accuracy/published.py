"""Published training runs: what ran, how fast, and the command that does the same here.

The measurements are not part of the repository but for four, which are built in.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
CLUSTERS = HERE.parent / "clusters"

# By GPU as the tables call it: built-in clusters, and two that differ from them in one thing.
_MPT_CLUSTERS = {
    "H100-80GB-SXM": "h100",
    "A100-80GB-SXM": "a100",
    "A100-40GB-SXM": str(CLUSTERS / "a100_40.toml"),
}
_NANOTRON_CLUSTER = str(CLUSTERS / "p5.toml")
GPUS_PER_NODE = 8
MPT, SEVERAL = "MPT", "several nodes"
# Of nanotron's ranks, outermost first.
MESH = ("pp", "dp", "tp")


@dataclass(frozen=True)
class Run:
    """A measured run. `folding`: options of `phantora run`, with which ranks that do the same are
    one process. `scales`: kernels that took so many times as long in the software of the time, by
    pattern, with `phantora resimulate`.
    """

    family: str
    model: str
    gpu: str
    gpus: int
    layout: str
    sequence: int
    batch: int
    accumulate: int
    cluster: str
    program: tuple[str, ...]
    folding: Mapping[str, str]
    seconds: float
    memory_gib: float | None = None
    scales: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """What is run, in one line."""
        return " ".join([self.cluster.rpartition("/")[2], str(self.gpus), *self.program])


# FlashAttention-1 in Triton, which llm-foundry's `attn_impl: triton` was until FlashAttention-2
# came with llm-foundry#672, against FlashAttention-2, which PyTorch runs today: the latter is 1.3
# to 2.5 times as fast on A100 (arXiv:2307.08691, section 4.1); the geometric middle. Assumed to be
# the same on H100.
TRITON_FLASH_1 = ("attention=1.8",)


def mpt(
    model: str,
    gpu: str,
    gpus: int,
    sizes: tuple[int, int, int],
    tokens_per_s_per_gpu: float,
    *,
    checkpoint: bool = False,
) -> Run:
    """A row of llm-foundry's tables. `sizes`: tokens of a sequence, sequences of a micro-batch,
    micro-batches of a step.
    """
    sequence, batch, accumulate = sizes
    program = (
        *("train_mpt.py", "--model", model, "--sequence", str(sequence), "--batch", str(batch)),
        *("--accumulate", str(accumulate)),
        *(["--checkpoint"] if checkpoint else []),
    )
    on = gpu.partition("-SXM")[0] if gpus <= GPUS_PER_NODE else SEVERAL
    return Run(
        family=f"{MPT}, {on}",
        model=f"MPT-{model}",
        gpu=gpu,
        gpus=gpus,
        layout="FSDP, recomputing" if checkpoint else "FSDP",
        sequence=sequence,
        batch=batch,
        accumulate=accumulate,
        cluster=_MPT_CLUSTERS[gpu],
        program=program,
        # Shards of FSDP1 begin anywhere in a parameter, so ranks have other small kernels.
        folding={"fold": "1", "witness": "0"},
        seconds=sequence * batch * accumulate / tokens_per_s_per_gpu,
        scales=TRITON_FLASH_1,
    )


# mosaicml/llm-foundry, scripts/train/benchmarking/README.md at commit 8c8dd48 (Apache-2.0).
BUILT_IN = (
    mpt("125m", "A100-80GB-SXM", 8, (2048, 32, 2), 141_737),
    mpt("350m", "A100-80GB-SXM", 8, (2048, 32, 2), 58_782),
    mpt("1b", "A100-80GB-SXM", 8, (2048, 14, 4), 20_513),
    mpt("1b", "H100-80GB-SXM", 8, (2048, 14, 1), 45_455),
)


def read_runs(folder: Path) -> Iterator[Run]:
    """All bf16 runs of the two tables that came to an end."""
    for row in _rows(folder / "training_llmfoundry_mpt.csv"):
        if "fp8" not in row["precision"]:
            yield mpt(
                row["model"].removeprefix("MPT-"),
                row["gpu"],
                int(row["num_gpus"]),
                (int(row["seq_len"]), int(row["micro_batch"]), int(row["grad_accum"])),
                float(row["value"]),
                checkpoint=row["act_ckpt"] == "full",
            )
    for row in _rows(folder / "training_nanotron.csv"):
        if row["peak_mem_gib"]:
            yield _nanotron(row)


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _nanotron(row: dict[str, str]) -> Run:
    model = row["model"].removeprefix("nanotron-llama-")
    sequence, batch, accumulate = (
        int(row[name]) for name in ("seq_len", "micro_batch", "grad_accum")
    )
    layout = {name: int(row[name]) for name in ("dp", "tp", "pp")}
    zero = int(row["zero_stage"])
    program = (
        *("train_nanotron.py", "--model", model, "--sequence", str(sequence)),
        *("--batch", str(batch), "--accumulate", str(accumulate), "--zero", str(zero)),
        *(word for name, size in layout.items() for word in (f"--{name}", str(size))),
    )
    mesh = ",".join(f"{name}={layout[name]}" for name in MESH)
    has_equal_ranks = layout["dp"] * layout["tp"] > 1
    names = [f"{name.upper()} {size}" for name, size in layout.items() if size > 1]
    return Run(
        family=f"Llama, {row['num_gpus']} GPUs",
        model=f"Llama-{model}",
        gpu="H100-80GB-SXM",
        gpus=int(row["num_gpus"]),
        layout=" x ".join(names) + (", ZeRO-1" if zero else ""),
        sequence=sequence,
        batch=batch,
        accumulate=accumulate,
        cluster=_NANOTRON_CLUSTER,
        program=program,
        folding={"fold": "dp,tp", "witness": "1", "mesh": mesh} if has_equal_ranks else {},
        seconds=sequence
        * batch
        * accumulate
        * layout["dp"]
        / (float(row["value"]) * int(row["num_gpus"])),
        memory_gib=float(row["peak_mem_gib"]),
    )


def sample(runs: list[Run], gpus: int, every: int | None) -> list[Run]:
    """On so many GPUs at most, every so many of each family, in the tables' order: a choice that
    knows no result. None: all of MPT on several nodes, every fourth on one, every 13th of nanotron,
    as long as they take to simulate.
    """
    chosen: list[Run] = []
    for family in dict.fromkeys(run.family for run in runs):
        fitting = [run for run in runs if run.family == family and run.gpus <= gpus]
        step = every or (1 if family.endswith(SEVERAL) else 4 if family.startswith(MPT) else 13)
        chosen += fitting[step // 2 :: step] or fitting[:1]
    return chosen

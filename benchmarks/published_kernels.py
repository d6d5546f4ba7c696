"""Published measurements of kernels, as benchmarks/kernel_accuracy.py takes them from its folder.

Files and columns: docs/accuracy-kernels.md. Several collectors' figures for one shape are replaced
by their median.
"""

from __future__ import annotations

import csv
import gzip
import statistics
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from kernel_models import Floats

# By file: the column of milliseconds.
PRODUCT_FILES = {"gemm_bf16.csv.gz": "lat_ms_median", "gemm_bf16_b200_l40s.csv.gz": "median"}
ATTENTION_FILES = (
    "attention_causal_forward_bf16.csv.gz",
    "attention_causal_forward_bf16_b200_l40s.csv.gz",
)
POINTS_FILE = "kernels_published_points.csv"


class AttentionShape(NamedTuple):
    """A causal forward pass."""

    batch: int
    length: int
    heads: int
    kv_heads: int
    head_dim: int


class Point(NamedTuple):
    """A point of a published chart of attention; equal lengths of queries and keys."""

    gpu: str
    library: str
    passes: str
    """"fwd" or "fwd+bwd"."""
    causal: bool
    batch: int
    length: int
    heads: int
    head_dim: int
    time_ns: float


def read_products(folder: Path) -> dict[str, tuple[Floats, Floats]]:
    """By GPU: shapes [n, 3] of row-major m, n, k, and nanoseconds [n]."""
    rows: dict[str, list[tuple[int, int, int, float]]] = defaultdict(list)
    for file, column in PRODUCT_FILES.items():
        for row in _rows(folder / file):
            shape = (int(row["m"]), int(row["n"]), int(row["k"]))
            if min(shape) > 0:
                rows[_gpu(row)].append((*shape, float(row[column]) * 1e6))
    arrays = {gpu: np.array(values) for gpu, values in rows.items()}
    return {gpu: (values[:, :3], values[:, 3]) for gpu, values in arrays.items()}


def read_attention(
    folder: Path, gpu: str, kernels: frozenset[str], head_dims: frozenset[int], least_length: int
) -> dict[AttentionShape, float]:
    """Nanoseconds of the kernels that go by these names."""
    times_ns: dict[AttentionShape, list[float]] = defaultdict(list)
    for row in chain.from_iterable(_rows(folder / file) for file in ATTENTION_FILES):
        if _gpu(row) != gpu or row["kernel_source"] not in kernels:
            continue
        shape = AttentionShape(
            int(row["batch_size"]),
            int(row["isl"]),
            int(row["num_heads"]),
            int(row["num_key_value_heads"]),
            int(row["head_dim"]),
        )
        if shape.head_dim in head_dims and shape.length >= least_length:
            times_ns[shape].append(float(row["latency"]) * 1e6)
    return {shape: statistics.median(values) for shape, values in times_ns.items()}


def read_points(folder: Path) -> list[Point]:
    """The charts of attention kernels."""
    return [
        Point(
            gpu=row["gpu"][:4].lower(),
            library=row["impl"],
            passes=row["pass"],
            causal=row["causal"] == "y",
            batch=int(row["batch"]),
            length=int(row["seq_len"]),
            heads=int(row["num_heads"]),
            head_dim=int(row["head_dim"]),
            time_ns=float(row["latency_ms"]) * 1e6,
        )
        for row in _rows(folder / POINTS_FILE)
        if row["kernel"] == "attention"
    ]


def _gpu(row: dict[str, str]) -> str:
    return row["gpu"].partition("_")[0]


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        yield from csv.DictReader(file)

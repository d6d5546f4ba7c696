"""Caches with synthetic measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sim_server.timing_cache import Environment, Measurement, TimingCache

H100 = Environment("NVIDIA H100 80GB HBM3", "580.105.08", "13.2", "cublas 13.4")


def product(m: int, n: int = 4096, k: int = 4096) -> dict[str, Any]:
    """The signature of a product as cuBLAS gets it."""
    types = dict.fromkeys("abcd", "bf16")
    return {
        **{"kind": "gemm", "library": "cublas", "m": m, "n": n, "k": k, "batch": 1},
        **{"transa": "T", "transb": "N", "lda": k, "ldb": k, "ldc": m},
        **{"compute": "f32", "epilogue": "none", "beta": False, **types},
    }


def measurement(signature: dict[str, Any], *warm_ns: float, **changes: Any) -> Measurement:
    """Of now and here, unless told otherwise."""
    values: dict[str, Any] = {
        **{"cold_ns": (), "sm_khz": 1_980_000, "date": "2026-01-02T03:04:05", "origin": "test"},
        **changes,
    }
    return Measurement(signature=signature, warm_ns=warm_ns, **values)


def make_cache(path: Path, *measurements: Measurement, environment: Environment = H100) -> Path:
    """A cache of these."""
    with TimingCache(path, write=True) as cache:
        cache.add((environment, one) for one in measurements)
    return path

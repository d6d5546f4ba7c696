"""Wrong descriptions of clusters, plans of sweeps, logs, loads of experts, and timing caches."""

from __future__ import annotations

import contextlib
import json
import random
import shlex
import sqlite3
from collections.abc import Callable
from pathlib import Path

from mutations import json_text, mutate_bytes, mutate_json, mutate_text

from phantora_py.cache.exchange import read_text, write_text
from phantora_py.cli import main
from phantora_py.launch.expert_load import choose_expert_load
from phantora_py.sweep.plan import read_plan
from sim_server.cluster import load_cluster
from sim_server.errors import PhantoraError
from sim_server.timing_cache import Environment, Failure, Measurement, Row, TimingCache
from sim_server.timing_cache.store import _checksum

Act = Callable[[random.Random], None]

CLUSTERS = (
    """base = "h100"
name = "mine"
gpus_per_node = 4
nodes = 4
[nic]
per_node = 4
bandwidth = "200 Gb/s"
latency = "600 ns"
[fabric]
oversubscription = 2.0
routing = "ecmp"
seed = 3
[nvlink]
bandwidth = "450 GB/s"
[host]
gpus_per_switch = 2
[calibration]
base_latency = 1.1
""",
    """base = "a100"
[nic]
per_node = 2
[fabric]
topology = "dragonfly"
routing = "single"
groups = 3
routers = 2
router_nics = 2
link_bandwidth = "100 Gb/s"
""",
    """base = "h100"
[nic]
per_node = 1
[fabric]
topology = "torus"
routing = "ecmp"
shape = [2, 2, 2]
""",
    """base = "h100"
gpus_per_node = 1
[nic]
per_node = 1
[fabric]
topology = "graph"
routing = "ecmp"
links = [
 { from = "nic 0.0", to = "switch a", bandwidth = "400 Gb/s", latency = "600 ns" },
 { from = "nic 1.0", to = "switch a", bandwidth = "400 Gb/s", latency = "600 ns" },
]
""",
    """base = "h100"
[[node_groups]]
nodes = 2
[[node_groups]]
base = "a100"
nodes = 1
[[nic_exceptions]]
nic = "nic 1.3"
bandwidth = "100 Gb/s"
""",
)
PLAN = """[fixed]
run = { cluster = "h100", ranks = 8 }
lr = 0.1
[grid]
batch = [1, 2, 4]
env.NCCL_ALGO = ["Ring", "Tree"]
[[configuration]]
name = "another"
batch = 8
run.until-steady = true
"""
COMMAND = shlex.split("python train.py --batch {batch} --lr={lr}")
LOG = """# nThread 1 nGpus 8 minBytes 8 maxBytes 16384 step: 2(factor) warmup iters: 5 iters: 20
#  Rank  0 Group  0 Pid   5 on   host1 device  0 [0x1b] NVIDIA H100
#  Rank  1 Group  0 Pid   6 on   host1 device  1 [0x43] NVIDIA H100
# all_reduce_perf
#       size   count  type redop root  time algbw busbw #wrong time algbw busbw #wrong
       16384    4096 float   sum   -1 21.50  0.76  1.33      0 21.33 0.77 1.34      0
      524288  131072 float   sum   -1 31.50 16.76 29.33      0 31.33 16.7 29.34      0
# Out of bounds values : 0 OK
"""
SIGNATURE = {
    **{"kind": "gemm", "library": "cublasLt", "m": 64, "n": 64, "k": 64, "batch": 1},
    **{"transa": "N", "transb": "N", "lda": 64, "ldb": 64, "ldc": 64, "epilogue": "none"},
    **{"a": "bf16", "b": "bf16", "c": "bf16", "d": "bf16", "beta": False, "compute": "f32"},
}
ENVIRONMENT = Environment("NVIDIA H100 80GB HBM3", "580.1", "13.2", "cublas 13.2")


def _rows() -> list[Row]:
    date = "2026-01-02T03:04:05+00:00"
    found: list[Row] = [
        (
            ENVIRONMENT,
            Measurement(SIGNATURE | {"k": k}, (1.5, 2.5, 2.0), (3.0,), 1_980_000, date, "o"),
        )
        for k in (64, 128)
    ]
    return [*found, (ENVIRONMENT, Failure(SIGNATURE, "it hung", date, "o", 5.0))]


def _use_cache(path: Path, rng: random.Random) -> None:
    """A damaged one is set aside by the first that finds it, so one has its turn."""
    _command("cache", rng.choice(("ls", "show", "verify")), str(path))


def _command(*words: str) -> None:
    """Must end with a documented exit code; a traceback would be on stderr."""
    code = main(list(words))
    if code not in (0, 2, 6):
        raise AssertionError(f"exit code {code} of {' '.join(words)}")


def _descriptions(directory: Path) -> Act:
    path = directory / "cluster.toml"

    def act(rng: random.Random) -> None:
        path.write_bytes(mutate_text(rng, rng.choice(CLUSTERS)))
        load_cluster(str(path))
        words = ["cluster", "show", str(path)]
        _command(*words, *(["--json"] if rng.random() < 0.3 else []))

    return act


def _plans(directory: Path) -> Act:
    path = directory / "plan.toml"

    def act(rng: random.Random) -> None:
        path.write_bytes(mutate_text(rng, PLAN))
        for configuration in read_plan(path, COMMAND):
            assert configuration.ranks >= 1
            configuration.fill("{batch}", "here")

    return act


def _logs(directory: Path) -> Act:
    path = directory / "log"

    def act(rng: random.Random) -> None:
        path.write_bytes(mutate_text(rng, LOG))
        if rng.random() < 0.8:  # a fit takes ten times as long
            _command("bench", "all_reduce", "--compare", str(path), "--json")
        else:
            words = ["--constants", "base_latency,gpu_latency", "-o", str(directory / "made.toml")]
            _command("calibrate", str(path), *words)

    return act


def _loads(directory: Path) -> Act:
    path = directory / "load"

    def act(rng: random.Random) -> None:
        path.write_bytes(mutate_text(rng, "1 2 3.5\n0.25 1e3 0\n"))
        choose_expert_load(str(path), None)

    return act


def _imports(directory: Path) -> Act:
    write_text(directory / "good", _rows())
    lines = (directory / "good").read_text(encoding="utf-8").splitlines()
    path, cache = directory / "lines", directory / "cache.sqlite"
    with TimingCache(cache, write=True) as opened:
        opened.add(_rows()[:1])
    before = list(_content(cache))

    def act(rng: random.Random) -> None:
        at = rng.randrange(len(lines))
        wrong = (
            mutate_text(rng, lines[at])
            if rng.random() < 0.3
            else json_text(mutate_json(rng, json.loads(lines[at])))
        )
        parts = [line.encode() for line in lines]
        parts[at] = wrong
        path.write_bytes(b"\n".join(parts) + b"\n")
        try:
            rows = list(read_text(path))
        except PhantoraError:
            _command("cache", "import", str(cache), str(path))
            assert list(_content(cache)) == before, "the cache is as it was"
            return
        fresh = directory / "fresh.sqlite"
        for suffix in ("", "-wal", "-shm"):
            Path(f"{fresh}{suffix}").unlink(missing_ok=True)
        with TimingCache(fresh, write=True) as opened:
            opened.add(rows)
        _use_cache(fresh, rng)

    return act


def _content(path: Path) -> list[str]:
    with TimingCache(path) as cache:
        return [row.to_json() for _, row in cache.rows()]


def _caches(directory: Path) -> Act:
    """Bytes of the database, and rows whose checksum is right."""
    good = directory / "good.sqlite"
    with TimingCache(good, write=True) as cache:
        cache.add(_rows())
    with contextlib.closing(sqlite3.connect(good)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = good.read_bytes()
    texts = [row.to_json() for _, row in _rows()]
    path = directory / "wrong.sqlite"

    def act(rng: random.Random) -> None:
        for old in directory.glob("wrong.sqlite*"):
            old.unlink()
        if rng.random() < 0.5:
            path.write_bytes(mutate_bytes(rng, content))
        else:
            path.write_bytes(content)
            _write_row(path, json_text(mutate_json(rng, json.loads(rng.choice(texts)))).decode())
        _use_cache(path, rng)

    return act


def _write_row(path: Path, text: str) -> None:
    row = (text, _checksum(ENVIRONMENT, text))
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT OR REPLACE INTO measurement VALUES (1, ?, ?)", row)


TEXT_TARGETS = {
    "cluster": _descriptions,
    "plan": _plans,
    "log": _logs,
    "load": _loads,
    "import": _imports,
    "cache": _caches,
}

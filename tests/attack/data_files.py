"""Wrong data files, and every view of them."""

from __future__ import annotations

import contextlib
import io
import json
import random
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from mutations import json_text, mutate_bytes, mutate_json
from played_ranks import play, training

from phantora_py.agent.datafile import DataFile
from phantora_py.api import Run
from phantora_py.compare.comparison import compare, read_configuration
from phantora_py.compare.quantities import Prices
from phantora_py.data import SCHEMA, RunData
from phantora_py.launch.host_gaps import load_host_gaps
from phantora_py.profile.needs import signatures_of
from phantora_py.report.listing import print_kernels
from phantora_py.report.page.render import make_page
from phantora_py.report.summary import summarise
from phantora_py.report.terminal import print_summary
from phantora_py.report.trace.write import write_trace
from phantora_py.runs.resimulate import resimulate
from phantora_py.runs.what_if import WhatIf
from phantora_py.tables import TABLES
from sim_server.errors import PhantoraError

Act = Callable[[random.Random], None]
RANKS = 2
VERSIONS = {"python": "3.11.7", "torch": "2.15.0", "cuda": "13.2", "phantora": "0.1.0"}


def make_file(path: Path) -> None:
    """The data file of a small training, with everything that a member may have."""
    simulation, _ = play([training(rank, RANKS) for rank in range(RANKS)])
    settings = simulation.log._settings
    start: dict[str, Any] = {
        **{"schema": SCHEMA, "command": ["python", "train.py"], "environment": {"NCCL_DEBUG": "x"}},
        **{"ranks": RANKS, "nodes": 1, "gpus_per_node": RANKS, "notes": ["a note"], "seed": 0},
        **{"cluster": settings.cluster.to_dict(), "cluster_name": "h100", "cache": None},
        **{
            "host_time": "measured",
            "host_tensors": "lazy",
            "host_gaps": None,
            "versions": VERSIONS,
        },
        **{"isolation": {"tier": "T3", "reason": ""}, "unsupported": "warn"},
        "expert_load": {"name": "zipf:1", "exponent": 1.0, "weights": []},
    }
    made = {
        "host_gaps.json": {
            "measured": [{"key": "cudaMalloc", "calls": 3, "gap_ns": 100}],
            "replayed": {
                source: {"calls": 1, "charged_ns": 5}
                for source in ("signature", "family", "call", "fixed")
            },
            "counted": {
                **{"works": {"frame": {"times": 1, "charged_ns": 5}}, "calls": {}},
                **{"functions": [["a.py:1 f", 5]], "elsewhere_ns": 0},
                "stacks": [[0, "a.py:9 g", 0], [1, "a.py:1 f", 5]],
            },
        },
        "host_tensors.json": {
            "skipped": [{"rank": 0, "site": "a:1", "what": "random", "bytes": 9, "operations": 1}],
            "used": [{"rank": 1, "site": "a:1", "bytes": 9, "tensors": 1}],
        },
        "routing.json": [{"experts": 8, "top": 2, "follows": True, "calls": 4}],
        "synthetic.json": [{"rank": 0, "site": "a:1", "bytes": 8, "count": 2}],
        "unsupported.json": [
            {
                **{"rank": 0, "library": "cuda", "symbol": "cuX", "detail": "", "answer": "error"},
                **{"site": "a:1", "count": 1},
            }
        ],
        "measuring.json": {
            **{"environment": {"gpu": "x"}, "measured": 1, "known": 2, "restarts": 0},
            "refused": [{"class": "gemm", "name": "n", "reason": "r"}],
        },
    }
    data = DataFile(path, start, settings.to_json())
    for name, content in simulation.files():
        data.write(name, json_text(made.pop(name)) if name in made else content)
    for name, value in made.items():
        data.write(name, json_text(value))
    data.write("allocations/000009.json", json_text([[0, 5, 0, 1, 4096, 4096, 1 << 40, "a:1"]]))
    data.write("logs/rank-0.log/000000", b"hello\n")
    wall = {"total_s": 1.0, "startup_s": 0.5, "core_seconds": 1.0}
    memory = {"pss_bytes": {"0": 5, "1": 6}, "total_bytes": 20, "limit_bytes": None}
    table = {"title": "t", "rows": [{"ranks": [0], "state": "s", "since_ns": 5, "site": "a:1"}]}
    end = {"exit_code": 0, "failed_rank": None, "message": "", "wall": wall, "deadlock": [table]}
    steady = {"iterations": 2, "time_ns": 9, "median_ns": 5}
    data.complete(start | end | {"host_memory": memory, "steady": steady, "digest": data.digest})


def members_of(path: Path) -> dict[str, bytes]:
    """By name."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_file(path: Path, members: dict[str, bytes]) -> None:
    """As phantora does, so that what is damaged is no checksum."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def mutate_member(rng: random.Random, name: str, content: bytes) -> bytes:
    """A member whose checksum is right and whose content is not."""
    change = _mutate_json if name.endswith(".json") else _mutate_rows
    is_known = name.endswith((".json", ".npy"))
    if is_known and rng.random() < 0.9:
        # Another change may have damaged it, or made a number of more digits than Python prints.
        with contextlib.suppress(ValueError, TokenError):
            return change(rng, content)
    return mutate_bytes(rng, content)


def _mutate_json(rng: random.Random, content: bytes) -> bytes:
    return json_text(mutate_json(rng, json.loads(content)))


def _mutate_rows(rng: random.Random, content: bytes) -> bytes:
    """Fields of rows."""
    rows = np.load(io.BytesIO(content))
    for _ in range(rng.choice((1, 1, 3))):
        if len(rows):
            field = rng.choice(rows.dtype.names)
            bits = 8 * rows.dtype[field].itemsize
            value = rng.choice((0, 1, 2, rng.getrandbits(bits), (1 << bits) - 1, 1 << (bits - 1)))
            signed = rows.dtype[field].kind == "i"
            value = value - (1 << bits) if signed and value >= 1 << (bits - 1) else value
            rows[field][rng.randrange(len(rows))] = value
    changed = io.BytesIO()
    np.save(changed, rows)
    return changed.getvalue()


def _views(directory: Path, path: Path, rng: random.Random) -> None:
    data = Run(path)
    chosen = rng.randrange(7)
    if chosen <= 1:
        print(json.dumps(summarise(data)))
        print_summary(path)
    elif chosen == 2:
        make_page(data)
    elif chosen == 3:
        for name in ("trace.json", "trace.pftrace"):
            write_trace(data, directory / name, None, None)
    elif chosen == 4:
        runs = [read_configuration(one, "a", None) for one in (path, directory / "good.phr")]
        json.dumps(compare(runs, Prices({}, None)))
    elif chosen == 5:
        for name in TABLES:
            data.table(name)
        print_kernels(data)
        data.log(0)
    else:
        list(signatures_of(data))
        load_host_gaps(path, VERSIONS)


def _again(directory: Path, path: Path, rng: random.Random) -> None:
    resimulate(RunData(path), WhatIf(), directory / "again.phr")


def _members(use: Callable[[Path, Path, random.Random], None], directory: Path) -> Act:
    make_file(directory / "good.phr")
    good = members_of(directory / "good.phr")
    path = directory / "wrong.phr"

    def act(rng: random.Random) -> None:
        members = dict(good)
        for name in rng.choices(list(good), k=rng.choice((1, 1, 1, 2))):
            if rng.random() < 0.05:
                members.pop(name, None)
            elif name in members:
                members[name] = mutate_member(rng, name, members[name])
        write_file(path, members)
        use(directory, path, rng)

    _check_good(partial(use, directory, directory / "good.phr"))
    return act


def _streams(directory: Path) -> Act:
    """Records and answers: what a replay is fed."""
    make_file(directory / "good.phr")
    good = members_of(directory / "good.phr")
    streams = [name for name in good if name.startswith(("records/", "answers/"))]
    path = directory / "wrong.phr"

    def act(rng: random.Random) -> None:
        name = rng.choice(streams)
        write_file(path, good | {name: mutate_bytes(rng, good[name])})
        _again(directory, path, rng)

    return act


def _archive(directory: Path) -> Act:
    make_file(directory / "good.phr")
    good = (directory / "good.phr").read_bytes()
    path = directory / "wrong.phr"

    def act(rng: random.Random) -> None:
        path.write_bytes(mutate_bytes(rng, good))
        _views(directory, path, rng)

    return act


def _check_good(use: Act) -> None:
    """The file that is mutated is not refused: every view has a turn."""
    for seed in range(30):
        try:
            use(random.Random(seed))
        except PhantoraError as error:
            raise AssertionError(f"the good file is refused: {error}") from error


DATA_TARGETS: dict[str, Callable[[Path], Act]] = {
    "data": partial(_members, _views),
    "archive": _archive,
    "resimulation": partial(_members, _again),
    "records": _streams,
}

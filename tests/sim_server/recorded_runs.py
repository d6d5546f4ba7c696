"""Runs of played ranks that leave a recording, and replays of it."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Sequence
from typing import Any

from engine_harness import Program
from played_ranks import PlayedRanks, make_settings, whole_files

from sim_server.errors import PhantoraError
from sim_server.log.run_log import ANSWER
from sim_server.settings import Settings
from sim_server.simulation import Simulation
from sim_server.sources.drive import drive
from sim_server.sources.recorded import Acts, Approximations, RecordedRank


def record(
    scripts: Sequence[Program],
    exits: dict[int, int] | None = None,
    settings: Settings | None = None,
    seed: int | None = None,
) -> dict[str, Any]:
    """The files of a run of scripts, to its end or to its failure, which is kept as "error".

    `seed`: cuts and shuffles what is delivered. `exits`: 0 for ranks that are not named.
    """
    rng = random.Random(seed) if seed is not None else None
    simulation = Simulation(settings or make_settings(len(scripts)))
    ranks, error = PlayedRanks(scripts), None
    while not all(ranks.gone) and error is None:
        try:
            for rank in range(len(scripts)):
                cells = ranks.take(rank, None if rng is None else rng.randint(0, 3))
                simulation.feed(rank, cells, ranks.clocks_ns[rank])
                if ranks.leaves(rank):
                    simulation.exited(rank, (exits or {}).get(rank, 0))
            for reply in simulation.advance():
                if reply.slot == 0:  # helper threads of a script use others
                    ranks.answer(reply.rank, reply.time_ns)
        except PhantoraError as failure:
            error = failure
    return whole_files(simulation.files()) | {"error": str(error)}


def again(
    files: dict[str, Any],
    settings: Settings | None = None,
    piece_cells: int = 7,
    broke_off: bool = False,
) -> tuple[dict[str, Any], Approximations]:
    """The files of a replay, fed in small pieces. `settings`: others than those of the run."""
    recorded_settings = make_settings(len(files["memory.json"]["per_rank"]))
    approximations = Approximations()
    answers = [files.get(f"answers/rank-{rank}", b"") for rank in range(recorded_settings.ranks)]
    acts = Acts({rank: cut(told, ANSWER.size * 2) for rank, told in enumerate(answers)})
    ranks = [
        RecordedRank(
            rank,
            cut(files.get(f"records/rank-{rank}", b""), 64 * piece_cells),
            cut(answers[rank], ANSWER.size * 2),
            literal=settings is None,
            approximations=approximations,
            acts=acts,
        )
        for rank in range(recorded_settings.ranks)
    ]
    exits = {int(rank): status for rank, status in files["exits.json"].items()}
    simulation = Simulation(settings or recorded_settings)
    pieces: list[tuple[str, bytes]] = []
    error = None
    try:
        drive(
            simulation,
            ranks,
            exits,
            lambda name, content: pieces.append((name, content)),
            broke_off=broke_off,
        )
    except PhantoraError as failure:
        error = failure
    pieces += simulation.files()
    return whole_files(pieces) | {"error": str(error)}, approximations


def cut(stream: bytes, piece_bytes: int) -> Iterator[bytes]:
    """In pieces."""
    for start in range(0, len(stream), piece_bytes):
        yield stream[start : start + piece_bytes]


def check_same(files: dict[str, Any]) -> None:
    """A replay under the run's settings is the run."""
    found, _ = again(files)
    assert found["digest"] == files["digest"]
    for name in ("error", "operations", "exits.json", "memory.json"):
        assert found.get(name) == files.get(name), name


def slow_gpu(settings: Settings) -> Settings:
    """The same GPU with tensor cores of a third of the speed."""
    rates = settings.gpu.gemm
    slower = dataclasses.replace(rates, sm_flops_per_ns=rates.sm_flops_per_ns / 3)
    return dataclasses.replace(settings, gpu=dataclasses.replace(settings.gpu, gemm=slower))

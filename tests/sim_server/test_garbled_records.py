"""A rank whose records say anything at all: the run ends, and its end names that rank."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from attack import attack, words
from hypothesis import example, given
from hypothesis import strategies as st
from played_ranks import PlayedRanks, Script, make_settings, training

from sim_server._engine import MalformedInput
from sim_server.errors import Deadlock, PhantoraError
from sim_server.records import (
    CELL_BYTES,
    RECORD_TYPE,
    CopyKind,
    MarkerKind,
    MemoryKind,
    RecordKind,
    WaitKind,
)
from sim_server.records.writer import announcement
from sim_server.simulation import Simulation

RANKS, LIAR = 3, 1
# Rounds without progress: then a real rank would be found waiting for nothing.
PATIENCE = 3
STATISTICS: list[dict[str, Any]] = [
    {"kind": "memory", "device": 0, "allocated_peak_bytes": 5, "reserved_peak_bytes": 6},
    {"kind": "calls", "library": "cudart", "modelled": {"cudaMalloc": 3}, "ignored": {},
     "passthrough": {}},
    {"kind": "host_gaps", "gaps": [["cudart cudaMalloc", 3, 700]]},
    {"kind": "host_tensors", "skipped": [["random", 1, 2, 3]], "used": [[1, 2, 3]]},
    {"kind": "routing", "calls": [[8, 2, True, 5]]},
    {"kind": "unsupported", "calls": [["cudart", "cudaX", "", 1, 4]]},
    {"kind": "replayed_gaps", "signature": [1, 2], "family": [3, 4], "call": [5, 6],
     "fixed": [7, 8]},
]  # fmt: skip
UNSUPPORTED = {"library": "cudart", "symbol": "cudaX", "detail": "", "answer": "error"}


def everything(rank: int) -> Script:
    """Records of all kinds, as a rank may write them."""
    script = training(rank, RANKS, iterations=2)
    script.copy(4096, CopyKind.HOST_TO_DEVICE, gap=5).fill(64)
    first, second = script.record(gap=3), script.record(gap=4)
    script.synchronise(gap=9).wait(WaitKind.ELAPSED, first=first, second=second).wait(
        WaitKind.QUERY_STREAM, stream=2
    )
    script.do(RecordKind.HOST_FUNCTION, stream=2).wait(WaitKind.STREAM, stream=2)
    script.do(
        RecordKind.ALLOC,
        bytes=1 << 21,
        pointer=1 << 40,
        used_bytes=1 << 22,
        id=int(MemoryKind.DEVICE),
    )
    script.do(
        RecordKind.FREE,
        bytes=1 << 21,
        pointer=1 << 40,
        used_bytes=1 << 20,
        id=int(MemoryKind.DEVICE),
    )
    script.do(RecordKind.OUT_OF_MEMORY, bytes=1 << 50, free_bytes=5, used_bytes=6).do(
        RecordKind.SYNTHETIC_READ, bytes=4, site=1
    )
    script.announce(RecordKind.MARKER, b"step", id=int(MarkerKind.RANGE_PUSH))
    script.announce(RecordKind.UNSUPPORTED, json.dumps(UNSUPPORTED).encode(), site=1)
    for one in STATISTICS:
        script.announce(RecordKind.STATISTICS, json.dumps(one).encode())
    script.do(RecordKind.STREAM_DESTROY, stream=3).do(RecordKind.COMM_DESTROY, id=1)
    script.synchronise().do(RecordKind.EXIT, status=0)
    return script


@dataclass(frozen=True)
class Change:
    """One lie: a field of a record, or bytes of a cell."""

    step: int
    cell: int
    field: str
    place: int
    value: int


FIELDS = [*RECORD_TYPE.names, "bytes"]  # type: ignore[misc]
CHANGES = st.lists(
    st.builds(
        Change,
        st.integers(0, 200),
        st.integers(0, 9),
        st.sampled_from(FIELDS),
        st.integers(0, CELL_BYTES - 1),
        words(),
    ),
    min_size=1,
    max_size=3,
)


def lie(script: Script, change: Change) -> None:
    """Changes one of the script's steps, wherever that is."""
    at = change.step % len(script.steps)
    step, gap_ns, waits = script.steps[at]
    cells = bytearray(step)
    begin = change.cell % (len(cells) // CELL_BYTES) * CELL_BYTES
    if change.field == "bytes":
        length = min(8, CELL_BYTES - change.place)
        value = change.value.to_bytes(8, "little")[:length]
        cells[begin + change.place : begin + change.place + length] = value
    else:
        record = np.frombuffer(cells, RECORD_TYPE, 1, begin)
        column = record[change.field]
        item = column[0] if column.ndim > 1 else column
        item[change.place % len(item)] = change.value & (1 << 8 * item.itemsize) - 1
    script.steps[at] = bytes(cells), gap_ns, waits


def end_of(scripts: list[Script], clocks: bool = True) -> str:
    """How a run of them ends. Raises: what is a fault of ours."""
    simulation = Simulation(make_settings(len(scripts)))
    ranks = PlayedRanks(scripts)
    silent = 0
    try:
        while not all(ranks.gone) and silent < PATIENCE:
            silent += 1
            for rank in range(len(scripts)):
                cells = ranks.take(rank)
                simulation.feed(rank, cells, ranks.clocks_ns[rank] if clocks else 0)
                simulation.check_whole(rank)
                if cells or ranks.leaves(rank):
                    silent = 0
                if ranks.gone[rank]:
                    simulation.exited(rank, 0)
            for reply in simulation.advance():
                ranks.answer(reply.rank, reply.time_ns)
                silent = 0
        list(simulation.pieces())
        list(simulation.files())
    except Deadlock as deadlock:
        return f"{deadlock} {deadlock.tables}"
    except (PhantoraError, MalformedInput) as error:
        return str(error)
    return "ended" if all(ranks.gone) else "rank 1 waits for nothing"


@given(CHANGES)
@attack()
@example([Change(0, 0, "stream", 0, 9)])
def test_any_field_of_any_record(changes: list[Change]) -> None:
    """Whatever a rank's records say, the run comes to its end or stops with a message that names
    a rank; the engine is never found wrong.
    """
    scripts = [everything(rank) for rank in range(RANKS)]
    for change in changes:
        lie(scripts[LIAR], change)
    end = end_of(scripts)
    assert end == "ended" or "rank" in end.lower(), end


@given(st.lists(st.binary(min_size=CELL_BYTES, max_size=CELL_BYTES), min_size=1, max_size=4))
@attack()
def test_cells_of_noise(cells: list[bytes]) -> None:
    """Likewise of records that nobody wrote."""
    scripts = [everything(rank) for rank in range(RANKS)]
    scripts[LIAR].steps.insert(20, (b"".join(cells), 0, False))
    end = end_of(scripts)
    assert end == "ended" or "rank 1" in end, end


def json_values() -> st.SearchStrategy[Any]:
    scalars = st.one_of(
        st.none(),
        st.booleans(),
        words(),
        st.integers(-(1 << 70), 1 << 70),
        st.floats(),
        st.text(max_size=5),
    )
    return st.recursive(
        scalars,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)
        ),
        max_leaves=5,
    )


@given(st.sampled_from(STATISTICS), st.data())
@attack()
def test_any_value_in_statistics(told: dict[str, Any], data: st.DataObject) -> None:
    """A payload is used if it has its kind's form, and is refused by a message otherwise."""
    told = dict(told)
    told[data.draw(st.sampled_from(sorted(told)))] = data.draw(json_values())
    script = everything(LIAR)
    script.steps.insert(
        20, (announcement(RecordKind.STATISTICS, json.dumps(told).encode()), 0, False)
    )
    end = end_of([everything(0), script, everything(2)])
    assert end == "ended" or "rank 1" in end, end


@given(st.data())
@attack()
def test_any_value_in_a_signature(data: st.DataObject) -> None:
    """A kernel has a time, or the run ends with its signature."""
    script = everything(LIAR)
    places = [at for at, step in enumerate(script.steps) if step[0][0] == RecordKind.SIGNATURE]
    at = data.draw(st.sampled_from(places))
    cells = script.steps[at][0]
    record = np.frombuffer(cells, RECORD_TYPE, 1)[0]
    signature = json.loads(cells[CELL_BYTES:].rstrip(b"\0"))
    signature[data.draw(st.sampled_from(sorted(signature)))] = data.draw(json_values())
    told = announcement(RecordKind.SIGNATURE, json.dumps(signature).encode(), id=int(record["id"]))
    script.steps[at] = (told, *script.steps[at][1:])
    end = end_of([everything(0), script, everything(2)])
    assert end == "ended" or "rank 1" in end, end


@given(words())
@attack()
def test_any_host_clock(clock_ns: int) -> None:
    """A clock that is told once, and then contradicted by what follows."""
    simulation = Simulation(make_settings(1))
    ranks = PlayedRanks([everything(0)])
    with (
        pytest.raises((MalformedInput, PhantoraError), match="rank")
        if clock_ns > 1 << 60
        else no_more()
    ):
        simulation.feed(0, ranks.take(0), clock_ns)
        simulation.advance()


class no_more:  # noqa: N801 - as the manager it stands for
    """Where the clock may be: what contradicts it names the rank."""

    def __enter__(self) -> None:
        """Nothing."""

    def __exit__(self, kind: object, error: object, trace: object) -> bool:
        return isinstance(error, (MalformedInput, PhantoraError)) and "rank" in str(error)


def test_a_record_that_is_cut() -> None:
    """What belongs together comes together, so that nothing is taken for a payload."""
    scripts = [everything(rank) for rank in range(RANKS)]
    launch = next(step for step, *_ in scripts[LIAR].steps if step[0] == RecordKind.NCCL_LAUNCH)
    scripts[LIAR].steps.insert(20, (launch[:CELL_BYTES], 0, True))
    assert "rank 1, record 23 (NcclLaunch): ends before it is whole" in end_of(scripts)

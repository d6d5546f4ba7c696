"""What the server keeps of a run, from what ranks announce."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from engine_harness import cell
from played_ranks import Script, make_settings, play, training, whole_files

from sim_server.log.history import COMMUNICATION_SPAN, KERNEL_SPAN, History
from sim_server.records import MarkerKind, MemoryKind, RecordKind
from sim_server.simulation import Simulation


def files_of(*scripts: Script) -> dict[str, Any]:
    """The files of a run, JSON read."""
    simulation, _ = play(scripts)
    return whole_files(simulation.files())


def statistics(script: Script, **values: object) -> None:
    script.announce(RecordKind.STATISTICS, json.dumps(values).encode())


def test_memory_peaks() -> None:
    """The peak is of everything on the device; context and communicators are told apart."""
    script = Script()
    for kind, size_bytes, in_use_bytes in (
        (MemoryKind.CONTEXT, 500, 500),
        (MemoryKind.NCCL, 40, 540),
        (MemoryKind.NCCL, 2, 542),
        (MemoryKind.PINNED_HOST, 9999, 9999),
        (MemoryKind.DEVICE, 1000, 1542),
    ):
        script.do(
            RecordKind.ALLOC, bytes=size_bytes, pointer=0, used_bytes=in_use_bytes, id=int(kind)
        )
    script.do(RecordKind.FREE, bytes=1000, pointer=0, used_bytes=542, id=int(MemoryKind.DEVICE))
    for reserved_bytes in (800, 1000, 900):
        peaks = {"allocated_peak_bytes": reserved_bytes - 100}
        statistics(script, kind="memory", device=0, reserved_peak_bytes=reserved_bytes, **peaks)
    memory = files_of(script)["memory.json"]
    assert memory == {
        "capacity_bytes": make_settings(1).gpu.memory_bytes,
        "per_rank": [
            {
                **{"allocated_peak_bytes": 900, "reserved_peak_bytes": 1000},
                **{"device_peak_bytes": 1542, "context_bytes": 500, "nccl_bytes": 42},
                "capacity_bytes": make_settings(1).gpu.memory_bytes,
                "oom": [],
            }
        ],
    }


def test_each_gpu_of_a_rank_has_its_peaks() -> None:
    """The rank's are those of the fullest; what one GPU takes is not added to another's."""
    script = Script()
    for device, used_bytes in ((0, 700), (1, 900), (0, 800)):
        script.do(
            RecordKind.ALLOC,
            device=device,
            bytes=10,
            pointer=0,
            used_bytes=used_bytes,
            id=int(MemoryKind.DEVICE),
        )
    for device in (0, 1):
        peaks = {"allocated_peak_bytes": 50 + device, "reserved_peak_bytes": 60 + device}
        statistics(script, kind="memory", device=device, **peaks)
    (memory,) = files_of(script)["memory.json"]["per_rank"]
    assert (memory["device_peak_bytes"], memory["reserved_peak_bytes"]) == (900, 61)
    told = [(one["device"], one["device_peak_bytes"]) for one in memory["devices"]]
    assert told == [(0, 800), (1, 900)]
    assert [one["allocated_peak_bytes"] for one in memory["devices"]] == [50, 51]


def test_allocations_are_kept_in_order() -> None:
    """What was taken and given back, with the host's time and the line that took it."""
    script = Script().site(6, "train.py:3 main")
    script.do(
        RecordKind.ALLOC, bytes=500, pointer=0, used_bytes=500, id=int(MemoryKind.CONTEXT), gap=10
    )
    script.do(
        RecordKind.ALLOC, bytes=64, pointer=7, used_bytes=64, id=int(MemoryKind.PINNED_HOST), gap=10
    )
    script.do(
        RecordKind.ALLOC,
        bytes=1000,
        pointer=4096,
        used_bytes=1500,
        id=int(MemoryKind.DEVICE),
        gap=10,
        site=6,
    )
    script.do(
        RecordKind.FREE,
        bytes=1000,
        pointer=4096,
        used_bytes=500,
        id=int(MemoryKind.DEVICE),
        gap=10,
        site=6,
    )
    assert files_of(script)["allocations"] == [
        [0, 10, 0, MemoryKind.CONTEXT, 500, 500, 0, "an unknown line"],
        [0, 30, 0, MemoryKind.DEVICE, 1000, 1500, 4096, "train.py:3 main"],
        [0, 40, 0, MemoryKind.DEVICE, -1000, 500, 4096, ""],
    ]


def test_out_of_memory_is_kept_with_its_line() -> None:
    """Rank, asked, free and where."""
    script = Script().site(6, "train.py:3 main")
    script.do(RecordKind.OUT_OF_MEMORY, bytes=1 << 40, free_bytes=1 << 30, used_bytes=5, site=6)
    (_, memory) = files_of(Script(), script)["memory.json"]["per_rank"]
    assert memory["oom"] == [
        {
            **{"device": 0, "asked_bytes": 1 << 40, "free_bytes": 1 << 30},
            "site": "train.py:3 main",
        }
    ]


def test_a_line_that_got_memory_in_the_end_retried() -> None:
    """PyTorch gives back what it keeps for reuse, and asks for the same again."""
    script = Script().site(6, "train.py:3 main").site(7, "train.py:4 main")
    for size_bytes, site in ((900, 7), (1000, 6), (1000, 6)):
        script.do(
            RecordKind.OUT_OF_MEMORY, bytes=size_bytes, free_bytes=10, used_bytes=5, site=site
        )
    script.do(
        RecordKind.ALLOC, bytes=1000, pointer=0, used_bytes=1000, id=int(MemoryKind.DEVICE), site=6
    )
    (memory,) = files_of(script)["memory.json"]["per_rank"]
    assert [one.get("retried", False) for one in memory["oom"]] == [False, True, True]


def test_calls_are_added_over_ranks() -> None:
    """By library, support and symbol."""
    scripts = [Script(), Script()]
    for count, script in enumerate(scripts, 1):
        supports = {"modelled": {"cudaMalloc": count}, "ignored": {}, "passthrough": {"a": 1}}
        statistics(script, kind="calls", library="cudart", **supports)
    assert files_of(*scripts)["calls.json"] == {
        "cudart": {"modelled": {"cudaMalloc": 3}, "ignored": {}, "passthrough": {"a": 2}}
    }


def test_synthetic_reads_are_added_by_rank_and_line() -> None:
    """Each line once, with how often and how much."""
    scripts = [Script().site(1, "a.py:1 f").site(2, "a.py:2 f") for _ in range(2)]
    for site, size_bytes in ((1, 4), (2, 8), (1, 16)):
        scripts[1].do(RecordKind.SYNTHETIC_READ, bytes=size_bytes, site=site)
    scripts[0].do(RecordKind.SYNTHETIC_READ, bytes=2)
    assert files_of(*scripts)["synthetic.json"] == [
        {"rank": 0, "site": "an unknown line", "bytes": 2, "count": 1},
        {"rank": 1, "site": "a.py:1 f", "bytes": 20, "count": 2},
        {"rank": 1, "site": "a.py:2 f", "bytes": 8, "count": 1},
    ]


def test_host_tensors_have_their_lines() -> None:
    """By rank, whichever ended first; a rank that failed is told what it may have seen."""
    scripts = [Script().site(1, "a.py:1 f").site(2, "a.py:2 f") for _ in range(2)]
    skipped, used = [["random", 1, 3, 3000], ["copy", 2, 1, 1000]], [[1, 1, 500], [2, 1, 400]]
    statistics(scripts[1], kind="host_tensors", skipped=skipped, used=used)
    statistics(scripts[0], kind="host_tensors", skipped=skipped[:1], used=[])
    simulation, _ = play(scripts)
    first = {"what": "random", "site": "a.py:1 f", "operations": 3, "bytes": 3000}
    assert whole_files(simulation.files())["host_tensors.json"] == {
        "skipped": [
            {"rank": 0, **first},
            {"rank": 1, **first},
            {"rank": 1, "what": "copy", "site": "a.py:2 f", "operations": 1, "bytes": 1000},
        ],
        "used": [
            {"rank": 1, "site": "a.py:1 f", "tensors": 1, "bytes": 500},
            {"rank": 1, "site": "a.py:2 f", "tensors": 1, "bytes": 400},
        ],
    }
    assert simulation.log.troubles(0) == []
    (sentence,) = simulation.log.troubles(1)
    assert "500 bytes of host tensors that a.py:1 f was to fill" in sentence


def test_markers_of_a_rank_stay_in_order() -> None:
    """Also those of one instant; ranks may be mixed."""
    scripts = [Script(), Script()]
    for script in scripts:
        script.announce(RecordKind.MARKER, b"b", gap=10, id=int(MarkerKind.RANGE_PUSH))
        script.announce(RecordKind.MARKER, b"a", id=int(MarkerKind.RANGE_POP))
    pair = [[10, 3, "b"], [10, 4, "a"]]
    expected = [[rank, *marker] for rank in (0, 1) for marker in pair]
    assert sorted(files_of(*scripts)["markers"], key=lambda marker: marker[0]) == expected


def test_records_are_kept_as_they_came() -> None:
    """Whole streams, so that a run can be simulated again."""
    script = Script().gemm().synchronise()
    files = files_of(script)
    assert files["records/rank-0"] == b"".join(step for step, _, _ in script.steps)
    assert files["exits.json"] == {"0": 0}


def test_an_empty_run_has_every_file() -> None:
    """A program that never touches its GPU."""
    files = files_of(Script(streams=0))
    assert files.keys() == {
        *("communicators.json", "memory.json", "calls.json", "calls_of.json", "synthetic.json"),
        *("host_gaps.json", "host_tensors.json", "routing.json", "unsupported.json"),
        *("caveats.json", "data_parallel.json", "exits.json", "digest"),
    }
    assert len(files["digest"]) == 64


def test_an_unknown_record_is_refused() -> None:
    """Naming the rank, rather than guessing how long it is."""
    script = Script()
    script.steps.append((b"\xf0" + cell(RecordKind.EXIT)[1:], 0, False))
    with pytest.raises(ValueError, match="rank 0"):
        play([script])


def test_a_rank_s_own_word_about_its_end_is_kept() -> None:
    """Its exit record comes before its process ends, which is what counts in the end."""
    simulation = Simulation(make_settings(2))
    simulation.feed(1, cell(RecordKind.EXIT, 7), 0)
    assert simulation.log.failed_ranks() == [(1, 7)]
    simulation.exited(1, -9)
    assert simulation.log.failed_ranks() == [(1, -9)]


def test_pieces_make_up_the_whole() -> None:
    """Taken while the run goes on, pieces hold what they would have held at the end; what is due is
    handed on though it be little, and nothing stays behind.
    """
    scripts = [training(rank, 2) for rank in range(2)]
    whole = whole_files(play(scripts)[0].files())
    pieces: list[tuple[str, bytes]] = []

    def take(simulation: Simulation) -> None:
        simulation.log.due = lambda: True  # type: ignore[method-assign]
        pieces.extend(simulation.pieces())

    simulation, _ = play(scripts, after_advance=take)
    assert len({name for name, _ in pieces if name.startswith("spans/")}) > 2
    rest = list(simulation.files())
    names = [name for name, _ in pieces + rest]
    assert len(set(names)) == len(names)
    cut = whole_files(pieces + rest)
    assert cut["digest"] == whole["digest"]
    for name in ("spans", "link_use"):
        assert np.array_equal(cut.pop(name), whole.pop(name))
    assert cut == whole


def test_spans_refer_to_what_was_written_before_them() -> None:
    """A file that broke off must not have spans of kernels or operations that it lacks."""
    pieces: list[tuple[str, bytes]] = []

    def take(simulation: Simulation) -> None:
        simulation.log.due = lambda: True  # type: ignore[method-assign]
        pieces.extend(simulation.pieces())
        files = whole_files(pieces)
        if "spans" in files:
            spans = files["spans"]
            for kind, rows in ((KERNEL_SPAN, "timings"), (COMMUNICATION_SPAN, "operations")):
                ids = spans["id"][spans["kind"] == kind]
                assert all(ids < len(files.get(rows, [])))

    play([training(rank, 2) for rank in range(2)], after_advance=take)
    assert any(name.startswith("spans/") for name, _ in pieces)


def test_what_follows_from_the_rest_is_kept_and_not_digested() -> None:
    """Runs of versions that tell more of an operation have one digest."""
    digests = set()
    for derived in ({}, {"algorithm": "Ring", "protocol": "LL"}):
        history = History()
        history.add_operation({"kind": "all_reduce", "comm": 1}, derived)
        ((_, content),) = history.take()
        assert json.loads(content) == [{"kind": "all_reduce", "comm": 1, **derived}]
        digests.add(history.digest())
    assert len(digests) == 1

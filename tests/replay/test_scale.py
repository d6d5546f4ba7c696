"""`phantora replay scale`: as if the program had been traced on that many ranks, or a refusal."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_rounded_sizes import Program

from phantora_py.launch.fold import mesh_sizes
from phantora_py.replay.container import Benchmark, new_head, read_benchmark, write_benchmark
from phantora_py.replay.mesh import Groups, Growth, Mesh
from phantora_py.replay.scale import scale
from sim_server.errors import UsageError

pytestmark = pytest.mark.torch

SHAPES = ((10, 4), (6,))
"""Of the parameters of the program below: no number of ranks from 3 on divides both."""


def sharded(rank: int, size: int) -> Program:
    """A step with FSDP2: gathers parameters, uses one, scatters gradients, updates shards."""
    import torch.distributed.fsdp._fully_shard._fsdp_collectives  # noqa: F401, PLC0415

    made = Program()
    chunks = [-(-shape[0] // size) for shape in SHAPES]
    rows = [
        min(max(shape[0] - rank * chunk, 0), chunk)
        for shape, chunk in zip(SHAPES, chunks, strict=True)
    ]
    widths = [math.prod(shape[1:]) for shape in SHAPES]
    sizes = [chunk * width for chunk, width in zip(chunks, widths, strict=True)]
    begins, total = [0, sizes[0]], sum(sizes)
    tails = [shape[1:] for shape in SHAPES]
    flats = [made.tensor(one) for one in sizes]
    locals_ = [
        made.tensor(count, *tail, of=flat["tensor"])
        for count, tail, flat in zip(rows, tails, flats, strict=True)
    ]
    for local, count, tail in zip(locals_, rows, tails, strict=True):
        made.call("empty", "memory_format", [[count, *tail], 6], [local])
    sent = made.tensor(total)
    pieces = [
        made.tensor(one, offset=at, of=sent["tensor"])
        for one, at in zip(sizes, begins, strict=True)
    ]
    made.call("empty", "memory_format", [[total], 6], [sent])
    made.call("split_with_sizes", "default", [sent, sizes, 0], [pieces])
    made.call("_foreach_copy_", "default", [pieces, flats, False], [])
    whole = made.tensor(size * total)
    own = made.tensor(total, offset=rank * total, of=whole["tensor"])
    made.call(
        "all_gather_copy_in", "default", [pieces, whole, sizes, total, rank], [own, whole], "fsdp"
    )
    collective(made, "_allgather_base_", [whole, own, None, False, -1], [whole, None])
    grids, full = [], []
    for one, shape in zip(sizes, SHAPES, strict=True):
        memory = made.tensor(size * one)
        grids.append(made.tensor(size, one, of=memory["tensor"]))
        made.call("empty", "memory_format", [[size * one], 6], [memory])
        made.call("view", "default", [memory, [size, -1]], [grids[-1]])
        full.append((memory, made.tensor(*shape, of=memory["tensor"])))
    grid = made.tensor(size, total, of=whole["tensor"])
    made.call("view", "default", [whole, [size, -1]], [grid])
    made.call("split_with_sizes_copy", "default", [grid, sizes, 1, grids], [], "fsdp")
    for (memory, parameter), shape in zip(full, SHAPES, strict=True):
        strides = [math.prod(shape[1:]), 1][2 - len(shape) :]
        made.call("as_strided", "default", [memory, list(shape), strides, 0], [parameter])
    made.call("mm", "default", [made.tensor(3, 10), full[0][1]], [made.tensor(3, 4)])
    gradients = [made.tensor(*shape) for shape in SHAPES]
    scattered, reduced = made.tensor(size, total), made.tensor(total)
    made.call("chunk_cat", "default", [gradients, 0, size, scattered], [], "fsdp")
    flat = made.tensor(size * total, of=scattered["tensor"])
    made.call("view", "default", [scattered, [-1]], [flat])
    collective(made, "_reduce_scatter_base_", [reduced, flat, None, None, False, -1], [reduced])
    parts = []
    for count, tail, at in zip(rows, tails, begins, strict=True):
        strides = [math.prod(tail), 1][1 - len(tail) :]
        parts.append(made.tensor(count, *tail, offset=at, of=reduced["tensor"]))
        made.call("as_strided", "default", [reduced, [count, *tail], strides, at], [parts[-1]])
    moments = []
    for local, count, tail in zip(locals_, rows, tails, strict=True):
        moments.append(made.tensor(count, *tail))
        made.call("zeros_like", "default", [local], [moments[-1]])
    norms = [made.tensor(), made.tensor()]
    made.call("_foreach_norm", "Scalar", [parts, 2.0], [norms])
    made.call("_foreach_lerp_", "Scalar", [moments, parts, 0.1], [])
    made.call("_foreach_add_", "List", [locals_, moments, 1], [])
    return made


def collective(made: Program, name: str, args: list[Any], outs: list[Any]) -> None:
    """A call among all ranks."""
    made.call(name, "default", args, outs, "c10d")
    made.told["events"][-1]["group"] = "0"


def benchmark(programs: list[Program], groups: dict[str, list[int]] | None = None) -> Benchmark:
    """Of a rank each."""
    all_ranks = {"0": list(range(len(programs)))}
    return Benchmark(new_head(len(programs), groups or all_ranks), [one.told for one in programs])


def scaled(before: Benchmark, change: str, mesh: str | None = None) -> Benchmark:
    """With the options of the command."""
    old = Mesh(mesh_sizes(mesh or f"dp={before.head['ranks']}"))
    return scale(before, Growth(old, mesh_sizes(change, "--set")))[0]


def calls(told: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Operators with offsets, sizes and strides of their tensors."""

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(one) for one in value]
        return told["tensors"][value["tensor"]][1:] if isinstance(value, dict) else value

    for event in told["events"]:
        yield told["schemas"][event["schema"]], plain(event["args"]), plain(event["outs"])


@pytest.mark.parametrize(("before", "after"), [(2, 4), (2, 5), (4, 8), (4, 3), (3, 2)])
def test_shards_are_as_if_traced_on_that_many_ranks(before: int, after: int) -> None:
    """Padded in collectives, without padding elsewhere; the last ranks may have none."""
    found = scaled(benchmark([sharded(rank, before) for rank in range(before)]), f"dp={after}")
    assert found.head["ranks"] == len(found.ranks) == after
    assert found.head["groups"] == {"0": list(range(after))}
    for rank, told in enumerate(found.ranks):
        expected = sharded(rank, after).told
        for one, other in zip(calls(told), calls(expected), strict=True):
            assert one == other
        assert [one["bytes"] for one in told["versions"]] == [
            one["bytes"] for one in expected["versions"]
        ]


def test_a_shard_of_the_same_size_by_chance_does_not_change() -> None:
    """Sizes follow the data, not their values."""
    programs = [sharded(rank, 2) for rank in range(2)]
    for made in programs:
        made.call("mul", "Tensor", [made.tensor(5, 4), made.tensor(5, 4)], [made.tensor(5, 4)])
    last = scaled(benchmark(programs), "dp=4").ranks[3]
    *_, (_, args, outs) = calls(last)
    assert [one[2] for one in (*args, *outs)] == [[5, 4]] * 3


def test_memory_of_a_parameter_at_the_address_of_a_buffer() -> None:
    """A trace knows storages by address: what was freed there does not matter."""
    programs = [sharded(rank, 2) for rank in range(2)]
    expected = [*calls(scaled(benchmark(programs), "dp=4").ranks[3])]
    for made in programs:
        tensors, events = made.told["tensors"], made.told["events"]
        memory = next(n for n, event in enumerate(events) if event["args"][0] == [2 * 20])
        [out] = events[memory]["outs"]
        version = tensors[out["tensor"]][0]
        sent = next(event for event in events if event["args"][0] == [20 + 3])["outs"][0]
        for row in tensors:
            if row[0] == version:
                row[0] = tensors[sent["tensor"]][0]
        del events[memory]
        made.told["versions"][tensors[sent["tensor"]][0]]["bytes"] = 40 * 4
    found = [*calls(scaled(benchmark(programs), "dp=4").ranks[3])]
    made_there = next(n for n, one in enumerate(expected) if one[1][0] == [4 * 12])
    assert found == expected[:made_there] + expected[made_there + 1 :]


def test_a_benchmark_that_was_just_built_is_as_one_that_was_read() -> None:
    """It has tuples where a file has lists."""
    programs = [sharded(rank, 2) for rank in range(2)]
    read = scaled(benchmark(programs), "dp=4")
    for made in programs:
        made.told["tensors"] = [[*row[:3], *map(tuple, row[3:])] for row in made.told["tensors"]]
    assert scaled(benchmark(programs), "dp=4") == read


def test_groups_follow_the_mesh() -> None:
    """Those along the dimension grow, others are there once for each new coordinate."""
    groups = {"0": [0, 1, 2, 3], "dp0": [0, 2], "dp1": [1, 3], "tp0": [0, 1], "tp1": [2, 3]}
    found = Groups(Growth(Mesh({"dp": 2, "tp": 2}), {"dp": 4}), groups)
    assert found.new == {
        "0": list(range(8)),
        **{"dp0": [0, 2, 4, 6], "dp1": [1, 3, 5, 7], "tp0": [0, 1], "tp1": [2, 3]},
        **{"tp0.1": [4, 5], "tp1.1": [6, 7]},
    }
    assert [found.name(5, one) for one in ("0", "dp1", "tp0")] == ["0", "dp1", "tp0.1"]


def test_numbers_of_each_rank_are_gathered_from_all() -> None:
    """DDP's check of its parameters has a tensor for each rank."""

    def checked(size: int) -> Program:
        made = Program()
        outs = [made.tensor(1, dtype="long int") for _ in range(size)]
        given = made.tensor(1, dtype="long int")
        collective(made, "allgather_", [[outs], [given], None, True, -1], [[outs], None])
        collective(made, "allreduce_", [[given], None, None, None, True, -1], [[given], None])
        return made

    for before, after in ((2, 4), (4, 2)):
        found = scaled(benchmark([checked(before)] * before), f"dp={after}")
        for told in found.ranks:
            assert [*calls(told)] == [*calls(checked(after).told)]


# What is refused


@pytest.mark.parametrize(
    ("change", "mesh", "said"),
    [
        ("dp=0", None, "--set dp=0: 'dp=0' is no dimension"),
        ("dp=-2", None, "--set dp=-2: 'dp=-2' is no dimension"),
        ("tp=4", "dp=2,tp=2", "only data-parallel dimensions can be set .* another size of tp"),
        ("pp=4", "pp=2,dp=2", "only data-parallel dimensions can be set .* another size of pp"),
        ("dp=4", "shard=4", "the mesh has no dimension dp; it has shard"),
        ("dp=1", None, "dp is to have 2 ranks or more"),
        ("dp=4", "dp=1,tp=4", "dp is to have 2 ranks or more"),
        ("dp=4", "dp=2,tp=4", "--mesh dp=2,tp=4 has 8 ranks, and the benchmark has 4"),
        ("dp=4", "tp=2,dp=2", "group row has the ranks 0, 1, 2, which are not all ranks along"),
    ],
)
def test_other_dimensions_and_meshes_are_refused(change: str, mesh: str | None, said: str) -> None:
    before = benchmark([Program()] * 4, {"0": [0, 1, 2, 3], "row": [0, 1, 2]})
    with pytest.raises(UsageError, match=said):
        scaled(before, change, mesh)


def part_of_an_exchange(made: Program) -> None:
    sides = made.tensor(8), made.tensor(8)
    collective(made, "alltoall_base_", [*sides, None, [], [], False, -1], [None])


def gathered_without_parameters(made: Program) -> None:
    whole, part = made.tensor(16), made.tensor(8)
    collective(made, "_allgather_base_", [whole, part, None, False, -1], [whole, None])


def gathered_lists(made: Program) -> None:
    outs, given = [made.tensor(8), made.tensor(8)], made.tensor(8)
    collective(made, "allgather_", [[outs], [given], None, True, -1], [[outs], None])


def sent_by_another(made: Program) -> None:
    given = made.tensor(8)
    collective(made, "broadcast_", [[given], None, 1, 0, True, -1], [[given], None])


def gathered_from_two(made: Program) -> None:
    gathered_lists(made)
    args = made.told["events"][-1]["args"]
    args[0] = args[0] * 2


def among_a_group_that_is_not_told(made: Program) -> None:
    gathered_lists(made)
    made.told["events"][-1]["group"] = "7"


def product_of_a_shard(made: Program) -> None:
    shard = made.told["events"][0]["outs"][0]
    made.call("mm", "default", [shard, made.tensor(4, 7)], [made.tensor(5, 7)])


def sum_of_rows_of_a_shard(made: Program) -> None:
    shard = made.told["events"][0]["outs"][0]
    made.call("sum", "dim_IntList", [shard, [1], False], [made.tensor(5)])


def proxy_of_a_shard(made: Program) -> None:
    shard = made.told["events"][0]["outs"][0]
    proxy = {"do": "proxy", "thread": 0, "name": "kernel", "launches": 1}
    made.told["events"].append(proxy | {"args": [shard], "outs": []})


def sharded_along_columns(made: Program) -> None:
    name = next(n for n, one in enumerate(made.told["schemas"]) if one.startswith("aten::as_str"))
    event = next(one for one in made.told["events"] if one["schema"] == name)
    event["args"][1] = [5, 8]
    made.told["tensors"][event["outs"][0]["tensor"]][3:] = [[5, 8], [8, 1]]


@pytest.mark.parametrize(
    ("add", "said"),
    [
        (
            part_of_an_exchange,
            "alltoall_base_: process group 0 goes from 2 to 4 ranks, .* as large,",
        ),
        (gathered_without_parameters, "does not tell which parameters"),
        (gathered_lists, r"whether the parts of \[8\] are shards is not told"),
        (gathered_from_two, "it gathers 2 lists at once"),
        (among_a_group_that_is_not_told, "uses process group '7' and does not say which ranks"),
        (sent_by_another, "rank 1 of it sends: who would send is not told"),
        (product_of_a_shard, r"aten::mm: it works on shards, and would give \[3, 7\] where"),
        (sum_of_rows_of_a_shard, r"aten::sum: it works on shards, and would give \[3\] where"),
        (proxy_of_a_shard, "kernel: it became a proxy, and works on shards"),
        (sharded_along_columns, "as_strided: .* which are no equal chunks of its rows"),
    ],
)
def test_what_cannot_be_derived_is_refused(add: Any, said: str) -> None:
    programs = [sharded(rank, 2) for rank in range(2)]
    for made in programs:
        add(made)
    with pytest.raises(UsageError, match=said):
        scaled(benchmark(programs), "dp=4")


def test_the_command_says_what_it_takes_for_granted(tmp_path: Path) -> None:
    before, after = tmp_path / "a.bench", tmp_path / "b.bench"
    command = [sys.executable, "-P", "-m", "phantora_py", "replay", "scale", str(before)]

    def done(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, "-o", str(after), *words], capture_output=True, text=True, check=False
        )

    write_benchmark(benchmark([sharded(rank, 2) for rank in range(2)]), before)
    told = done("--set", "dp=4")
    assert told.returncode == 0, told.stderr
    assert "all 2 ranks are taken to be data-parallel (dp); --mesh says otherwise" in told.stdout
    assert "2 ranks (dp=2) became 4 (dp=4)" in told.stdout
    assert read_benchmark(after).head["ranks"] == 4
    told = done("--set", "shard=4", "--mesh", "shard=2")
    assert told.returncode == 0, told.stderr
    assert "taken to be" not in told.stdout
    write_benchmark(benchmark([Program()] * 4, {"0": [0, 1, 2, 3], "tp": [0, 1]}), before)
    told = done("--set", "dp=4")
    assert told.returncode == 2
    assert "process group tp has 2 of 4 ranks" in told.stderr
    assert "--mesh" in told.stderr

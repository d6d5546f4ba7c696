"""`phantora replay scale` with FSDP1's flat parameters."""

from __future__ import annotations

from typing import Any

import pytest
from test_rounded_sizes import Program
from test_scale import benchmark, calls, collective, scaled

from phantora_py.replay.flat import PAD
from sim_server.errors import UsageError

pytestmark = pytest.mark.torch

COUNTS = (10, 15)
"""Elements of two flat parameters."""


def flat(rank: int, size: int, has_replicas: bool = False) -> Program:
    """Cuts, pads, gathers, scatters and updates flat parameters."""
    made = Program()
    shards = [own_chunk(made, rank, size, count) for count in COUNTS]
    chunks = [-(-count // size) for count in COUNTS]
    reduced = []
    for count, chunk, shard in zip(COUNTS, chunks, shards, strict=True):
        whole = made.tensor(chunk * size)
        collective(made, "_allgather_base_", [whole, shard, None, False, -1], [whole, None])
        inner = made.tensor(count, of=whole["tensor"])
        made.call("slice", "Tensor", [whole, 0, 0, count, 1], [inner])
        grid = made.tensor(count // 5, 5, of=whole["tensor"])
        made.call("view", "default", [inner, [count // 5, 5]], [grid])
        made.call("mm", "default", [made.tensor(2, count // 5), grid], [made.tensor(2, 5)])
        reduced.append(scattered(made, size, count, has_replicas))
    for shard, gradient, chunk in zip(shards, reduced, chunks, strict=True):
        moment = made.tensor(chunk)
        made.call("zeros_like", "default", [shard], [moment])
        made.call("_foreach_lerp_", "Scalar", [[moment], [gradient], 0.1], [])
        made.call("linalg_vector_norm", "default", [gradient, 2.0], [made.tensor()])
        made.call("_foreach_add_", "List", [[shard], [moment], 1], [])
    return made


def cut(made: Program, whole: dict[str, int], size: int, count: int) -> list[dict[str, int]]:
    """Equal chunks, the last ones smaller."""
    chunk = -(-count // size)
    pieces = [
        made.tensor(min(chunk, count - at), offset=at, of=whole["tensor"])
        for at in range(0, count, chunk)
    ]
    made.call("split", "Tensor", [whole, chunk, 0], [pieces])
    return pieces


def own_chunk(made: Program, rank: int, size: int, count: int) -> dict[str, int]:
    """A rank's chunk of a new flat parameter, with padding."""
    whole, chunk = made.tensor(count), -(-count // size)
    made.call("empty", "memory_format", [[count], 6], [whole])
    piece = cut(made, whole, size, count)[rank]
    own = made.tensor(elements := made.told["tensors"][piece["tensor"]][3][0])
    made.call("clone", "default", [piece], [own])
    if elements == chunk:
        return own
    padded = made.tensor(chunk)
    made.call("constant_pad_nd", "default", [own, [0, chunk - elements], 0.0], [padded])
    return padded


def scattered(made: Program, size: int, count: int, has_replicas: bool) -> dict[str, int]:
    """The sum of a gradient's chunk. FSDP1 divides again on more than two ranks, with replicas
    after their sum."""
    gradient, chunk = made.tensor(count), -(-count // size)
    made.call("ones_like", "default", [gradient], [gradient])
    first = cut(made, gradient, size, count)[0]
    padded = gradient
    if chunk * size != count:
        padded = made.tensor(chunk * size)
        made.call(
            "constant_pad_nd", "default", [gradient, [0, chunk * size - count], 0.0], [padded]
        )
    own = made.tensor(chunk)
    made.call("empty_like", "default", [first], [own])
    made.call("div_", "Tensor", [padded, 1.0], [padded])
    collective(made, "_reduce_scatter_base_", [own, padded, None, None, False, -1], [own, None])
    if has_replicas:
        collective(made, "allreduce_", [[own], None, None, None, False, -1], [[own], None])
    if size > 2 or has_replicas:
        made.call("div_", "Tensor", [own, 1.0], [own])
    return own


@pytest.mark.parametrize("has_replicas", [False, True])
@pytest.mark.parametrize(("before", "after"), [(2, 3), (2, 4), (4, 2), (5, 4), (3, 5)])
def test_flat_parameters_are_as_if_traced_on_that_many_ranks(
    before: int, after: int, has_replicas: bool
) -> None:
    """Operators that only some numbers of ranks need come and go."""
    programs = [flat(rank, before, has_replicas) for rank in range(before)]
    found = scaled(benchmark(programs), f"dp={after}")
    for rank, told in enumerate(found.ranks):
        assert [*calls(told)] == [*calls(flat(rank, after, has_replicas).told)]
        for event in told["events"]:
            assert "flat" not in event


def test_the_last_ranks_may_have_padding_only() -> None:
    """As 10 elements are 2 for each of 5 ranks."""
    last = scaled(benchmark([flat(rank, 2) for rank in range(2)]), "dp=8").ranks[7]
    own, padded = [
        (args, outs) for name, args, outs in calls(last) if name.startswith(("aten::clone", PAD))
    ][:2]
    assert own == ([[10, "float", [0], [1]]], [[0, "float", [0], [1]]])
    assert padded == ([[0, "float", [0], [1]], [0, 2], 0.0], [[0, "float", [2], [1]]])


def test_memory_that_padding_needs_ends_where_its_user_does() -> None:
    programs = [flat(rank, 2) for rank in range(2)]
    for made in programs:
        last: dict[int, int] = {}
        for number, event in enumerate(made.told["events"]):
            for tensor in numbers([event["args"], event["outs"]]):
                last[made.told["tensors"][tensor][0]] = number
        for version, number in last.items():
            made.told["events"][number].setdefault("free", []).append(version)
    for told in scaled(benchmark(programs), "dp=4").ranks:
        ended: set[int] = set()
        for event in told["events"]:
            used = {told["tensors"][one][0] for one in numbers([event["args"], event["outs"]])}
            assert not used & ended, event
            assert not ended & {*event.get("free", ())}
            ended |= {*event.get("free", ())}
        assert ended >= {one[0] for one in told["tensors"]}


def numbers(value: Any) -> list[int]:
    """Of tensors in arguments."""
    if isinstance(value, list):
        return [one for inner in value for one in numbers(inner)]
    return [value["tensor"]] if isinstance(value, dict) else []


def test_parts_of_flat_shards_are_refused() -> None:
    """With `use_orig_params`, which parameters an optimizer has depends on the ranks."""
    programs = [flat(rank, 2) for rank in range(2)]
    for made in programs:
        scatter = next(e for e in made.told["events"] if len(e["args"]) == 6)
        part = made.tensor(2, of=scatter["args"][0]["tensor"])
        made.call("neg", "default", [part], [made.tensor(2)])
    with pytest.raises(
        UsageError, match=r"aten::neg: a tensor of \[2\] at 0 is a part of a rank's"
    ):
        scaled(benchmark(programs), "dp=4")


def test_a_flat_parameter_of_unknown_padding_is_refused() -> None:
    """That it is a multiple of the ranks does not say how much of it is padding."""
    programs = [flat(rank, 2) for rank in range(2)]
    for made in programs:
        events = made.told["events"]
        name = next(n for n, one in enumerate(made.told["schemas"]) if "::slice." in one)
        made.told["events"] = [one for one in events if one["schema"] != name]
        collective(
            made, "_allgather_base_", [made.tensor(6), made.tensor(3), None, False, -1], [None]
        )
    with pytest.raises(UsageError, match="does not tell which parameters"):
        scaled(benchmark(programs), "dp=4")


def gathered_in_place(made: Program) -> None:
    """As DeepSpeed's ZeRO 1 and 2: what is cut out of the buffer next is a parameter."""
    whole = made.tensor(6)
    own = made.tensor(3, of=whole["tensor"])
    collective(made, "_allgather_base_", [whole, own, None, False, -1], [whole, None])
    made.call("slice", "Tensor", [whole, 0, 0, 5, 1], [made.tensor(5, of=whole["tensor"])])


def several_in_one_storage(made: Program) -> None:
    """As DeepSpeed's ZeRO 3."""
    whole, shards = made.tensor(6), made.tensor(6)
    own = made.tensor(3, offset=3, of=shards["tensor"])
    collective(made, "_allgather_base_", [whole, own, None, False, -1], [whole, None])
    made.call("slice", "Tensor", [whole, 0, 0, 5, 1], [made.tensor(5, of=whole["tensor"])])


@pytest.mark.parametrize(
    ("add", "said"),
    [
        (gathered_in_place, "does not tell which parameters"),
        (several_in_one_storage, "a rank's shard lies behind others in one storage"),
    ],
)
def test_other_libraries_shards_are_refused(add: Any, said: str) -> None:
    programs = [flat(rank, 2) for rank in range(2)]
    for made in programs:
        add(made)
    with pytest.raises(UsageError, match=said):
        scaled(benchmark(programs), "dp=4")

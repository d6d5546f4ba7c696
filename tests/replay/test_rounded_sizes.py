"""`phantora replay obfuscate --level 3`: other sizes, which fit as the original ones did."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from phantora_py.replay.buckets import bucket, change_lines
from phantora_py.replay.container import Benchmark, new_head, read_benchmark, write_benchmark
from phantora_py.replay.player import Player
from phantora_py.replay.solver import Solver
from sim_server.errors import UsageError

pytestmark = pytest.mark.torch

SALT = b"a" * 32
HIDDEN, TOKENS, WIDE, HEADS, PADDED = 384, 512, 1600, 12, 103
ERROR = 0.1


class Program:
    """A rank that is written call by call."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {"schemas": [], "tensors": [], "versions": [], "events": []}
        self._versions = itertools.count()

    def tensor(
        self,
        *shape: int,
        strides: list[int] | None = None,
        offset: int = 0,
        of: int | None = None,
        dtype: str = "float",
    ) -> dict[str, int]:
        """`of`: a tensor in whose storage it is."""
        if strides is None:
            strides = [1] * len(shape)
            for place in range(len(shape) - 1, 0, -1):
                strides[place - 1] = strides[place] * shape[place]
        if of is None:
            version = next(self._versions)
            row: dict[str, Any] = {"bytes": 0, "device": "cpu", "dtype": dtype}
            self.told["versions"].append(row)
            if dtype == "long int":
                row["external"] = {"range": [0, WIDE - 1]}
        else:
            version = self.told["tensors"][of][0]
        last = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
        row = self.told["versions"][version]
        width = 4 if dtype == "float" else 8
        row["bytes"] = max(row["bytes"], (offset + last + 1) * width)
        self.told["tensors"].append([version, offset, dtype, list(shape), strides])
        return {"tensor": len(self.told["tensors"]) - 1}

    def call(
        self, name: str, overload: str, args: list[Any], outs: list[Any], space: str = "aten"
    ) -> None:
        """An operator."""
        import torch.distributed  # noqa: PLC0415

        operator = getattr(getattr(getattr(torch.ops, space), name), overload)
        schema = str(operator._schema)
        if schema not in self.told["schemas"]:
            self.told["schemas"].append(schema)
        event = {"do": "op", "thread": 0, "schema": self.told["schemas"].index(schema)}
        self.told["events"].append(event | {"args": args, "outs": outs})

    @property
    def benchmark(self) -> Benchmark:
        """Of this rank alone."""
        return Benchmark(new_head(1, {"0": [0]}), [self.told])


def program() -> Program:
    """Looks tokens up, multiplies, takes heads apart, pads something, fills a flat buffer."""
    made = Program()
    table, indices = made.tensor(WIDE, HIDDEN), made.tensor(2, TOKENS, dtype="long int")
    rows = made.tensor(2, TOKENS, HIDDEN)
    made.call("embedding", "default", [table, indices, -1, False, False], [rows])
    flat = made.tensor(2 * TOKENS, HIDDEN, of=rows["tensor"])
    made.call("view", "default", [rows, [2 * TOKENS, HIDDEN]], [flat])
    weight, all_three = made.tensor(HIDDEN, 3 * HIDDEN), made.tensor(2 * TOKENS, 3 * HIDDEN)
    made.call("mm", "default", [flat, weight], [all_three])
    query = made.tensor(
        2 * TOKENS, HIDDEN, strides=[3 * HIDDEN, 1], offset=HIDDEN, of=all_three["tensor"]
    )
    made.call("slice", "Tensor", [all_three, 1, HIDDEN, 2 * HIDDEN, 1], [query])
    heads = made.tensor(
        *(2 * TOKENS, HEADS, HIDDEN // HEADS),
        strides=[3 * HIDDEN, HIDDEN // HEADS, 1],
        offset=HIDDEN,
        of=all_three["tensor"],
    )
    made.call("view", "default", [query, [2 * TOKENS, HEADS, HIDDEN // HEADS]], [heads])
    short, long = made.tensor(PADDED - 3, 2), made.tensor(PADDED, 2)
    made.call("constant_pad_nd", "default", [short, [0, 0, 0, 3], 1 / HIDDEN], [long])
    buffer = made.tensor(WIDE * HIDDEN + HIDDEN)
    bias = made.tensor(HIDDEN, offset=WIDE * HIDDEN, of=buffer["tensor"])
    grad = made.tensor(WIDE, HIDDEN, of=buffer["tensor"])
    made.call("copy_", "default", [grad, table, False], [grad])
    made.call("fill_", "Scalar", [bias, 0.999], [bias])
    made.call("add_", "Tensor", [buffer, buffer, 2 * TOKENS], [buffer])
    return made


def numbers(value: Any) -> Iterator[float]:
    """All of them."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from numbers(one)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


def told_numbers(told: dict[str, Any]) -> set[float]:
    """All that a file tells of sizes, without the numbers of tensors and storages."""
    args = [event["args"] for event in told["events"]]
    rows = [row[1:] for row in told["tensors"]]
    return {*numbers([rows, told["versions"], json.loads(json.dumps(args))])}


def shapes(told: dict[str, Any]) -> list[list[int]]:
    """Of its tensors."""
    return [row[3] for row in told["tensors"]]


def test_sizes_agree_after_as_before() -> None:
    before = program().benchmark
    after, change = bucket(before, ERROR, SALT)
    known: dict[int, int] = {}
    for old, new in zip(shapes(before.ranks[0]), shapes(after.ranks[0]), strict=True):
        for first, second in zip(old, new, strict=True):
            assert known.setdefault(first, second) == second, "a size is mapped by its value"
    assert known[HIDDEN] == known[HEADS] * known[HIDDEN // HEADS]
    assert known[2 * TOKENS] == 2 * known[TOKENS]
    flat = WIDE * HIDDEN + HIDDEN
    assert known[flat] == known[WIDE] * known[HIDDEN] + known[HIDDEN]
    single = {one: known[one] for one in (HIDDEN, TOKENS, WIDE, HEADS)}
    assert all(abs(new - old) <= ERROR * old for old, new in single.items())
    assert change.largest["sizes"] <= ERROR
    assert known[HIDDEN] % 8 == 0, "rows stay aligned"
    rows = after.ranks[0]["tensors"]
    offset = next(row[1] for row in rows if row[3] == [known[HIDDEN]])
    assert offset == known[WIDE] * known[HIDDEN], "parts of a buffer lie behind each other"
    heads = next(row for row in rows if len(row[3]) == 3 and row[3][1] == known[HEADS])
    part = known[HIDDEN // HEADS]
    assert heads[4] == [known[3 * HIDDEN], part, 1]
    assert heads[1] == known[HIDDEN], "a view begins where its operator has it"


@pytest.mark.parametrize("salt", [SALT, b"b" * 32, b"c" * 32])
def test_what_was_changed_is_not_seen_again(salt: bytes) -> None:
    before = program().benchmark
    after, change = bucket(before, ERROR, salt)
    sizes = {one for shape in shapes(before.ranks[0]) for one in shape}
    kept = {one for shape in shapes(after.ranks[0]) for one in shape} & sizes
    assert {one for one in kept if one >= 1 / ERROR} <= {*change.kept, HIDDEN // HEADS}
    gone = {*(HIDDEN, TOKENS, WIDE, 2 * TOKENS, 3 * HIDDEN), WIDE - 1, 1 / HIDDEN, 0.999}
    assert gone <= told_numbers(before.ranks[0])
    assert not gone & told_numbers(after.ranks[0])


@pytest.mark.parametrize("size", [384, 103, 1 << 40])
def test_sizes_that_are_tried_are_near_and_aligned_first(size: int) -> None:
    """Few of them, though a large buffer has more than one could look at."""
    solver = Solver([], [], ERROR, SALT)
    tried = [*solver._candidates(size)]
    assert 16 <= len(tried) == len({*tried}) <= 7 * 16
    assert all(0 < abs(one - size) <= ERROR * size for one in tried)
    steps = [min(one & -one, size & -size, 64) for one in tried]
    assert steps == sorted(steps, reverse=True)
    assert tried != [*Solver([], [], ERROR, b"b" * 32)._candidates(size)]


def test_operators_that_would_not_fit_keep_their_sizes() -> None:
    after, change = bucket(program().benchmark, ERROR, SALT)
    assert [PADDED, 2] in shapes(after.ranks[0])
    assert {PADDED, PADDED - 3} <= {*change.kept}
    assert f"{PADDED - 3}, {PADDED}" in change_lines(change)[1]


def test_all_ranks_have_the_same_sizes_and_a_salt_the_same_bytes(tmp_path: Path) -> None:
    ranks = [program().told, program().told]
    before = Benchmark(new_head(2, {"0": [0, 1]}), ranks)
    files = [tmp_path / name for name in ("a.bench", "b.bench", "c.bench")]
    for path, salt in zip(files, (SALT, SALT, b"b" * 32), strict=True):
        after, _ = bucket(before, ERROR, salt)
        assert after.ranks[0] == after.ranks[1]
        write_benchmark(after, path)
    one, same, other = (path.read_bytes() for path in files)
    assert one == same
    assert one != other


def test_it_runs() -> None:
    player = Player(bucket(program().benchmark, ERROR, SALT)[0], 0, "cpu")
    player.run()
    assert not player.substituted


def test_a_generator_is_the_device_s_own() -> None:
    """A trace has a text for one, with which no operator can be called."""
    made = Program()
    drawn = made.tensor(2, TOKENS, dtype="long int")
    args = [9, [2, TOKENS], "Generator(device='cpu')", 4, None, None, None]
    made.call("randint", "generator", args, [drawn])
    player = Player(made.benchmark, 0, "cpu")
    player.run()
    assert not player.substituted


def test_lengths_of_splits_are_sizes() -> None:
    made = Program()
    whole = made.tensor(1280, 2)
    halves = [made.tensor(640, 2, offset=begin, of=0) for begin in (0, 1280)]
    made.call("split", "Tensor", [whole, 640, 0], [halves])
    after, _ = bucket(made.benchmark, ERROR, SALT)
    (size, _), (half, _), _ = shapes(after.ranks[0])
    assert half not in (640, 1280)
    assert size == 2 * half
    assert after.ranks[0]["events"][0]["args"][1] == half
    assert after.ranks[0]["tensors"][2][1] == size


def test_what_cannot_be_bucketed_is_refused() -> None:
    made = Program()
    first, second, third = (made.tensor(4, 4) for _ in range(3))
    made.call("mm", "default", [first, second], [third])
    with pytest.raises(UsageError, match=r"no size can be changed by at most 0\.1"):
        bucket(made.benchmark, ERROR, SALT)
    with pytest.raises(UsageError, match="--error is 1, and is to be between 0 and 1"):
        bucket(made.benchmark, 1.0, SALT)


def test_the_command_says_what_it_changed(tmp_path: Path) -> None:
    before, after = tmp_path / "a.bench", tmp_path / "b.bench"
    write_benchmark(program().benchmark, before)
    command = ["phantora_py", "replay", "obfuscate", str(before), "-o", str(after)]

    def done(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-P", "-m", *command, *words],
            capture_output=True,
            text=True,
            check=False,
        )

    told = done("--level", "3", "--error", "0.2")
    assert told.returncode == 0, told.stderr
    assert "level 3: 0 operators became proxies" in told.stdout
    assert "sizes changed" in told.stdout
    assert "a step's time: by " in told.stdout
    assert HIDDEN not in {*itertools.chain(*shapes(read_benchmark(after).ranks[0]))}
    refused = done("--error", "0.2")
    assert refused.returncode == 2
    assert "--error is for --level 3" in refused.stderr


def test_parts_of_collectives_fit() -> None:
    """Gathered parts are as many times a part; exchanges have sums of their splits, or keep what
    they divide."""
    made = Program()
    part, whole = made.tensor(640), made.tensor(2 * 640)
    group: list[Any] = [None, False, -1]
    made.call("_allgather_base_", "default", [whole, part, *group], [whole, None], "c10d")
    sent, got = made.tensor(1300, 24), made.tensor(1100, 24)
    splits = [[300, 800], [200, 1100]]
    exchange = ("alltoall_base_", "default")
    made.call(*exchange, [got, sent, None, *splits, False, -1], [None], "c10d")
    sides = made.tensor(1500, 2), made.tensor(1500, 2)
    made.call(*exchange, [*sides, None, [], [], False, -1], [None], "c10d")
    after, change = bucket(made.benchmark, ERROR, SALT)
    sizes = shapes(after.ranks[0])
    assert sizes[1] == [2 * sizes[0][0]]
    assert sizes[0] != [640]
    args = after.ranks[0]["events"][1]["args"]
    assert (sum(args[4]), sum(args[3])) == (sizes[2][0], sizes[3][0])
    assert args[4] != splits[1]
    assert sizes[4] == sizes[5] == [1500, 2]
    assert 1500 in change.kept

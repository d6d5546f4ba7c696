"""A benchmark for another number of data-parallel ranks, as if the program had been traced there.

What ranks reduce keeps its size. What they divide among each other follows, with its padding. What
cannot be derived is refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from phantora_py.replay.calls import call_of, flat, kinds, on_meta, tensors_in
from phantora_py.replay.container import Benchmark, tensor_numbers
from phantora_py.replay.mesh import Groups, Growth
from phantora_py.replay.operators import COMMUNICATION
from phantora_py.replay.player import DTYPES
from phantora_py.replay.shards import (
    CHUNKS,
    COPY_IN,
    COPY_OUT,
    GATHER,
    SCATTER,
    Layout,
    Part,
    Shards,
    columns,
    keeps_shapes,
    name_of,
    with_own_storages,
)
from sim_server.errors import UsageError

_GATHER_EACH, _BROADCAST = "c10d::allgather_", "c10d::broadcast_"
_KEPT = (
    *("c10d::allreduce_", "c10d::allreduce_coalesced_", "c10d::barrier"),
    *("c10d::monitored_barrier_", "_c10d_functional::all_reduce", "_c10d_functional::all_reduce_"),
    *("_c10d_functional::all_reduce_coalesced", "_c10d_functional::wait_tensor"),
)
"""Whose tensors are the same on any number of ranks."""
# These fill buffers: shards have their padding here, and nowhere else.
_PADDED = ("aten::split_with_sizes", "fsdp::", "c10d::", "_c10d_functional::")
# So do these, where they are about a buffer.
_OF_BUFFERS = ("aten::empty", "aten::view", "aten::_foreach_copy_")

_WITHOUT_PADDING = "aten::as_strided"
"""Takes a parameter or a shard out of a padded buffer."""


@dataclass(frozen=True)
class Scaled:
    """What was done."""

    ranks: tuple[int, int]
    """Before and after."""
    collectives: int
    """Of rank 0, those of groups that changed their size."""
    shards: int
    """Of rank 0, storages that changed their size."""


def scale(benchmark: Benchmark, growth: Growth) -> tuple[Benchmark, Scaled]:
    """`benchmark` has all its ranks. Raises: UsageError for what cannot be derived."""
    if growth.old.ranks != benchmark.head["ranks"]:
        raise UsageError(
            f"--mesh {growth.old.text()} has {growth.old.ranks} ranks, and the benchmark has "
            f"{benchmark.head['ranks']}."
        )
    groups = Groups(growth, benchmark.head["groups"])
    growing = {name: len(groups.old[name]) for name in groups.old if groups.grows(name)}
    known: dict[int, _Rank] = {}
    ranks = []
    for rank in range(growth.new.ranks):
        base = growth.base(rank)
        if base not in known:
            known[base] = _Rank(benchmark.ranks[base], base, groups, growing)
        ranks.append(known[base].told(rank))
    head = benchmark.head | {"ranks": growth.new.ranks, "groups": groups.new}
    pairs = zip(benchmark.ranks[0]["versions"], ranks[0]["versions"], strict=False)
    done = Scaled(
        (growth.old.ranks, growth.new.ranks),
        sum(
            name_of(benchmark.ranks[0], event).startswith(COMMUNICATION)
            for event in benchmark.ranks[0]["events"]
            if event["do"] == "op" and event.get("group") in growing
        ),
        sum(old["bytes"] != new["bytes"] for old, new in pairs),
    )
    return Benchmark(head, ranks), done


class _Rank:
    """An old rank, and what new ranks make of it."""

    def __init__(
        self, told: dict[str, Any], rank: int, groups: Groups, growing: dict[str, int]
    ) -> None:
        self.rank = rank
        self.groups = groups
        self.growing = growing
        self.versions = told["versions"]
        self.plain, self.origins = with_own_storages(told)
        self.shards = Shards(self.plain, growing, rank)
        self.checked: set[tuple[Any, ...]] = set()

    def told(self, rank: int) -> dict[str, Any]:
        """All of a new rank, as the container has it."""
        return _Scaling(self, rank).told()


class _Scaling:
    """Rewrites a rank for one new rank."""

    def __init__(self, base: _Rank, rank: int) -> None:
        self._base = base
        self._rank = rank
        self._told = base.plain
        self._versions = [dict(row) for row in base.versions]
        self._ends = [0] * len(base.versions)
        self._rows: list[tuple[Any, ...]] = []
        self._numbers: dict[tuple[Any, ...], int] = {}
        """Of new tensors, by what they are."""

    def told(self) -> dict[str, Any]:
        events = []
        for number, event in enumerate(self._told["events"]):
            try:
                events.append(self._event(event))
            except _UnknownError as error:
                raise UsageError(
                    f"event {number} of rank {self._base.rank}, {name_of(self._told, event)}: "
                    f"{error}. It cannot be derived for another number of ranks."
                ) from error
        for row, size_bytes in zip(self._versions, self._ends, strict=True):
            row["bytes"] = size_bytes
        rows = [[one[0], one[1], one[2], list(one[3]), list(one[4])] for one in self._rows]
        return {
            **{"schemas": self._told["schemas"], "tensors": rows},
            **{"versions": self._versions, "events": events},
        }

    # Sizes of groups and chunks

    def _group(self, name: str) -> tuple[list[int], int]:
        """The new ranks of an old group, and the place of this rank among them."""
        members = self._base.groups.new[self._base.groups.name(self._rank, name)]
        return members, members.index(self._rank)

    def _chunk(self, part: Part, is_new: bool) -> tuple[int, int]:
        """Of a chunk with and without its padding."""
        members, place = self._group(part.group)
        if not is_new:
            members = self._base.groups.old[part.group]
            place = members.index(self._base.rank)
        count = part.found().shape[0]  # type: ignore[index]
        padded = -(-count // len(members))
        return padded, min(max(count - place * padded, 0), padded)

    def _width(self, part: Part) -> int:
        return math.prod(part.found().shape[1:])  # type: ignore[index]

    def _elements(self, layout: Layout) -> list[int]:
        """Of new chunks, with padding."""
        return [self._chunk(part, True)[0] * self._width(part) for part in layout.parts]

    # Tensors

    def _tensor(self, number: int, is_padded: bool) -> int:
        row = self._told["tensors"][number]
        layout = self._base.shards.layouts.get(row[0])
        part = self._base.shards.gathered.get(row[0])
        if part is not None:
            shape, strides, offset = self._parameter(row, part, is_padded)
        elif layout is not None:
            shape, offset = self._located(row, layout, is_padded)
            strides = _dense(shape)
            if _strides(row) != _strides([*row[:3], row[3], _dense(row[3])]):
                raise _UnknownError(f"a shard of {row[3]} is laid out with strides {row[4]}")
        else:
            shape, strides, offset = row[3], row[4], row[1]
        version = self._base.origins[row[0]]
        made = (version, offset, row[2], tuple(shape), tuple(strides))
        self._ends[version] = max(self._ends[version], _end_bytes(made))
        return self._number(made)

    def _number(self, row: tuple[Any, ...]) -> int:
        if row not in self._numbers:
            self._numbers[row] = len(self._rows)
            self._rows.append(row)
        return self._numbers[row]

    def _parameter(
        self, row: list[Any], part: Part, is_padded: bool
    ) -> tuple[list[int], list[int], int]:
        """A gathered one has its size, and its memory has padding."""
        size, new_size = part.size, len(self._group(part.group)[0])
        elements = self._elements(Layout([part]))[0]
        if row[1] == 0 and row[3] == [size, part.elements]:
            return [new_size, elements], [elements, 1], 0
        if is_padded and row[1] == 0 and row[3] == [size * part.elements]:
            return [new_size * elements], [1], 0
        return row[3], row[4], row[1]

    def _located(self, row: list[Any], layout: Layout, is_padded: bool) -> tuple[list[int], int]:
        """Sizes and offset of a tensor that is all of a storage of shards, or a part."""
        shape, offset = row[3], row[1]
        sizes = self._elements(layout)
        found = None
        if layout.copies > 1:
            found = self._in_whole(shape, offset, layout)
        elif len(layout.parts) > 1 and offset == 0 and shape == [layout.elements]:
            found = [sum(sizes)], 0
        elif offset in (begins := layout.begins()):
            place = begins.index(offset)
            of_part = self._of_part(shape, layout.parts[place], is_padded)
            found = None if of_part is None else (of_part, sum(sizes[:place]))
        if found is None:
            raise _UnknownError(f"a tensor of {shape} at {offset:,} is no shard of its storage")
        return found

    def _in_whole(
        self, shape: list[int], offset: int, layout: Layout
    ) -> tuple[list[int], int] | None:
        """Sizes and offset of a tensor of what all ranks have; None: it is no known part."""
        group, elements = layout.parts[0].group, sum(self._elements(layout))
        members, place = self._group(group)
        before = self._base.groups.old[group].index(self._base.rank) * layout.elements
        if offset == 0 and shape == [layout.copies * layout.elements]:
            return [len(members) * elements], 0
        if offset == 0 and shape == [layout.copies, layout.elements]:
            return [len(members), elements], 0
        if offset == before and shape == [layout.elements]:
            return [elements], place * elements
        return None

    def _of_part(self, shape: list[int], part: Part, is_padded: bool) -> list[int] | None:
        """Sizes of a tensor of one shard; None: it has others."""
        if shape == [] and part.elements == 1:
            return []
        rows, width = self._chunk(part, True)[not is_padded], self._width(part)
        for before in self._chunk(part, False):
            if shape == [before, *part.found().shape[1:]]:  # type: ignore[index]
                return [rows, *shape[1:]]
            if shape == [before * width]:
                return [rows * width]
        return None

    # Events

    def _event(self, event: dict[str, Any]) -> dict[str, Any]:
        made = dict(event)
        group = event.get("group")
        if group is not None:
            made["group"] = self._base.groups.name(self._rank, group)
        if event["do"] not in ("op", "proxy"):
            return made
        name = name_of(self._told, event)
        is_padded = self._pads(name, event)
        made["args"] = self._mapped(event["args"], is_padded or name == _WITHOUT_PADDING)
        made["outs"] = self._mapped(event["outs"], is_padded)
        if event["do"] == "op" and name.startswith(COMMUNICATION):
            self._collective(name, event, made)
        elif self._shapes(made) != self._old_shapes(event):
            if event["do"] == "proxy":
                raise _UnknownError("it became a proxy, and works on shards")
            self._arguments(name, event, made)
            self._check(name, event, made)
        elif name == COPY_IN:
            self._arguments(name, event, made)
        return made

    def _pads(self, name: str, event: dict[str, Any]) -> bool:
        layouts, gathered = self._base.shards.layouts, self._base.shards.gathered
        rows = [self._told["tensors"][one] for one in _numbers(event)]
        if name in _OF_BUFFERS:
            return any(
                row[0] in gathered or (row[0] in layouts and layouts[row[0]].is_buffer)
                for row in rows
            )
        return name.startswith(_PADDED)

    def _mapped(self, value: Any, is_padded: bool) -> Any:
        if isinstance(value, list):
            return [self._mapped(one, is_padded) for one in value]
        if isinstance(value, dict):
            return {"tensor": self._tensor(value["tensor"], is_padded)}
        return value

    def _shapes(self, made: dict[str, Any]) -> list[tuple[Any, ...]]:
        return [tuple(map(_plain, self._rows[one][1:])) for one in _numbers(made)]

    def _old_shapes(self, event: dict[str, Any]) -> list[tuple[Any, ...]]:
        rows = [self._told["tensors"][one] for one in _numbers(event)]
        return [tuple(map(_plain, row[1:])) for row in rows]

    def _arguments(self, name: str, event: dict[str, Any], made: dict[str, Any]) -> None:
        """Sizes among arguments are those of the tensors."""
        args, layouts = made["args"], self._base.shards.layouts
        if name in (COPY_IN, COPY_OUT):
            buffer = event["args"][1 if name == COPY_IN else 0]["tensor"]
            layout = layouts.get(self._told["tensors"][buffer][0])
            if layout is not None:
                sizes = self._elements(layout)
                if name == COPY_IN:
                    place = self._group(layout.parts[0].group)[1]
                    args[2:] = [sizes, sum(sizes), place]
                else:
                    args[1] = sizes
        elif name in CHUNKS:
            args[2] = self._rows[args[3]["tensor"]][3][0]
        elif name == "aten::split_with_sizes":
            dimension = args[2] if len(args) > 2 else 0
            args[1] = [self._rows[one][3][dimension] for one in tensor_numbers(made["outs"])]
        elif len(outs := tensor_numbers(made["outs"])) == 1:
            schema = self._told["schemas"][event["schema"]]
            made["args"] = _laid_out(schema, args, self._rows[outs[0]])

    def _check(self, name: str, event: dict[str, Any], made: dict[str, Any]) -> None:
        """That the operator gives what is expected for what it gets now."""
        if name.startswith("fsdp::"):
            return
        if keeps_shapes(self._told["schemas"][event["schema"]]):
            for old, new in zip(columns(event), columns(made), strict=True):
                sizes: dict[tuple[int, ...], Any] = {}
                for one, other in zip(old, new, strict=True):
                    before = tuple(self._told["tensors"][one][3])
                    if sizes.setdefault(before, self._rows[other][3]) != self._rows[other][3]:
                        raise _UnknownError(
                            f"tensors of {list(before)} become {list(sizes[before])} and "
                            f"{list(self._rows[other][3])}, and it takes them together"
                        )
            return
        call = call_of({"schemas": self._told["schemas"], "tensors": self._rows}, made)
        if name == _WITHOUT_PADDING or call in self._base.checked:
            return
        try:
            result = on_meta(call.schema, call.args)[0]
        except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError) as error:
            raise _UnknownError(
                f"it does not take the new sizes ({str(error).splitlines()[0]})"
            ) from error
        expected = [one.shape for one in tensors_in(call.outs)]
        found = [tuple(one.shape) for one in flat(result)][: len(expected)]
        if found != expected:
            changed = next(
                (one, two) for one, two in zip(found, expected, strict=False) if one != two
            )
            raise _UnknownError(
                f"it works on shards, and would give {list(changed[0])} where nothing says that "
                f"{list(changed[1])} becomes another size"
            )
        self._base.checked.add(call)

    # Collectives

    def _collective(self, name: str, event: dict[str, Any], made: dict[str, Any]) -> None:
        group = event.get("group")
        if group is None:
            return
        made["args"] = [made["group"] if one == group else one for one in made["args"]]
        if group not in self._base.growing:
            return
        members, _ = self._group(group)
        before = self._base.growing[group]
        where = f"process group {group} goes from {before} to {len(members)} ranks"
        if name == _GATHER_EACH:
            self._gather_each(event, made, len(members), where)
        elif name == _BROADCAST:
            if made["args"][2]:
                raise _UnknownError(
                    f"{where}, and rank {made['args'][2]} of it sends: who would send is not told"
                )
        elif name not in (*_KEPT, GATHER, SCATTER):
            raise _UnknownError(f"{where}, and how its sizes would follow is not known")

    def _gather_each(
        self, event: dict[str, Any], made: dict[str, Any], size: int, where: str
    ) -> None:
        """A number of each rank, in a tensor of its own."""
        if len(made["args"][0]) != 1:
            raise _UnknownError(f"{where}, and it gathers {len(made['args'][0])} lists at once")
        for outputs in (made["args"][0], made["outs"][0]):
            for parts in outputs:
                row = self._rows[parts[-1]["tensor"]]
                if math.prod(row[3]) > 1:
                    raise _UnknownError(
                        f"{where}, and whether the parts of {list(row[3])} are shards is not told"
                    )
                del parts[size:]
        [inner] = made["args"][0]
        version = self._rows[inner[-1]["tensor"]]
        for _ in range(size - len(inner)):
            self._versions.append(dict(self._versions[version[0]]))
            self._ends.append(self._ends[version[0]])
            key = (len(self._versions) - 1, *version[1:])
            inner.append({"tensor": self._number(key)})
            made["free"] = [*made.get("free", ()), key[0]]
        if made["outs"][0]:
            made["outs"][0] = [list(inner)]


class _UnknownError(Exception):
    """What cannot be derived; the message is a clause."""


def _numbers(event: dict[str, Any]) -> list[int]:
    return tensor_numbers([event["args"], event["outs"]])


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _dense(shape: list[int]) -> list[int]:
    """Strides of a tensor whose rows lie behind each other."""
    made, stride = [], 1
    for size in reversed(shape):
        made.append(stride)
        stride *= max(size, 1)
    return made[::-1]


def _strides(row: list[Any]) -> list[tuple[int, int]]:
    return [(size, stride) for size, stride in zip(row[3], row[4], strict=True) if size > 1]


def _end_bytes(row: tuple[Any, ...]) -> int:
    """Of the last element of a tensor, in its storage."""
    import torch  # noqa: PLC0415

    _, offset, dtype, shape, strides = row
    if 0 in shape:
        return 0
    pairs = zip(shape, strides, strict=True)
    last = sum((size - 1) * stride for size, stride in pairs)
    return int((offset + last + 1) * getattr(torch, DTYPES[dtype]).itemsize)


def _laid_out(schema: str, args: list[Any], row: tuple[Any, ...]) -> list[Any]:
    """Arguments with the sizes, strides and offset of what is made."""
    _, offset, _, shape, strides = row
    made = []
    for (_, kind), value in zip(kinds(schema), args, strict=False):
        if kind == "size" and isinstance(value, list) and len(value) == len(shape):
            pairs = zip(value, shape, strict=True)
            made.append([one if one == -1 else size for one, size in pairs])
        elif kind in ("stride", "offset") and value is not None:
            made.append(list(strides) if kind == "stride" else offset)
        else:
            made.append(value)
    return made

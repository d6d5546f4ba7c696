"""What becomes of the tensors of an old rank on a new one."""

from __future__ import annotations

import math
from typing import Any

from phantora_py.replay.flat import with_all_steps
from phantora_py.replay.mesh import Groups
from phantora_py.replay.rows import dense, end_bytes, strides_that_count
from phantora_py.replay.shards import Layout, Part, Shards, with_own_storages


class UnknownError(Exception):
    """What cannot be derived; the message is a clause."""


class BaseRank:
    """An old rank, and what new ranks make of it."""

    def __init__(
        self, told: dict[str, Any], rank: int, groups: Groups, growing: dict[str, int]
    ) -> None:
        self.rank = rank
        self.groups = groups
        self.growing = growing
        own, origins = with_own_storages(told)
        self.plain, self.origins, new = with_all_steps(own, origins, {*growing.values()})
        self.versions = [*told["versions"], *new]
        self.shards = Shards(self.plain, growing, rank)
        self.checked: set[tuple[Any, ...]] = set()


class ScaledTensors:
    """Of an old rank, for one new rank."""

    def __init__(self, base: BaseRank, rank: int) -> None:
        self._base = base
        self._rank = rank
        self._told = base.plain
        self._versions = [dict(row) for row in base.versions]
        self._ends = [0] * len(base.versions)
        self._rows: list[tuple[Any, ...]] = []
        self._numbers: dict[tuple[Any, ...], int] = {}
        """Of new tensors, by what they are."""
        self._aliases: dict[int, int] = {}
        """Storages that are others here, as nothing is padded."""
        self._shared: dict[int, list[int]] = {}
        """Of such storages of the file, which one is there, and for how many of them it is."""
        self._late: list[int] = []
        """Storages that end with an event that is left out."""

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
        elif layout is not None and layout.parts[0].is_flat:
            shape, strides, offset = self._flat(row, layout, is_padded)
        elif layout is not None:
            shape, offset = self._located(row, layout, is_padded)
            strides = dense(shape)
            if strides_that_count(row) != strides_that_count([*row[:3], row[3], dense(row[3])]):
                raise UnknownError(f"a shard of {row[3]} is laid out with strides {row[4]}")
        else:
            shape, strides, offset = row[3], row[4], row[1]
        version = self._stored(row[0])
        return self._made((version, offset, row[2], tuple(shape), tuple(strides)))

    def _made(self, row: tuple[Any, ...]) -> int:
        self._ends[row[0]] = max(self._ends[row[0]], end_bytes(row))
        return self._number(row)

    def _stored(self, version: int) -> int:
        """The number of a storage in the file."""
        return self._base.origins[self._aliases.get(version, version)]

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

    def _flat(
        self, row: list[Any], layout: Layout, is_padded: bool
    ) -> tuple[list[int], list[int], int]:
        """A flat shard, or all shards: of what was gathered, all but the padding is as it was."""
        [part] = layout.parts
        padded, _ = self._chunk(part, True)
        count = part.found().shape[0]  # type: ignore[index]
        whole = layout.copies * part.elements
        if row[1] == 0 and row[3] == [whole]:
            is_padded |= layout.is_buffer or whole > count or layout.copies == 1
            if is_padded:
                copies = 1 if layout.copies == 1 else len(self._group(part.group)[0])
                return [padded * copies], [1], 0
        last = sum((size - 1) * stride for size, stride in zip(row[3], row[4], strict=True))
        if layout.copies > 1 and row[1] + last < count:
            return row[3], row[4], row[1]
        raise UnknownError(
            f"a tensor of {row[3]} at {row[1]:,} is a part of a rank's flat shard, and which "
            "parameters a shard has changes with the ranks (as with FSDP1's use_orig_params=True)"
        )

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
            raise UnknownError(f"a tensor of {shape} at {offset:,} is no shard of its storage")
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

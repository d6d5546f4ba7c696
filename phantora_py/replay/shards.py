"""Which storages of a rank are parts of what data-parallel ranks divide among each other.

This follows the data, never sizes by their values. It begins at collectives of groups that change
their size, where FSDP2's operators say how a buffer is made of parameters, and goes on through
operators that make tensors of the same shape, in both directions.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from phantora_py.replay.container import tensor_numbers
from phantora_py.replay.flat import PADDED
from phantora_py.replay.operators import resolved
from phantora_py.replay.player import DTYPES
from sim_server.errors import UsageError

GATHER, SCATTER = "c10d::_allgather_base_", "c10d::_reduce_scatter_base_"
COPY_IN, COPY_OUT = "fsdp::all_gather_copy_in", "fsdp::split_with_sizes_copy"
SLICE = "aten::slice"
CHUNKS = ("fsdp::chunk_cat", "fsdp::chunk_cat_mixed_dtype")
_ALIKE = ("aten::_foreach_", "aten::_fused_", "aten::copy_", "aten::_to_copy", "aten::clone")
_MADE_ALIKE = ("aten::zeros_like", "aten::empty_like", "aten::ones_like", "aten::full_like")
_NOT_ALIKE = ("aten::_foreach_norm", "aten::_foreach_max")


@dataclass
class Part:
    """What one parameter adds to a buffer of shards: one of `size` equal chunks of its rows."""

    elements: int
    """Of a chunk, with padding."""
    size: int
    """Of the group that divides it."""
    group: str
    shape: tuple[int, ...] | None = None
    """Of the whole parameter, without padding."""
    is_flat: bool = False
    """Whether it is many parameters behind each other, and padded everywhere, as FSDP1's."""
    same: Part | None = None
    """What it was found to be the same as."""

    def found(self) -> Part:
        """The one that stands for all that are the same."""
        part = self
        while part.same is not None:
            part = part.same
        if part is not self:
            self.same = part  # the next search is short
        return part

    def kind(self) -> tuple[int, int, str, bool]:
        """Parts of different kinds are not the same."""
        return self.elements, self.size, self.group, self.is_flat

    def know(self, shape: tuple[int, ...]) -> None:
        """Raises: ValueError if that is not what is known already."""
        part = self.found()
        row = math.prod(shape[1:])
        if part.shape not in (None, shape):
            raise ValueError(f"a parameter has the shape {part.shape}, and {shape} elsewhere")
        if not shape or -(-shape[0] // part.size) * row != part.elements:
            raise ValueError(
                f"a parameter of {list(shape)} gives each of {part.size} ranks {part.elements:,} "
                "elements, which are no equal chunks of its rows"
            )
        part.shape = shape


@dataclass
class Layout:
    """What a storage holds: chunks of `parts`, one after the other, `copies` times."""

    parts: list[Part]
    copies: int = 1
    is_buffer: bool = False
    """Whether it is padded, for a collective."""

    @property
    def elements(self) -> int:
        """Of one copy."""
        return sum(part.elements for part in self.parts)

    def begins(self) -> list[int]:
        """Of each part."""
        return list(itertools.accumulate((one.elements for one in self.parts[:-1]), initial=0))


def name_of(told: dict[str, Any], event: dict[str, Any]) -> str:
    """An operator without its overload; of other events, what they do."""
    if event["do"] != "op":
        return str(event.get("name", event["do"]))
    return str(told["schemas"][event["schema"]]).partition("(")[0].partition(".")[0]


def place_of(told: dict[str, Any], number: int) -> str:
    """As the file numbers its events."""
    numbers = told.get("numbers")
    return f"event {number if numbers is None else numbers[number]}"


@functools.cache
def keeps_shapes(schema: str) -> bool:
    """Whether tensors of one shape, at one place of its lists, mean the same elements."""
    name = schema.partition("(")[0].partition(".")[0]
    if name.startswith(_NOT_ALIKE):
        return False
    if name.startswith((*_ALIKE, *_MADE_ALIKE)):
        return True
    import torch  # noqa: PLC0415

    operator = resolved(schema)
    return bool(operator is not None and torch.Tag.pointwise in operator.tags)


def columns(event: dict[str, Any]) -> Iterator[list[int]]:
    """Tensors that are at one place of lists of equal length; and those that are in no list."""
    values = [*event["args"], *event["outs"]]
    yield [one["tensor"] for one in values if isinstance(one, dict)]
    lists = [tensor_numbers(one) for one in values if isinstance(one, list)]
    for _, alike in itertools.groupby(sorted(lists, key=len), key=len):
        yield from (list(column) for column in zip(*alike, strict=True))


def with_own_storages(told: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """A rank whose gathered parameters have storages of their own, and of each storage the number
    that it had.

    A trace knows storages by address. FSDP2 takes memory for parameters without an operator, so
    that they seem to lie in what was at the address before.
    """
    begins = {*_gathered_anew(told), *_gathered_flat(told)}
    now = list(range(len(told["versions"])))
    origins = list(now)
    tensors: dict[tuple[int, int], int] = {}
    rows: list[list[Any]] = []

    def renumbered(value: Any) -> Any:
        if isinstance(value, list):
            return [renumbered(one) for one in value]
        if not isinstance(value, dict):
            return value
        row = told["tensors"][value["tensor"]]
        key = (value["tensor"], now[row[0]])
        if key not in tensors:
            tensors[key] = len(rows)
            rows.append([now[row[0]], *row[1:3], list(row[3]), list(row[4])])
        return {"tensor": tensors[key]}

    events = []
    for number, event in enumerate(told["events"]):
        if number in begins:
            made_there = event["args"][:1] if name_of(told, event) == GATHER else event["outs"]
            version = told["tensors"][tensor_numbers(made_there)[0]][0]
            now[version] = len(origins)
            origins.append(version)
        made = {name: renumbered(event[name]) for name in ("args", "outs") if name in event}
        events.append(event | made)
    versions = [told["versions"][one] for one in origins]
    return told | {"tensors": rows, "events": events, "versions": versions}, origins


def _gathered_anew(told: dict[str, Any]) -> Iterator[int]:
    """Where a view of a gathered parameter is the first that is known of its memory."""
    touched: dict[int, list[int]] = {}
    for number, event in enumerate(told["events"]):
        if name_of(told, event) == COPY_OUT:
            for tensor in tensor_numbers(event["args"][3]):
                *before, view = touched.get(told["tensors"][tensor][0], [0])
                made = name_of(told, told["events"][before[-1]]) if before else "aten::empty"
                if made != "aten::empty":
                    yield view
        for one in tensor_numbers([event.get("args", []), event.get("outs", [])]):
            places = touched.setdefault(told["tensors"][one][0], [])
            if places[-1:] != [number]:
                places.append(number)


def _gathered_flat(told: dict[str, Any]) -> Iterator[int]:
    """FSDP1's collectives, and what copies shards of another type for them: it takes memory for
    both without an operator."""
    touched: dict[int, int] = {}
    for number, event in enumerate(told["events"]):
        named = tensor_numbers([event.get("args", []), event.get("outs", [])])
        if name_of(told, event) == GATHER:
            whole, chunk = tensor_numbers(event["args"][:2])
            if told["tensors"][whole][0] != told["tensors"][chunk][0]:
                yield number
                before = touched.get(told["tensors"][chunk][0])
                if before is not None and name_of(told, told["events"][before]) == "aten::copy_":
                    yield before
        touched.update((told["tensors"][one][0], number) for one in named)


class Shards:
    """Of one rank, by storage: buffers and shards as `layouts`, parameters as `gathered`."""

    def __init__(self, told: dict[str, Any], groups: dict[str, int], rank: int) -> None:
        """`groups`: sizes of those whose size changes. Raises: UsageError."""
        self.layouts: dict[int, Layout] = {}
        self.gathered: dict[int, Part] = {}
        self._open: dict[int, str] = {}
        """Buffers of collectives, with their group."""
        self._apart: set[int] = set()
        """Those of which a rank's own part is elsewhere, as FSDP1's."""
        self._told = told
        self._groups = groups
        self._is_new = True
        self._rank = rank
        while self._is_new:
            self._is_new = False
            for number, event in enumerate(told["events"]):
                if event["do"] == "op":
                    try:
                        self._follow(name_of(told, event), event)
                    except ValueError as error:
                        raise UsageError(
                            f"{place_of(told, number)} of rank {rank}, {name_of(told, event)}: "
                            f"{error}."
                        ) from error
        self._check()

    def _check(self) -> None:
        """All that collectives of changing groups gather or scatter is understood."""
        for number, event in enumerate(self._told["events"]):
            name = name_of(self._told, event)
            if name not in (GATHER, SCATTER) or event.get("group") not in self._groups:
                continue
            versions = [self._row(one)[0] for one in tensor_numbers(event["args"][:2])]
            layouts = [self.layouts.get(one) for one in versions]
            if any(
                layout is None or any(part.found().shape is None for part in layout.parts)
                for layout in layouts
            ):
                raise UsageError(
                    f"{place_of(self._told, number)} of rank {self._rank}, {name}: process group "
                    f"{event['group']} changes its size, and the trace does not tell which "
                    "parameters of which shapes are in the buffer. FSDP2's (fully_shard) and "
                    "FSDP1's (use_orig_params=False) are understood."
                )

    def _row(self, tensor: int) -> list[Any]:
        return list(self._told["tensors"][tensor])

    def _set(self, version: int, layout: Layout) -> None:
        known = self.layouts.get(version)
        if known is None:
            self.layouts[version] = layout
            self._is_new = True
            return
        known.is_buffer |= layout.is_buffer
        if len(known.parts) != len(layout.parts):
            raise ValueError("a buffer has other parts elsewhere")
        for one, other in zip(known.parts, layout.parts, strict=True):
            self._join(one, other)

    def _join(self, one: Part, other: Part) -> None:
        one, other = one.found(), other.found()
        if one is other:
            return
        if one.kind() != other.kind():
            raise ValueError(
                f"shards of {one.elements:,} and {other.elements:,} elements are used as one"
            )
        if other.shape is not None:
            one.know(other.shape)
        other.same, self._is_new = one, True

    # What operators tell

    def _follow(self, name: str, event: dict[str, Any]) -> None:
        args, group = event["args"], event.get("group")
        if group in self._groups and name in (GATHER, SCATTER):
            self._collective(args, name == GATHER, group)
        elif name == COPY_OUT:
            self._copy_out(args)
        elif name in CHUNKS:
            self._chunks(args)
        elif name == COPY_IN:
            layout = self.layouts.get(self._row(args[1]["tensor"])[0])
            if layout is not None:
                self._assign(tensor_numbers(args[0]), layout.parts)
        elif name == SLICE:
            self._without_padding(args, event["outs"])
        elif event.get("flat", {}).get("step") == PADDED:
            self._padded(args[0]["tensor"], tensor_numbers(event["outs"])[0])
        elif name == "aten::as_strided":
            self._parameter(args[0]["tensor"], tensor_numbers(event["outs"])[0])
        elif keeps_shapes(self._told["schemas"][event["schema"]]):
            for column in columns(event):
                self._link(column)

    def _collective(self, args: list[Any], is_gather: bool, group: str) -> None:
        """Names the buffers of one; what is in them is told by others."""
        whole, chunk = args[:2] if is_gather else reversed(args[:2])
        whole_at, chunk_at = (self._row(one["tensor"])[0] for one in (whole, chunk))
        layout = self.layouts.get(whole_at)
        if layout is None:
            self._open[whole_at] = group
            if chunk_at != whole_at:
                self._apart.add(whole_at)
        elif layout.parts[0].is_flat and self._row(chunk["tensor"])[1]:
            raise ValueError(
                "a rank's shard lies behind others in one storage, as DeepSpeed's do: such are not "
                "understood"
            )
        elif chunk_at != whole_at:
            self._set(chunk_at, Layout(layout.parts, is_buffer=True))

    def _new_parts(self, version: int, sizes: list[int]) -> None:
        group = self._open[version]
        parts = [Part(elements, self._groups[group], group) for elements in sizes]
        self._set(version, Layout(parts, self._groups[group], is_buffer=True))

    def _without_padding(self, args: list[Any], outs: list[Any]) -> None:
        """FSDP1 takes its flat parameter out of what it has gathered."""
        version = self._row(args[0]["tensor"])[0]
        [made] = tensor_numbers(outs)
        row = self._row(made)
        if version in self._apart and row[0] == version and len(row[3]) == 1 and row[1] == 0:
            self._flat(version, row[3][0], is_buffer=False)

    def _padded(self, given: int, made: int) -> None:
        """It pads a gradient before it is scattered."""
        version = self._row(made)[0]
        if version in self._open:
            self._flat(version, self._row(given)[3][0], is_buffer=True)

    def _flat(self, version: int, elements: int, is_buffer: bool) -> None:
        if version not in self.layouts:
            group = self._open[version]
            size = self._groups[group]
            part = Part(-(-elements // size), size, group, is_flat=True)
            self._set(version, Layout([part], size, is_buffer))
        if self.layouts[version].parts[0].is_flat:
            self.layouts[version].parts[0].know((elements,))

    def _copy_out(self, args: list[Any]) -> None:
        version = self._row(args[0]["tensor"])[0]
        if version in self._open and version not in self.layouts:
            self._new_parts(version, args[1])
        if version in self.layouts:
            for tensor, part in zip(
                tensor_numbers(args[3]), self.layouts[version].parts, strict=True
            ):
                self.gathered[self._row(tensor)[0]] = part

    def _chunks(self, args: list[Any]) -> None:
        version = self._row(args[3]["tensor"])[0]
        shapes = [tuple(self._row(one)[3]) for one in tensor_numbers(args[0])]
        if version in self._open and version not in self.layouts:
            size = self._groups[self._open[version]]
            self._new_parts(version, [-(-one[0] // size) * math.prod(one[1:]) for one in shapes])
        if version in self.layouts:
            for part, shape in zip(self.layouts[version].parts, shapes, strict=True):
                part.know(shape)

    def _parameter(self, source: int, made: int) -> None:
        row = self._row(made)
        part = self.gathered.get(row[0])
        if part is not None and self._row(source)[0] == row[0]:
            part.know(tuple(row[3]))

    def _assign(self, tensors: list[int], parts: list[Part]) -> None:
        """Tensors that are in a buffer one after the other, or each in a storage of its own."""
        rows = [self._row(one) for one in tensors]
        versions = {row[0] for row in rows}
        if len(versions) == 1:
            self._set(rows[0][0], Layout(parts, is_buffer=True))
        elif len(versions) == len(parts):
            for row, part in zip(rows, parts, strict=True):
                self._set(row[0], Layout([part]))

    def _link(self, column: list[int]) -> None:
        """What has the shape of a shard in an operator for each element is one, too."""
        rows = [self._row(one) for one in column]
        for row in rows:
            parts = self._parts(row)
            if parts is None:
                continue
            for other in rows:
                if other[3] != row[3] or other is row or other[0] in self.gathered:
                    continue
                told = self._parts(other)
                if told is not None:
                    for one, two in zip(parts.parts, told.parts, strict=True):
                        self._join(one, two)
                elif other[0] not in self.layouts and self._covers(other):
                    self._set(other[0], Layout(parts.parts, parts.copies))

    def _parts(self, row: list[Any]) -> Layout | None:
        """What a tensor in a known storage is: all of it, or one part."""
        layout = self.layouts.get(row[0])
        if layout is None or (row[3] == [] and layout.elements > 1):
            return None
        if layout.parts[0].is_flat:
            is_shard = layout.copies == 1 and row[3] == [layout.elements]
            return layout if is_shard else None
        if len(layout.parts) == 1 or row[3] in (
            [layout.copies * layout.elements],
            [layout.copies, layout.elements],
        ):
            return layout
        begins = layout.begins()
        if layout.copies == 1 and row[1] in begins:
            return Layout([layout.parts[begins.index(row[1])]])
        return None

    def _covers(self, row: list[Any]) -> bool:
        """Whether a tensor is all of its storage."""
        import torch  # noqa: PLC0415

        itemsize = int(getattr(torch, DTYPES[row[2]]).itemsize)
        size_bytes = int(self._told["versions"][row[0]]["bytes"])
        return bool(row[1] == 0 and math.prod(row[3]) * itemsize == size_bytes)

"""A benchmark for another number of data-parallel ranks, as if the program had been traced there.

What ranks reduce keeps its size. What they divide among each other follows, with its padding. What
cannot be derived is refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from phantora_py.replay.calls import call_of, flat, on_meta, tensors_in
from phantora_py.replay.container import Benchmark, tensor_numbers
from phantora_py.replay.flat import CUT, FIRST, OWN, PADDED, SECOND, divides_again
from phantora_py.replay.mesh import Groups, Growth
from phantora_py.replay.operators import COMMUNICATION
from phantora_py.replay.rows import laid_out, plain
from phantora_py.replay.scaled_tensors import BaseRank, ScaledTensors, UnknownError
from phantora_py.replay.shards import (
    CHUNKS,
    COPY_IN,
    COPY_OUT,
    GATHER,
    SCATTER,
    SLICE,
    Layout,
    columns,
    keeps_shapes,
    name_of,
    place_of,
)
from sim_server.errors import UsageError

_OF_PARTS = ": whether the part for each rank stays as large, or all parts together, is not told"
_REASONS = dict.fromkeys(("alltoall_base", "alltoall", "all_to_all_single"), _OF_PARTS)
_GATHER_EACH, _BROADCAST = "c10d::allgather_", "c10d::broadcast_"
_KEPT = (
    *("c10d::allreduce_", "c10d::allreduce_coalesced_", "c10d::barrier"),
    *("c10d::monitored_barrier_", "_c10d_functional::all_reduce", "_c10d_functional::all_reduce_"),
    *("_c10d_functional::all_reduce_coalesced", "_c10d_functional::wait_tensor"),
)
"""Whose tensors are the same on any number of ranks."""
# These fill buffers: shards have their padding here, and nowhere else.
_PADDED = ("aten::record_stream", "fsdp::", "c10d::", "_c10d_functional::")
# So do these, where they are about a buffer.
_OF_BUFFERS = ("aten::split_with_sizes", "aten::empty", "aten::view", "aten::_foreach_copy_")
_UNCHECKED = ("fsdp::", "aten::record_stream")
"""What cannot be called without values."""

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
    known: dict[int, BaseRank] = {}
    ranks = []
    for rank in range(growth.new.ranks):
        base = growth.base(rank)
        if base not in known:
            known[base] = BaseRank(benchmark.ranks[base], base, groups, growing)
        ranks.append(_Scaling(known[base], rank).told())
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


class _Scaling(ScaledTensors):
    """Rewrites a rank for one new rank."""

    def told(self) -> dict[str, Any]:
        events = []
        for number, event in enumerate(self._told["events"]):
            try:
                if (made := self._event(event)) is not None:
                    events.append(made)
            except UnknownError as error:
                raise UsageError(
                    f"{place_of(self._told, number)} of rank {self._base.rank}, "
                    f"{name_of(self._told, event)}: "
                    f"{error}. It cannot be derived for another number of ranks."
                ) from error
        for row, size_bytes in zip(self._versions, self._ends, strict=True):
            row["bytes"] = size_bytes
        rows = [[one[0], one[1], one[2], list(one[3]), list(one[4])] for one in self._rows]
        return {
            **{"schemas": self._told["schemas"], "tensors": rows},
            **{"versions": self._versions, "events": events},
        }

    # Events

    def _event(self, event: dict[str, Any]) -> dict[str, Any] | None:
        """None: it is not done on this number of ranks."""
        made = {name: value for name, value in event.items() if name != "flat"}
        group = event.get("group")
        if group is not None:
            made["group"] = self._base.groups.name(self._rank, group)
        step = event.get("flat")
        if event["do"] in ("op", "proxy") and (step is None or self._step(step, event, made)):
            self._operator(event, made)
        ended = [*self._late, *self._freed(event.get("free", []))]
        if event["do"] in ("op", "proxy") and "args" not in made:
            self._late = ended
            return None
        if ended:
            made["free"], self._late = ended, []
        return made

    def _operator(self, event: dict[str, Any], made: dict[str, Any]) -> None:
        name = name_of(self._told, event)
        is_padded = self._pads(name, event)
        made["args"] = self._mapped(event["args"], is_padded or self._takes_padding(name, event))
        made["outs"] = self._mapped(event["outs"], is_padded)
        if event["do"] == "op" and name.startswith(COMMUNICATION):
            self._collective(name, event, made)
        elif self._shapes(made) != self._old_shapes(event):
            if event["do"] == "proxy":
                raise UnknownError("it became a proxy, and works on shards")
            self._arguments(name, event, made)
            self._check(name, event, made)
        elif name == COPY_IN:
            self._arguments(name, event, made)

    # What FSDP1 does with flat parameters

    def _step(self, step: dict[str, Any], event: dict[str, Any], made: dict[str, Any]) -> bool:
        """Whether an event is an operator like others; else it is done here, or left out."""
        layout = self._base.shards.layouts.get(self._told["tensors"][step["padded"]][0])
        if layout is None or not layout.parts[0].is_flat:
            if step["is_new"]:
                self._leave_out(event, made)
            return not step["is_new"]
        name, part = step["step"], layout.parts[0]
        if name == SECOND and not divides_again(len(self._group(part.group)[0])):
            self._leave_out(event, made)
            return False
        if name == SECOND:
            return True
        place = self._group(part.group)[1]
        padded, own = self._chunk(part, True)
        count = part.found().shape[0]  # type: ignore[index]
        if name == PADDED:
            self._pad(event, made, layout)
            return False
        whole = tensor_numbers(event["args"])[0]
        outs = self._mapped(event["outs"], False) if name == FIRST else None
        if name == CUT:
            begins = range(0, count, padded)
            outs = [[self._piece(whole, at, min(padded, count - at)) for at in begins]]
            made["args"] = [self._mapped(event["args"][0], False), padded, *event["args"][2:]]
        else:
            is_own = name == OWN
            begin = min(place * padded, count) if is_own else 0
            piece = self._piece(whole, begin, own if is_own else padded)
            made["args"] = [piece, *event["args"][1:]]
        made["outs"] = (
            [self._piece(tensor_numbers(event["outs"])[0], 0, own)] if outs is None else outs
        )
        return False

    def _piece(self, tensor: int, begin: int, elements: int) -> dict[str, int]:
        """Of the storage in which a tensor is."""
        version, _, dtype, *_ = self._told["tensors"][tensor]
        return {"tensor": self._made((self._stored(version), begin, dtype, (elements,), (1,)))}

    def _pad(self, event: dict[str, Any], made: dict[str, Any], layout: Layout) -> None:
        [given] = tensor_numbers(event["args"])
        [part] = layout.parts
        chunk, own = self._chunk(part, True)
        before = own
        if layout.copies > 1:
            before = part.found().shape[0]  # type: ignore[index]
            chunk *= len(self._group(part.group)[0])
        if chunk == before:
            self._leave_out(event, made)
            return
        made["args"] = [self._piece(given, 0, before), [0, chunk - before], *event["args"][2:]]
        made["outs"] = self._mapped(event["outs"], True)

    def _leave_out(self, event: dict[str, Any], made: dict[str, Any]) -> None:
        """An operator that is not called; its result is what it would get."""
        del made["args"], made["outs"]
        given, result = (
            self._told["tensors"][tensor_numbers(event[one])[0]][0] for one in ("args", "outs")
        )
        if given != result:
            self._aliases[result] = given
            stored = self._base.origins[given]
            shared = [stored, 2]
            self._shared |= {stored: shared, self._base.origins[result]: shared}

    def _freed(self, storages: list[int]) -> list[int]:
        """Of those that end, the ones that nothing else is in here."""
        found = []
        for one in storages:
            shared = self._shared.get(one, [one, 1])
            shared[1] -= 1
            if not shared[1]:
                found.append(shared[0])
        return found

    def _pads(self, name: str, event: dict[str, Any]) -> bool:
        layouts, gathered = self._base.shards.layouts, self._base.shards.gathered
        rows = [self._told["tensors"][one] for one in _numbers(event)]
        if name in _OF_BUFFERS:
            return any(
                row[0] in gathered or (row[0] in layouts and layouts[row[0]].is_buffer)
                for row in rows
            )
        return name.startswith(_PADDED)

    def _takes_padding(self, name: str, event: dict[str, Any]) -> bool:
        """Whether an operator takes something out of a padded buffer."""
        if name != SLICE:
            return name == _WITHOUT_PADDING
        version = self._told["tensors"][event["args"][0]["tensor"]][0]
        layout = self._base.shards.layouts.get(version)
        return layout is not None and layout.parts[0].is_flat

    def _mapped(self, value: Any, is_padded: bool) -> Any:
        if isinstance(value, list):
            return [self._mapped(one, is_padded) for one in value]
        if isinstance(value, dict):
            return {"tensor": self._tensor(value["tensor"], is_padded)}
        return value

    def _shapes(self, made: dict[str, Any]) -> list[tuple[Any, ...]]:
        return [tuple(map(plain, self._rows[one][1:])) for one in _numbers(made)]

    def _old_shapes(self, event: dict[str, Any]) -> list[tuple[Any, ...]]:
        rows = [self._told["tensors"][one] for one in _numbers(event)]
        return [tuple(map(plain, row[1:])) for row in rows]

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
            made["args"] = laid_out(schema, args, self._rows[outs[0]])

    def _check(self, name: str, event: dict[str, Any], made: dict[str, Any]) -> None:
        """That the operator gives what is expected for what it gets now."""
        if name.startswith(_UNCHECKED):
            return
        if keeps_shapes(self._told["schemas"][event["schema"]]):
            for old, new in zip(columns(event), columns(made), strict=True):
                sizes: dict[tuple[int, ...], Any] = {}
                for one, other in zip(old, new, strict=True):
                    before = tuple(self._told["tensors"][one][3])
                    if sizes.setdefault(before, self._rows[other][3]) != self._rows[other][3]:
                        raise UnknownError(
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
            raise UnknownError(
                f"it does not take the new sizes ({str(error).splitlines()[0]})"
            ) from error
        expected = [one.shape for one in tensors_in(call.outs)]
        found = [tuple(one.shape) for one in flat(result)][: len(expected)]
        if found != expected:
            changed = next(
                (one, two) for one, two in zip(found, expected, strict=False) if one != two
            )
            raise UnknownError(
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
                raise UnknownError(
                    f"{where}, and rank {made['args'][2]} of it sends: who would send is not told"
                )
        elif name not in (*_KEPT, GATHER, SCATTER):
            reason = _REASONS.get(name.partition("::")[2].rstrip("_"), "")
            raise UnknownError(f"{where}, and how its sizes would follow is not known{reason}")

    def _gather_each(
        self, event: dict[str, Any], made: dict[str, Any], size: int, where: str
    ) -> None:
        """A number of each rank, in a tensor of its own."""
        if len(made["args"][0]) != 1:
            raise UnknownError(f"{where}, and it gathers {len(made['args'][0])} lists at once")
        for outputs in (made["args"][0], made["outs"][0]):
            for parts in outputs:
                row = self._rows[parts[-1]["tensor"]]
                if math.prod(row[3]) > 1:
                    raise UnknownError(
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


def _numbers(event: dict[str, Any]) -> list[int]:
    return tensor_numbers([event["args"], event["outs"]])

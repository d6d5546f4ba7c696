"""A benchmark with other sizes: each size is mapped by its value, alike in all ranks, so that the
operators still fit.

Sizes that others are made of (those of views, concatenations, gathered parts) are found as
equations between numbers of elements. What they leave free is rounded, the rest follows. Then each
operator is called with tensors on PyTorch's `meta` device; where one does not give what the map
says, its sizes stay as they were, and all is tried again.
"""

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from phantora_py.replay.calls import (
    Call,
    Tensor,
    call_of,
    flat,
    kinds,
    on_meta,
    sizes_in,
    tensors_in,
)
from phantora_py.replay.container import Benchmark, tensor_numbers
from phantora_py.replay.operators import COMMUNICATION, resolved
from phantora_py.replay.player import DTYPES
from phantora_py.replay.solver import Solver
from phantora_py.text.units import percent_text
from sim_server.errors import UsageError

_PADDING_BYTES = 512
"""Between tensors in a buffer, at most: more is memory of tensors that the trace does not have."""
# Results on `meta` are not those of the table, and their sizes are what the arguments say.
_TOLD = ("aten::as_strided", "aten::_pin_memory", "aten::is_pinned", "aten::_local_scalar_dense")


@dataclass(frozen=True)
class Change:
    """What was changed. Errors are relative."""

    changed: int
    """How many sizes, without those that follow from others."""
    kept: tuple[int, ...]
    """Those that are large enough, and still could not be changed."""
    largest: dict[str, float]
    mean: dict[str, float]
    """By "sizes" (different ones), "elements" (of tensors), "bytes" (of storages), "FLOP" (of
    calls of operators that PyTorch counts)."""
    total_flop: float | None
    """Change of the sum; None if no operator has any."""

    @property
    def work(self) -> float:
        """Largest change of what a call works on."""
        return max(self.largest["elements"], self.largest["FLOP"])


def bucket(benchmark: Benchmark, error: float, salt: bytes) -> tuple[Benchmark, Change]:
    """A new benchmark whose sizes differ by at most `error`, but those of flat buffers, which
    follow from others. `benchmark` is one of level 2. The same salt gives the same sizes.

    Raises: UsageError if no size can be changed.
    """
    if not 0 < error < 1:
        raise UsageError(f"--error is {error:g}, and is to be between 0 and 1, as 0.1.")
    calls: Counter[Call] = Counter()
    for told in benchmark.ranks:
        calls.update(call_of(told, event) for event in told["events"] if event["do"] == "op")
    solver = Solver(benchmark.ranks, calls, error, salt)
    while True:
        sizes = _Sizes(solver.solved(), error)
        wrong = [call for call in calls if not sizes.fits(call)]
        if not wrong or not sizes.changed:
            break
        solver.freeze({size for call in wrong for size in sizes_in(call)})
    if not sizes.changed:
        raise UsageError(
            f"no size can be changed by at most {error:g} so that all operators still fit: use a "
            "larger --error, or share it at level 2, with its sizes."
        )
    ranks = [_Rank(told, sizes).told() for told in benchmark.ranks]
    return Benchmark(benchmark.head, ranks), _change(benchmark.ranks, ranks, sizes, solver, calls)


# What the map makes of tensors and arguments


class _Sizes:
    """A map of sizes, applied."""

    def __init__(self, known: dict[int, int], error: float) -> None:
        self.known = known
        self.changed = {size for size in known if known[size] != size}
        self._error = error
        self.begins: dict[Call, list[int | None]] = {}
        """Of calls that give views, where these begin in what they are of."""

    def tensor(self, old: Tensor) -> Tensor:
        """Of the mapped sizes, laid out as it was."""
        shape = tuple(self.known[size] for size in old.shape)
        return Tensor(old.dtype, shape, self.strides(old.shape, old.strides))

    def strides(self, shape: Iterable[int], strides: Iterable[int]) -> tuple[int, ...]:
        """Gaps between rows stay in proportion."""
        pairs = list(zip(shape, strides, strict=True))
        made = [0] * len(pairs)
        dense_old = dense = 1
        for place in sorted(range(len(pairs)), key=lambda one: (pairs[one][1], pairs[one][0])):
            size, stride = pairs[place]
            if stride in (0, dense_old):
                made[place] = stride and dense
            elif stride in self.known:
                made[place] = self.known[stride]
            else:
                times, rest = divmod(stride, dense_old)
                made[place] = dense * times if not rest else max(1, stride * dense // dense_old)
            if stride and size > 1:
                dense_old, dense = stride * size, made[place] * self.known[size]
        return tuple(made)

    def index(self, value: int) -> int:
        """One of a row of which nobody knows how long it is: a smaller one."""
        if value * self._error < 1 - self._error:
            return value
        return int(_rounded(int(value * (1 - self._error))))

    def arguments(self, schema: str, args: Iterable[Any], sizes_of: Any) -> list[Any]:
        """With what `sizes_of` says of lists of sizes and of strides beside them."""
        given = list(args)
        meant = list(kinds(schema))
        named = dict(zip((name for name, _ in meant), given, strict=False))
        made = []
        for (_, kind), value in zip(meant, given, strict=False):
            if kind == "stride" and value is not None:
                made.append(sizes_of(self.strides(named["size"], value)))
            else:
                made.append(self._numbers(value, kind))
        return made

    def _numbers(self, value: Any, kind: str) -> Any:
        if isinstance(value, list) or type(value) is tuple:
            return type(value)(self._numbers(one, kind) for one in value)
        if isinstance(value, bool) or not isinstance(value, int | float) or not kind:
            return value
        if type(value) is int and kind != "index" and value in self.known:
            return self.known[value]
        if kind in ("size", "offset"):
            return value
        if kind == "index" and type(value) is int:
            return self.index(value)
        return _rounded(value)

    def fits(self, call: Call) -> bool:
        """Whether the operator gives the mapped results for the mapped arguments."""
        expected = [self.tensor(one) for one in tensors_in(call.outs)]
        shapes = {one.shape for one in tensors_in([call.args, call.outs])}
        sizes = {*sizes_in(call)}
        if not self.changed & sizes or call.name in _TOLD:
            return True
        if call.name.partition("::")[0] in COMMUNICATION:
            return True  # equations tell what they need
        if len(shapes) == 1 and not sizes - {*next(iter(shapes))}:
            return True
        try:
            result, _, _, self.begins[call] = on_meta(call.schema, self.mapped(call))
        except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError):
            return False
        made = [tuple(one.shape) for one in flat(result)]
        return made[: len(expected)] == [one.shape for one in expected]

    def mapped(self, call: Call) -> tuple[Any, ...]:
        """Its arguments."""

        def deep(value: Any) -> Any:
            if isinstance(value, Tensor):
                return self.tensor(value)
            return tuple(deep(one) for one in value) if isinstance(value, tuple) else value

        return tuple(deep(one) for one in self.arguments(call.schema, call.args, tuple))


def _rounded(value: float) -> float:
    """To one digit, towards zero: 1 / 768 and 0.999 must not tell."""
    if not math.isfinite(value) or value == 0 or (type(value) is int and abs(value) < 10):
        return value
    number = Decimal(repr(value))
    digit = Decimal((number.is_signed(), number.as_tuple().digits[:1], number.adjusted()))
    return int(digit) if type(value) is int else float(digit)


class _Rank:
    """Rewrites one rank."""

    def __init__(self, told: dict[str, Any], sizes: _Sizes) -> None:
        self._told = told
        self._sizes = sizes
        self._old = [Tensor.of(row) for row in told["tensors"]]
        self._new = [sizes.tensor(one) for one in self._old]
        self._views: dict[int, tuple[int, int]] = {}
        """Of tensors, what they are a view of, and where they begin there."""
        self._offsets: dict[int, int] = {}

    def told(self) -> dict[str, Any]:
        """All of the rank, as the container has it."""
        for event in self._told["events"]:
            if event["do"] == "op":
                self._find_views(event)
        self._place()
        rows = [
            [row[0], self._offsets[number], *map(_listed, self._new[number])]
            for number, row in enumerate(self._told["tensors"])
        ]
        ends: Counter[int] = Counter()
        for number, row in enumerate(rows):
            ends[row[0]] = max(ends[row[0]], self._end(self._new[number], row[1]))
        return {
            "schemas": self._told["schemas"],
            "tensors": rows,
            "versions": [
                self._version(row, ends[number])
                for number, row in enumerate(self._told["versions"])
            ],
            "events": [self._event(event) for event in self._told["events"]],
        }

    def _find_views(self, event: dict[str, Any]) -> None:
        rows = self._told["tensors"]
        sources = {rows[one][0]: one for one in reversed(tensor_numbers(event["args"]))}
        begins = self._sizes.begins.get(call_of(self._told, event), [])
        for place, number in enumerate(tensor_numbers(event["outs"])):
            source = sources.get(rows[number][0], number)
            if source == number or number in self._views or rows[source][1] > rows[number][1]:
                continue
            begin = begins[place] if place < len(begins) else None
            if begin is not None:
                self._views[number] = (source, begin)

    def _place(self) -> None:
        """Offsets: of views where their operators have them; others lie behind each other as
        before."""
        ends: dict[int, list[tuple[int, int]]] = {}
        rows = self._told["tensors"]
        for number in sorted(range(len(rows)), key=lambda one: rows[one][1]):
            known = ends.setdefault(rows[number][0], [])
            chain = [number]
            while chain[-1] in self._views and self._views[chain[-1]][0] not in self._offsets:
                if (source := self._views[chain[-1]][0]) in chain:
                    del self._views[chain[-1]]  # each is a view of the other
                    break
                chain.append(source)
            for one in reversed(chain):
                if one not in self._offsets:
                    self._offsets[one] = self._offset(one, known)
                end = (self._end(self._old[one], rows[one][1]), self._new_end(one))
                bisect.insort(known, end)

    def _offset(self, number: int, known: list[tuple[int, int]]) -> int:
        old = self._told["tensors"][number][1]
        if number in self._views:
            source, begin = self._views[number]
            return self._offsets[source] + begin
        itemsize = _itemsize(self._old[number].dtype)
        place = bisect.bisect_right(known, (old * itemsize, math.inf)) - 1
        old_end, new_end = known[place] if place >= 0 else (0, 0)
        gap = old * itemsize - old_end
        if gap > _PADDING_BYTES:
            gap = self._sizes.known.get(gap // itemsize, _rounded(gap // itemsize)) * itemsize
        return -(-(new_end + int(gap)) // itemsize)

    def _new_end(self, number: int) -> int:
        return self._end(self._new[number], self._offsets[number])

    def _end(self, tensor: Tensor, offset: int) -> int:
        """Of its last element, in bytes of its storage."""
        if 0 in tensor.shape:
            return 0
        pairs = zip(tensor.shape, tensor.strides, strict=True)
        last = sum((size - 1) * stride for size, stride in pairs)
        return (offset + last + 1) * _itemsize(tensor.dtype)

    def _version(self, row: dict[str, Any], size_bytes: int) -> dict[str, Any]:
        made = row | {"bytes": size_bytes}
        if bounds := row.get("external", {}).get("range"):
            made["external"] = {"range": [self._sizes.index(one) for one in bounds]}
        return made

    def _event(self, event: dict[str, Any]) -> dict[str, Any]:
        if event["do"] != "op":
            return event
        schema = self._told["schemas"][event["schema"]]
        args = self._sizes.arguments(schema, event["args"], list)
        outs = tensor_numbers(event["outs"])
        for place, (_, kind) in enumerate(kinds(schema)):
            if kind == "offset" and place < len(args) and args[place] is not None and outs:
                args[place] = self._offsets[outs[0]]
        return event | {"args": args}


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _itemsize(dtype: str) -> int:
    import torch  # noqa: PLC0415

    return int(getattr(torch, DTYPES[dtype]).itemsize)


def _change(
    before: list[dict[str, Any]],
    after: list[dict[str, Any]],
    sizes: _Sizes,
    solver: Solver,
    calls: Counter[Call],
) -> Change:
    errors: dict[str, Counter[float]] = {
        name: Counter() for name in ("sizes", "elements", "bytes", "FLOP")
    }
    large = solver.changeable & solver.bounded
    errors["sizes"].update(abs(sizes.known[one] / one - 1) for one in large)
    for old, new in zip(before, after, strict=True):
        for first, second in zip(old["tensors"], new["tensors"], strict=True):
            if count := math.prod(first[3]):
                errors["elements"][abs(math.prod(second[3]) / count - 1)] += 1
        for first, second in zip(old["versions"], new["versions"], strict=True):
            if first["bytes"]:
                errors["bytes"][abs(second["bytes"] / first["bytes"] - 1)] += 1
    flop = [0, 0]
    for call, times in calls.items():
        counts = [_flop(call.schema, args) for args in (call.args, sizes.mapped(call))]
        if counts[0]:
            errors["FLOP"][abs(counts[1] / counts[0] - 1)] += times
            flop = [total + times * count for total, count in zip(flop, counts, strict=True)]
    return Change(
        len(large & sizes.changed),
        tuple(sorted(large - sizes.changed)),
        {name: max(found, default=0.0) for name, found in errors.items()},
        {
            name: sum(error * times for error, times in found.items()) / (found.total() or 1)
            for name, found in errors.items()
        },
        flop[1] / flop[0] - 1 if flop[0] else None,
    )


def change_lines(change: Change) -> list[str]:
    """As text."""
    names = {
        "elements": "elements of tensors",
        "bytes": "bytes of storages",
        "FLOP": "FLOP of calls",
    }
    lines = [f"{change.changed} of {change.changed + len(change.kept)} sizes changed"]
    if change.kept:
        lines.append(f"  kept, with all that is made of them: {', '.join(map(str, change.kept))}")
    lines += [
        f"  {names.get(name, name)}: changed by {percent_text(most)} at most, "
        f"{percent_text(change.mean[name])} in the mean"
        for name, most in change.largest.items()
    ]
    if change.total_flop is not None:
        sign = "+" if change.total_flop >= 0 else "-"
        lines.append(f"  all FLOP: {sign}{percent_text(abs(change.total_flop))}")
    return [
        *lines,
        f"  a step's time: by {percent_text(change.work)} at most, where kernels take as long as "
        "their elements or FLOP say",
    ]


def _flop(schema: str, args: Any) -> int:
    """As PyTorch counts it; 0 for operators that it does not count."""
    from torch.utils.flop_counter import flop_registry  # noqa: PLC0415

    count = flop_registry.get(resolved(schema).overloadpacket)
    if count is None:
        return 0
    result, positional, named, _ = on_meta(schema, args)
    return int(count(*positional, **named, out_val=result))

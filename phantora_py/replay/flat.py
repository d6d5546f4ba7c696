"""FSDP1's flat parameters: steps that it takes only on some numbers of ranks, told in a trace.

It cuts a flat parameter, or its gradient, into an equal chunk for each rank (`chunk`), and pads it
where the ranks do not divide its elements. On more than two ranks it divides gradients a second
time, after their sum. Such steps are put in where the traced ranks did not need them, so that a
scaled rank can leave out what it does not need either.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from phantora_py.replay.container import tensor_numbers
from phantora_py.replay.operators import parsed

SCATTER, PAD, DIVISION = "c10d::_reduce_scatter_base_", "aten::constant_pad_nd", "aten::div_"
_SPLIT, _LIKE, _COPY = "aten::split", "aten::empty_like", "aten::clone"
_SUM, _STREAM = "c10d::allreduce_", "aten::record_stream"
_PAD_SCHEMA = "aten::constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor"
_MOST_DIVIDED_ONCE = 2
"""Ranks whose gradients are divided before their sum only."""

CUT, OWN, FIRST, PADDED, SECOND = "cut", "own", "first", "padded", "second"
"""Steps: cuts; copies the rank's chunk; makes one like the first; pads; divides again."""


def divides_again(ranks: int) -> bool:
    """Whether gradients of so many ranks are divided after their sum, too."""
    return ranks > _MOST_DIVIDED_ONCE


def with_all_steps(
    told: dict[str, Any], origins: list[int], sizes: Collection[int]
) -> tuple[dict[str, Any], list[int], list[dict[str, Any]]]:
    """A rank whose events have all steps, as `flat`; of each storage the number that it has in a
    file; and new storages. `sizes`: of groups whose size changes."""
    return _Steps(told, origins, sizes).told()


class _Steps:
    def __init__(self, told: dict[str, Any], origins: list[int], sizes: Collection[int]) -> None:
        self._told = told
        self._sizes = sizes
        self._rows = list(told["tensors"])
        self._schemas = list(told["schemas"])
        self._versions = list(told["versions"])
        self._origins = list(origins)
        self._new: list[dict[str, Any]] = []
        self._first_new = 1 + max(origins, default=-1)
        self._kinds: dict[int, dict[str, Any]] = {}
        """By event."""
        self._after: dict[int, list[dict[str, Any]]] = {}
        """What is put in behind an event."""
        self._renamed: dict[int, list[tuple[int, int]]] = {}
        """By event, storages that are others behind it; -1: no longer."""
        self._freed: dict[int, int] = {}
        """Storages of the file that others take the place of."""
        self._last: dict[int, list[int]] = {}
        """By event, new storages that end with it."""
        self._numbers: dict[tuple[int, int], int] = {}
        """Of tensors in other storages."""
        names = [one.partition("(")[0].partition(".")[0] for one in self._schemas]
        self._operators = [n for n, one in enumerate(told["events"]) if one["do"] == "op"]
        self._names = [names[told["events"][n]["schema"]] for n in self._operators]

    def told(self) -> tuple[dict[str, Any], list[int], list[dict[str, Any]]]:
        for place, name in enumerate(self._names):
            if name == _SPLIT and isinstance(self._event(place)["args"][1], int):
                self._cut(place)
        events, numbers, now = [], [], dict[int, int]()
        for number, event in enumerate(self._told["events"]):
            made = self._rewritten(event, now)
            if number in self._last:
                made["free"] = [*made.get("free", ()), *self._last[number]]
            if number in self._kinds:
                made["flat"] = self._kinds[number]
            for old, new in self._renamed.get(number, ()):
                now[old] = new
                if new < 0:
                    del now[old]
            added = self._after.get(number, [])
            events += [made, *added]
            numbers += [number] * (1 + len(added))
        told = self._told | {"events": events, "numbers": numbers, "tensors": self._rows}
        told |= {"schemas": self._schemas, "versions": self._versions}
        return told, self._origins, self._new

    def _event(self, place: int) -> dict[str, Any]:
        """Of an operator."""
        return dict(self._told["events"][self._operators[place]])

    def _name(self, place: int) -> str:
        return self._names[place] if place < len(self._names) else ""

    def _cut(self, place: int) -> None:
        event = self._event(place)
        whole, elements = event["args"][0]["tensor"], event["args"][1]
        _, offset, _, shape, _ = self._rows[whole]
        is_chunk = len(shape) == 1 and offset == 0 and elements > 0
        if not is_chunk or all(-(-shape[0] // size) != elements for size in self._sizes):
            return
        pieces = tensor_numbers(event["outs"])
        taken = tensor_numbers(self._event(place + 1)["args"]) if self._name(place + 1) else []
        if self._name(place + 1) == _COPY and taken[0] in pieces:
            self._own(place)
        elif self._name(place + 1) == PAD and taken == [whole]:
            self._gradient(place, place + 2, tensor_numbers(self._event(place + 1)["outs"])[0])
        else:
            self._gradient(place, place + 1, None)

    def _own(self, place: int) -> None:
        """A rank's chunk of a parameter, which is padded next."""
        [chunk] = tensor_numbers(self._event(place + 1)["outs"])
        if self._name(place + 2) == PAD and self._event(place + 2)["args"][0]["tensor"] == chunk:
            [padded] = tensor_numbers(self._event(place + 2)["outs"])
            self._mark(place + 2, PADDED, padded)
        else:
            padded = self._pad(place + 1, chunk, place + 1)
        self._mark(place, CUT, padded)
        self._mark(place + 1, OWN, padded)

    def _gradient(self, place: int, like: int, padded: int | None) -> None:
        """Padded as a whole, divided and scattered."""
        whole = self._event(place)["args"][0]["tensor"]
        if self._name(like) != _LIKE:
            return
        [chunk] = tensor_numbers(self._event(like)["outs"])
        sent = whole if padded is None else padded
        scatter = next(
            (
                one
                for one in range(like + 1, len(self._names))
                if self._names[one] == SCATTER
                and tensor_numbers(self._event(one)["args"][:2]) == [chunk, sent]
            ),
            None,
        )
        if scatter is None:
            return
        if padded is None:
            padded = self._pad(place, whole, like, scatter)
        else:
            self._mark(place + 1, PADDED, padded)
        self._mark(place, CUT, padded)
        self._mark(like, FIRST, padded)
        divisions = [one for one in range(like + 1, scatter) if self._names[one] == DIVISION]
        if any(self._event(one)["args"][0]["tensor"] == sent for one in divisions):
            self._second_division(scatter, chunk, padded, self._event(divisions[0]))

    def _second_division(
        self, scatter: int, chunk: int, padded: int, division: dict[str, Any]
    ) -> None:
        behind = scatter
        while self._name(behind + 1) in (_SUM, _STREAM):
            behind += 1
        is_hybrid = _SUM in self._names[scatter : behind + 1]
        if self._name(behind + 1) == DIVISION and (
            self._event(behind + 1)["args"][0]["tensor"] == chunk
        ):
            if not is_hybrid:  # with replicas there are always more ranks
                self._mark(behind + 1, SECOND, padded)
            return
        made = {name: division[name] for name in ("do", "thread", "schema")}
        made |= {"args": [{"tensor": chunk}, *division["args"][1:]], "outs": [{"tensor": chunk}]}
        self._put(behind, made, SECOND, padded)

    def _mark(self, place: int, step: str, padded: int) -> None:
        told = {"step": step, "padded": padded, "is_new": False}
        self._kinds[self._operators[place]] = told

    def _put(self, place: int, event: dict[str, Any], step: str, padded: int) -> None:
        event["flat"] = {"step": step, "padded": padded, "is_new": True}
        self._after.setdefault(self._operators[place], []).append(event)

    def _pad(self, place: int, given: int, behind: int, last: int | None = None) -> int:
        """Padding of nothing, behind an operator. What comes behind another one, until the last,
        works on its result."""
        row = self._rows[given]
        origin = self._origins[row[0]]
        version, stored = len(self._origins), self._first_new + len(self._new)
        told = self._versions[row[0]]
        self._versions.append({name: told[name] for name in ("device", "dtype", "bytes")})
        self._new.append(dict(self._versions[-1]))
        self._origins.append(stored)
        padded = len(self._rows)
        self._rows.append([version, *row[1:]])
        if _PAD_SCHEMA not in self._schemas:
            assert parsed(_PAD_SCHEMA) is not None
            self._schemas.append(_PAD_SCHEMA)
        event = {"do": "op", "thread": self._event(place)["thread"]}
        event["schema"] = self._schemas.index(_PAD_SCHEMA)
        event |= {"args": [{"tensor": given}, [0, 0], 0.0], "outs": [{"tensor": padded}]}
        if last is None:
            event["free"] = [origin]
            self._freed[origin] = stored
        else:
            end = self._operators[last]
            self._renamed.setdefault(end, []).append((row[0], -1))
            self._last.setdefault(end, []).append(stored)
        begin = self._operators[behind]
        self._renamed.setdefault(begin, []).append((row[0], version))
        self._put(place, event, PADDED, padded)
        return padded

    def _rewritten(self, event: dict[str, Any], now: dict[int, int]) -> dict[str, Any]:
        made = dict(event)
        for name in ("args", "outs"):
            if now and name in event:
                made[name] = self._mapped(event[name], now)
        if "free" in event:
            made["free"] = [self._freed.get(one, one) for one in event["free"]]
        return made

    def _mapped(self, value: Any, now: dict[int, int]) -> Any:
        if isinstance(value, list):
            return [self._mapped(one, now) for one in value]
        if not isinstance(value, dict) or self._rows[value["tensor"]][0] not in now:
            return value
        row = self._rows[value["tensor"]]
        key = (value["tensor"], now[row[0]])
        if key not in self._numbers:
            self._numbers[key] = len(self._rows)
            self._rows.append([now[row[0]], *row[1:]])
        return {"tensor": self._numbers[key]}

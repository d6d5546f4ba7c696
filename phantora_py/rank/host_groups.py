"""Gloo's groups in a folded run: the members that run communicate, and stand for the others.

Gloo joins its members without the simulator, so it would wait for those that are absent. Here it
joins the members that run. What an absent member contributes is what the one that stands for it
does, as in collectives of NCCL (docs/folding.md).
"""

from __future__ import annotations

import functools
import math
import operator
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

_ABSENT = (
    "rank {rank} {does} rank {peer} by gloo, for which another rank stands in this run, at {line}: "
    "fold dimensions of the mesh within which nobody sends, or run without --fold"
)
_UNEVEN = (
    "an exchange by gloo of parts that differ in size, at {line}: what absent ranks send is not "
    "known. Run without --fold"
)
_NO_BACKENDS = (
    "a folded run has no groups of gloo, such as {line} makes, with this PyTorch: gloo would wait "
    "for ranks for which another stands. Use a later one (2.15 does), let the program communicate "
    'by NCCL, init_process_group("nccl"), or run without --fold'
)


@dataclass(frozen=True)
class Fold:
    """Who runs, and who stands for whom."""

    stand_for: Sequence[int]
    """By rank, who stands for it; itself if it runs."""

    def is_live(self, rank: int) -> bool:
        """Whether it runs."""
        return self.stand_for[rank] == rank

    def stand_ins(self, members: Sequence[int]) -> list[int]:
        """By member, the place in this group of who stands for it, as in communicators
        (sim_server/fold/communicators.py).
        """
        places = {rank: place for place, rank in enumerate(members) if self.is_live(rank)}
        first = min(places.values())
        return [places.get(rank, places.get(self.stand_for[rank], first)) for rank in members]


class Collectives:
    """What the members of a group that run do for all of them: the methods of a backend, with its
    arguments. Those that return nothing have ended.
    """

    def __init__(
        self,
        join: Callable[[int, int], Any],
        members: Sequence[int],
        place: int,
        fold: Fold,
        line: Callable[[], str],
    ) -> None:
        """`join`: makes gloo's group of those that run, of our place in it and their number.
        `members`: ranks, by place. `line`: where the program is.
        """
        self._line = line
        self._members = members
        self._place = place
        self._stand_ins = fold.stand_ins(members)
        self._live = [at for at, other in enumerate(self._stand_ins) if at == other]
        counts = Counter(self._stand_ins)
        self._weights = [counts[at] for at in self._live]
        self._gloo = join(self._live.index(place), len(self._live))

        has_absent = len(self._live) < len(members)
        self.tells = has_absent and place == self._live[0]
        """Whether some member does not run, and we are the first that does."""

    def broadcast(self, tensors: Sequence[Any], options: Any) -> Any:
        options.rootRank = self._live.index(self._stand_ins[options.rootRank])
        return self._gloo.broadcast(tensors, options)

    def allreduce(self, tensors: Sequence[Any], options: Any) -> None:
        for tensor in tensors:
            tensor.copy_(self._reduced(self._gathered(tensor), options.reduceOp))

    allreduce_coalesced = allreduce

    def reduce(self, tensors: Sequence[Any], options: Any) -> None:
        for tensor in tensors:
            result = self._reduced(self._gathered(tensor), options.reduceOp)
            if options.rootRank == self._place:
                tensor.copy_(result)

    def allgather(
        self, outputs: Sequence[Sequence[Any]], tensors: Sequence[Any], options: Any
    ) -> None:
        del options
        for results, tensor in zip(outputs, tensors, strict=True):
            values = self._gathered(tensor)
            for place, result in enumerate(results):
                result.copy_(self._of(values, place))

    def allgather_coalesced(
        self, outputs: Sequence[Sequence[Any]], tensors: Sequence[Any], options: Any
    ) -> None:
        self.allgather(list(zip(*outputs, strict=True)), tensors, options)

    def all_gather_single(self, output: Any, tensor: Any, options: Any) -> None:
        parts = output.view(len(self._members), *tensor.shape)
        self.allgather([parts.unbind()], [tensor], options)

    def all_gather_single_coalesced(
        self, outputs: Sequence[Any], tensors: Sequence[Any], options: Any
    ) -> None:
        for output, tensor in zip(outputs, tensors, strict=True):
            self.all_gather_single(output, tensor, options)

    def gather(
        self, outputs: Sequence[Sequence[Any]], tensors: Sequence[Any], options: Any
    ) -> None:
        if options.rootRank == self._place:
            self.allgather(outputs, tensors, options)
        else:
            self._gathered(tensors[0])

    def scatter(
        self, outputs: Sequence[Any], tensors: Sequence[Sequence[Any]], options: Any
    ) -> Any:
        root = options.rootRank
        self._require_live(root, "receives from")
        of_live = [[parts[at] for at in self._live] for parts in tensors]
        options.rootRank = self._live.index(root)
        return self._gloo.scatter(outputs, of_live, options)

    def reduce_scatter(
        self, outputs: Sequence[Any], tensors: Sequence[Sequence[Any]], options: Any
    ) -> None:
        for output, parts in zip(outputs, tensors, strict=True):
            own = [value[self._place] for value in self._gathered(_stacked(parts))]
            output.copy_(self._reduced(own, options.reduceOp))

    def reduce_scatter_single(self, output: Any, tensor: Any, options: Any) -> None:
        parts = tensor.view(len(self._members), *output.shape)
        self.reduce_scatter([output], [parts.unbind()], options)

    def reduce_scatter_single_coalesced(
        self, outputs: Sequence[Any], tensors: Sequence[Any], options: Any
    ) -> None:
        for output, tensor in zip(outputs, tensors, strict=True):
            self.reduce_scatter_single(output, tensor, options)

    def alltoall(self, outputs: Sequence[Any], tensors: Sequence[Any], options: Any) -> None:
        del options
        if len({tensor.shape for tensor in (*outputs, *tensors)}) > 1:
            raise RuntimeError(_UNEVEN.format(line=self._line()))
        values = self._gathered(_stacked(tensors))
        for place, output in enumerate(outputs):
            output.copy_(self._of(values, place)[self._place])

    def all_to_all_single(
        self, output: Any, tensor: Any, to: Sequence[int], of: Sequence[int], options: Any
    ) -> None:
        """`to`, `of`: how much each gets and sends; empty: all as much."""
        if len({*to, *of}) > 1:
            raise RuntimeError(_UNEVEN.format(line=self._line()))
        size = len(self._members)
        self.alltoall(output.chunk(size), tensor.chunk(size), options)

    def barrier(self, options: Any) -> Any:
        return self._gloo.barrier(options)

    def monitored_barrier(self, options: Any, wait_all_ranks: bool) -> None:
        self._gloo.monitored_barrier(options.timeout, wait_all_ranks)

    def send(self, tensors: Sequence[Any], place: int, tag: int) -> Any:
        self._require_live(place, "sends to")
        return self._gloo.send(tensors, self._live.index(place), tag)

    def recv(self, tensors: Sequence[Any], place: int, tag: int) -> Any:
        self._require_live(place, "receives from")
        return self._gloo.recv(tensors, self._live.index(place), tag)

    def recv_anysource(self, tensors: Sequence[Any], tag: int) -> Any:
        for place in range(len(self._members)):
            self._require_live(place, "receives from any rank, so also from")
        return self._gloo.recv_anysource(tensors, tag)

    def _require_live(self, place: int, does: str) -> None:
        if self._stand_ins[place] != place:
            rank, peer = self._members[self._place], self._members[place]
            raise RuntimeError(_ABSENT.format(rank=rank, does=does, peer=peer, line=self._line()))

    def _of(self, values: Sequence[Any], place: int) -> Any:
        """What the member at a place contributes, of what those that run do."""
        return values[self._live.index(self._stand_ins[place])]

    def _gathered(self, tensor: Any) -> list[Any]:
        """What each that runs contributes, all of one size."""
        values = [tensor.new_empty(tensor.shape) for _ in self._live]
        self._gloo.allgather([values], [tensor.contiguous()]).wait()
        return values

    def _reduced(self, values: Sequence[Any], operation: Any) -> Any:
        """What a reduction over all members makes of what those that run contribute."""
        name = operation.op.name
        weighted = list(zip(values, self._weights, strict=True))
        if name in ("SUM", "AVG"):
            total = sum(value * weight for value, weight in weighted)
            return total if name == "SUM" else total / len(self._members)
        if name == "PRODUCT":
            return math.prod(value**weight for value, weight in weighted)
        if name == "BXOR":
            odd = (value for value, weight in weighted if weight % 2)
            return functools.reduce(operator.xor, odd, values[0] ^ values[0])
        return functools.reduce(_OF_TWO[name], values)


_OF_TWO: dict[str, Callable[[Any, Any], Any]] = {
    "MIN": lambda one, other: one.minimum(other),
    "MAX": lambda one, other: one.maximum(other),
    "BAND": operator.and_,
    "BOR": operator.or_,
}
_COLLECTIVES = [name for name in vars(Collectives) if not name.startswith("_")]
_WITHOUT_VALUES = ("broadcast", "barrier", "monitored_barrier", "send", "recv", "recv_anysource")
_OLDER_NAMES = {
    "_allgather_base": "all_gather_single",
    "_reduce_scatter_base": "reduce_scatter_single",
    "alltoall_base": "all_to_all_single",
}


def replacement(
    c_module: ModuleType, fold: Fold, tell_use: Callable[[], None], line: Callable[[], str]
) -> Any:
    """What takes the place of `ProcessGroupGloo`, a class like it where PyTorch lets Python be a
    backend. `c_module`: torch._C._distributed_c10d. `tell_use`: counts a use of values of a rank
    that runs for those of another. `line`: where the program is.
    """
    try:
        c_module.Backend(0, 1)
    except TypeError:
        return functools.partial(_refuse, line)
    gloo, done = c_module.ProcessGroupGloo, c_module._create_work_from_future

    class ProcessGroupGloo(c_module.Backend):  # type: ignore[misc, name-defined]
        """Joins its members when it is used first: its options say by then who they are."""

        def __init__(self, store: Any, rank: int, size: int, *more: Any, **named: Any) -> None:
            super().__init__(rank, size)
            self._join = lambda place, of: gloo(store, place, of, *more, **named)
            self._options = SimpleNamespace(global_ranks_in_group=[], group_name="")
            self._joined: Collectives | None = None

        @property
        def options(self) -> Any:
            return self._options

        def joined(self) -> Collectives:
            if self._joined is None:
                members = self._options.global_ranks_in_group or range(self.size())
                self._joined = Collectives(self._join, members, self.rank(), fold, line)
            return self._joined

        def _set_group_uid(self, uid: str) -> None:
            del uid

        def getBackendName(self) -> str:  # noqa: N802 - PyTorch's
            return "gloo"

    def method(name: str) -> Callable[..., Any]:
        def call(self: Any, *args: Any) -> Any:
            collectives = self.joined()
            if name not in _WITHOUT_VALUES and collectives.tells:
                tell_use()
            work = getattr(collectives, name)(*args)
            return work or done(_ended(args[:1]))

        return call

    for name in _COLLECTIVES:
        setattr(ProcessGroupGloo, name, method(name))
    # PyTorch's own answers ask Python again, without end.
    for name, own in vars(c_module.Backend).items():
        if name.startswith("supports_") and isinstance(own, property):
            setattr(ProcessGroupGloo, name, False)
    for older, name in _OLDER_NAMES.items():
        setattr(ProcessGroupGloo, older, method(name))
    return ProcessGroupGloo


def _stacked(parts: Sequence[Any]) -> Any:
    return sys.modules["torch"].stack(list(parts))


def _ended(results: Sequence[Any]) -> Any:
    """`results`: a tensor, or lists of them."""
    future = sys.modules["torch"].futures.Future()
    future.set_result(results[0] if results and isinstance(results[0], list) else list(results))
    return future


def _refuse(line: Callable[[], str], *args: Any, **named: Any) -> None:
    del args, named
    raise RuntimeError(_NO_BACKENDS.format(line=line()))

"""Whether the traces of several ranks are of one program: what they do together agrees.

Every member of a process group has the same collectives in the same order, with the same sizes; the
splits of an exchange are a matrix and its transpose; each send has its receive.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from phantora_py.traces.folder import TraceFolder
from sim_server.chakra.execution_trace_pb2 import COMM_COLL_NODE, COMM_SEND_NODE
from sim_server.chakra.graph import Step

Collective = tuple[int, int, str, int, bool]
"""Kind, bytes, data type, root, and whether it has splits: those may differ in bytes."""
_NO_ROOT = -1


def disagreements(folder: TraceFolder) -> Iterator[str]:
    """A sentence for each group or pair of ranks that does not agree, at its first fault.

    Raises: Fault for a node that lacks what is compared.
    """
    collectives: defaultdict[str, dict[int, list[Step]]] = defaultdict(dict)
    sends: defaultdict[tuple[str, int, int], list[Step]] = defaultdict(list)
    receives: defaultdict[tuple[str, int, int], list[Step]] = defaultdict(list)
    for rank, steps in zip(folder.traced, folder.steps, strict=True):
        for step in sorted(steps, key=lambda one: one.id):
            if not step.is_communication:
                continue
            group = step.text("pg_name")
            if step.node.type == COMM_COLL_NODE:
                collectives[group].setdefault(rank, []).append(step)
                continue
            is_send = step.node.type == COMM_SEND_NODE
            pair = (group, step.number("comm_src"), step.number("comm_dst"))
            if rank != pair[1 if is_send else 2]:
                yield f"rank {rank}, node {step.id}: it is of ranks {pair[1]} and {pair[2]}"
            (sends if is_send else receives)[pair].append(step)
    for group, by_rank in sorted(collectives.items()):
        ranks = folder.groups.get(group)
        for rank in ranks or ():
            if (stand_in := folder.stand_in(rank)) in by_rank:
                by_rank.setdefault(rank, by_rank[stand_in])
        yield from _of_group(group, ranks, by_rank)
    for pair in sorted({*sends, *receives}):
        yield from _of_pair(pair, sends[pair], receives[pair])


def _of_group(
    group: str, ranks: Sequence[int] | None, by_rank: dict[int, list[Step]]
) -> Iterator[str]:
    if ranks is None:
        yield f"process group {group}: nothing says which ranks it has"
        return
    if strangers := sorted(set(by_rank) - set(ranks)):
        yield f"process group {group}: rank {strangers[0]} is not in it and takes part"
        return
    rows = [by_rank.get(rank, []) for rank in ranks]
    for number, together in enumerate(zip_longest(*rows)):
        kinds = {None if step is None else _collective(step) for step in together}
        if len(kinds) > 1 or None in kinds:
            who = ", ".join(
                f"rank {rank}: {'nothing' if step is None else _shown(step)}"
                for rank, step in zip(ranks, together, strict=True)
            )
            yield f"process group {group}, operation {number}: {who}"
            return
        present = [step for step in together if step is not None]
        if "in_split_size" in present[0].attributes and not _is_transposed(present):
            yield f"process group {group}, operation {number}: the splits do not fit each other"
            return


def _collective(step: Step) -> Collective:
    has_splits = "in_split_size" in step.attributes
    size = 0 if has_splits else step.number("comm_size")
    root = step.number("root", _NO_ROOT)
    return step.number("comm_type"), size, step.text("dtype"), root, has_splits


def _is_transposed(steps: Sequence[Step]) -> bool:
    """What each sends to another is what that receives from it."""
    sent = [step.numbers("in_split_size") for step in steps]
    received = [step.numbers("out_split_size") for step in steps]
    if any(len(row) != len(steps) for row in (*sent, *received)):
        return False
    return sent == [list(column) for column in zip(*received, strict=True)]


def _of_pair(
    pair: tuple[str, int, int], sends: Sequence[Step], receives: Sequence[Step]
) -> Iterator[str]:
    group, source, destination = pair
    for number, (send, receive) in enumerate(zip_longest(sends, receives)):
        what = [
            None if one is None else (one.number("comm_size"), one.text("dtype"))
            for one in (send, receive)
        ]
        if what[0] != what[1]:
            yield (
                f"process group {group}, from rank {source} to rank {destination}, transfer "
                f"{number}: {_shown(send)} is sent and {_shown(receive)} received"
            )
            return


def _shown(step: Step | None) -> str:
    return "nothing" if step is None else f"{step.node.name} of {step.number('comm_size')} bytes"

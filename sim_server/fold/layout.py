"""The mesh of a program, from the groups that its first rank is in.

A group of a mesh is all ranks along some of its dimensions, so its ranks are numbers whose digits
at some places take all values. The places of all groups together are the mesh.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from sim_server.fold.mesh import Dimension, block_digits

PIPELINE = "pp"
"""The name of the dimensions within which ranks send to each other."""


class NoMeshError(ValueError):
    """Groups that no mesh has; the message is a sentence."""


def mesh_of(
    ranks: int, groups: Iterable[Sequence[int]], senders: Iterable[Sequence[int]]
) -> tuple[Dimension, ...]:
    """The coarsest mesh that has these groups of rank 0, outermost dimension first.

    `senders`: ranks that send to each other, rank 0 among them. Their dimension is not folded; all
    others are. Raises: NoMeshError.
    """
    sending = [sorted(set(one)) for one in senders]
    found = sorted({tuple(sorted(one)) for one in groups if 0 in one}, key=len, reverse=True)
    cuts, known = {1, ranks}, [tuple(range(ranks))]
    for group in found:
        edges = _edges(group)
        if edges is not None and _is_chain(cuts | edges):
            cuts |= edges
            known.append(group)
        elif not any(set(group) < set(other) for other in known[1:]):
            shown = ", ".join(map(str, group[:4]))
            raise NoMeshError(
                f"no mesh of {ranks} ranks has a group of ranks {shown}"
                f"{' ...' if len(group) > 4 else ''} beside the other groups of rank 0"
            )
    dimensions = []
    for stride, after in reversed(list(pairwise(sorted(cuts)))):
        size = after // stride
        sends = any(stride <= rank < stride * size for one in sending for rank in one)
        name = f"{PIPELINE}{stride}" if sends else f"by{stride}"
        dimensions.append(Dimension(name, size, folded=not sends))
    return tuple(dimensions) or (Dimension("by1", 1, folded=True),)


def _edges(group: Sequence[int]) -> set[int] | None:
    """The strides at which its digits begin and end; None: it is no block."""
    digits = block_digits(group)
    if digits is None:
        return None
    return {edge for stride, count in digits for edge in (stride, stride * count)}


def _is_chain(cuts: set[int]) -> bool:
    return all(after % one == 0 for one, after in pairwise(sorted(cuts)))

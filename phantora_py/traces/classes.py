"""The traces of a folded run: a file for each class of ranks, and a map of all ranks.

Witnesses do as their representatives do, so they have no files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from phantora_py.data.schema import MOST_RANKS
from sim_server.chakra.files import Trace
from sim_server.errors import UsageError
from sim_server.files.schema import Fault, parse
from sim_server.fold import Fold

MAP = "ranks.json"
FOLD = "fold"
"""Name of the metadata of a file that say how its run was folded."""


def fold_text(fold: Fold) -> str:
    """What metadata say."""
    return json.dumps(replace(fold, witnesses=()).to_dict())


def fold_of(trace: Trace) -> Fold | None:
    """Inverse of `fold_text`; None: all ranks ran. Raises: UsageError if it is damaged."""
    told = trace.metadata.get(FOLD)
    if told is None:
        return None
    try:
        fold = Fold.from_dict({**parse(str(told)), "witnesses": ()})
        if fold.ranks > MOST_RANKS:
            raise Fault(f"{fold.ranks} ranks are more than {MOST_RANKS}")
    except (Fault, ValueError, LookupError, TypeError, ArithmeticError) as fault:
        raise UsageError(f"{trace.path} is damaged: {FOLD}: {fault}") from fault
    return fold


def map_of(
    fold: Fold, members: Mapping[int, Sequence[int]], file_name: Callable[[int], str]
) -> str:
    """The map as JSON: `files` by rank, and `groups`: for each process group of the files, the
    ranks of the groups in which absent ranks do the same. `members`: by number of a group.
    """
    alone = replace(fold, witnesses=())
    files = {rank: file_name(alone.representative(rank)) for rank in range(alone.ranks)}
    groups = {
        number: [list(image) for image in alone.own_images(ranks)]
        for number, ranks in members.items()
        if any(map(alone.is_live, ranks))
    }
    return json.dumps({"files": files, "groups": groups}) + "\n"

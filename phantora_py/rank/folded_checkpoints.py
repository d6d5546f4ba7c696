"""`torch.distributed.checkpoint` in a folded run: the ranks that run save what they have.

The plan of an absent rank is a copy of that of who stands for it, and names the same shards. So the
common plan is made of the plans of those that run: absent ranks write no file, and the checkpoint
lacks their shards (docs/folding.md).
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from .host_groups import Fold

_LACKS = (
    "phantora: this checkpoint has the shards of the ranks that run. Those of ranks that are "
    "absent in this folded run are missing"
)
PLANNER = "torch.distributed.checkpoint.default_planner"


def save_what_runs(fold: Fold, tell: Callable[[], None], planner: ModuleType) -> None:
    """`tell`: called for each checkpoint that lacks shards; `planner`:
    torch.distributed.checkpoint.default_planner.
    """
    of_all = planner.DefaultSavePlanner._dedup_save_plans
    validate = planner._validate_global_plan
    planner_class: Any = planner.DefaultSavePlanner
    planner_class._dedup_save_plans = functools.partialmethod(_of_live, of_all, fold, tell)
    planner._validate_global_plan = functools.partial(_without_gaps, validate)  # type: ignore[attr-defined]


def _of_live(
    planner: Any,
    of_all: Callable[..., Any],
    fold: Fold,
    tell: Callable[[], None],
    plans: Sequence[Any],
) -> list[Any]:
    """Who saves what, of the plans of all ranks; of a part of the ranks, who they are is not known
    here.
    """
    if len(plans) != len(fold.stand_for):
        return list(of_all(planner, plans))
    warnings.warn(_LACKS, stacklevel=2)
    tell()
    live = list(filter(fold.is_live, range(len(plans))))
    made = dict(zip(live, of_all(planner, [plans[rank] for rank in live]), strict=True))
    nothing = functools.partial(dataclasses.replace, items=[])
    return [made.get(rank) or nothing(plan) for rank, plan in enumerate(plans)]


def _without_gaps(validate: Callable[..., Any], plans: Sequence[Any], metadata: Any) -> Any:
    """What is wrong with a plan, but that parts are missing: of a single one nobody asks that."""
    return validate(plans[:1], metadata)

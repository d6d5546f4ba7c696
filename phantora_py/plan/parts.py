"""Models of some of the options only. A search of each of them first makes sure that more options
never give a worse answer: what it finds among some is where it begins among more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import compress, product

from phantora_py.plan.model import PlanModel
from phantora_py.plan.tables import SHARDING_TYPES

Choice = tuple[int, ...]
_Kept = list[list[int]]


@dataclass(frozen=True, eq=False)
class Part:
    """`model` has only these options of each table, which it numbers anew."""

    model: PlanModel
    kept: _Kept

    def inward(self, choices: Sequence[Choice]) -> list[Choice]:
        """Those that have no other options."""
        places = [{option: place for place, option in enumerate(kept)} for kept in self.kept]
        return [
            tuple(place[option] for place, option in zip(places, choice, strict=True))
            for choice in choices
            if all(option in place for place, option in zip(places, choice, strict=True))
        ]

    def outward(self, choices: Sequence[Choice]) -> list[Choice]:
        """As the whole model numbers them."""
        return [
            tuple(kept[place] for kept, place in zip(self.kept, choice, strict=True))
            for choice in choices
        ]


def _part(model: PlanModel, kept: _Kept) -> Part:
    smaller = copy(model)
    smaller.options = [
        [options[place] for place in places]
        for options, places in zip(model.options, kept, strict=True)
    ]
    smaller.ranked = [ranked[places] for ranked, places in zip(model.ranked, kept, strict=True)]
    return Part(smaller, kept)


def parts(model: PlanModel) -> list[Part]:
    """One for each of TorchRec's types, in the order of `SHARDING_TYPES`: the options of this type
    and of those before it, or a table's first ones. The first has whole tables, one has the types
    that know no nodes. Options in host memory come last, all together.
    """
    most_types = len(SHARDING_TYPES)
    levels = [
        [most_types if one.in_host_memory else SHARDING_TYPES.index(one.kind) for one in options]
        for options in model.options
    ]
    kept: list[_Kept] = []
    for last in range(most_types + 1):
        most = [max(last, min(of_table)) for of_table in levels]
        some = [
            [place for place, level in enumerate(of_table) if level <= limit]
            for of_table, limit in zip(levels, most, strict=True)
        ]
        if some not in kept:
            kept.append(some)
    return [_part(model, one) for one in kept]


def families(model: PlanModel) -> Iterator[Part]:
    """All but some collectives, for each choice of these: one that nobody uses takes no time, so
    that it pays to leave it only for all tables together.
    """
    kinds = sorted({(one.split, one.copied) for options in model.options for one in options})
    for used in product((False, True), repeat=len(kinds)):
        allowed = set(compress(kinds, used))
        kept = [
            [place for place, one in enumerate(of) if (one.split, one.copied) in allowed]
            for of in model.options
        ]
        if all(kept):
            yield _part(model, kept)

"""The search for a placement: greedy, with a beam, by annealing, and exactly where there is little
to choose from.

A placement is a list of the number of the option of each table. The score never falls when a table
is added, so that a partial placement bounds its completions from below.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress, product
from math import exp

import numpy as np
from numpy.typing import NDArray

from phantora_py.plan.model import Array, PlanModel
from phantora_py.plan.symmetry import Symmetry

Choice = tuple[int, ...]
# Of each table and option 0, or infinite: it must not be chosen.
Refused = list[Array]
METHODS = ("greedy", "beam", "anneal")
_BEAM = 32
# Steps of annealing for each table, and its temperatures as shares of the score (assumed).
_STEPS = 300
_HOT, _COLD = 0.05, 1e-5
# Exchanges of two tables' options that a descent makes at most.
_MOST_SWAPS = 25
# Partial placements that the exact search scores before it gives up.
_MOST_SCORED = 200_000
_FEW_TABLES = 8


def search(
    model: PlanModel, method: str, known: Sequence[Choice] = (), seed: int = 0
) -> list[Choice]:
    """Placements, the best first, different from each other; none is worse than a `known` one.

    Only those that fit are returned: none, if none was found.
    """
    found = list(known)
    for refused in (_whole(model), *_families(model)):
        found += _best(model, _widened(model, 1 if method == "greedy" else _BEAM, refused))[:1]
    start = _best(model, found)[:2]
    found += [_descended(model, choice, _any(model)) for choice in start]
    found += [_descended(model, choice, _whole(model)) for choice in _best(model, known)[:1]]
    for refused in (_whole(model), _any(model)) if method == "anneal" else ():
        if best := _best(model, [choice for choice in found if _within(choice, refused)]):
            cooled = _annealed(model, best[0], refused, seed)
            found.append(_descended(model, cooled, refused))
    if len(model.tables) <= _FEW_TABLES and method != "greedy":
        best = _best(model, found)
        found += _exact(model, best[0] if best else None)
    return _best(model, found)


def _best(model: PlanModel, found: Sequence[Choice]) -> list[Choice]:
    scored = {choice: model.cost_ns(choice) for choice in found}
    fitting = [choice for choice, score in scored.items() if score < np.inf]
    return sorted(fitting, key=lambda choice: (scored[choice], choice))


def _order(model: PlanModel) -> list[int]:
    """Tables by the least that they cost alone, the greatest first."""
    least = [float(model.score_ns(ranked).min()) for ranked in model.ranked]
    return sorted(range(len(least)), key=lambda table: -least[table])


def _any(model: PlanModel) -> Refused:
    return [np.zeros(len(options)) for options in model.options]


def _whole(model: PlanModel) -> Refused:
    """More than one rank for a table that may have one."""
    least = [min(len(one.ranks) for one in options) for options in model.options]
    return [
        np.where([1 == fewest < len(one.ranks) for one in options], np.inf, 0.0)
        for options, fewest in zip(model.options, least, strict=True)
    ]


def _within(choice: Choice, refused: Refused) -> bool:
    return all(not refused[table][option] for table, option in enumerate(choice))


def _families(model: PlanModel) -> Iterator[Refused]:
    """All but some collectives, for each choice of these: one that nobody uses takes no time, so
    that it pays to leave it only for all tables together.
    """
    kinds = sorted({(one.split, one.copied) for options in model.options for one in options})
    for kept in product((False, True), repeat=len(kinds)):
        allowed = set(compress(kinds, kept))
        inside = [[(one.split, one.copied) in allowed for one in of] for of in model.options]
        if all(map(any, inside)):
            yield [np.where(one, 0.0, np.inf) for one in inside]


def _widened(model: PlanModel, width: int, refused: Refused) -> list[Choice]:
    """One table after the other where the time grows least; so many of the best are kept. None if
    they do not fit.
    """
    states: list[tuple[Choice, Array]] = [((), model.nothing)]
    order = _order(model)
    for table in order:
        ranked = np.stack([sums for _, sums in states])[:, None] + model.ranked[table]
        scores = model.score_ns(ranked) + refused[table]
        # Among equals the one that leaves more room, and then the more even one.
        evenness = (ranked[..., :2] ** 2).sum(axis=(-1, -2))
        flat = np.lexsort((evenness.ravel(), scores.ravel()))
        # Behind these are options that are refused.
        flat = flat[: min(width, int(np.isfinite(scores).sum()))]
        best = np.stack(np.unravel_index(flat, scores.shape), axis=-1).tolist()
        states = [((*states[before][0], option), ranked[before, option]) for before, option in best]
        if not states:
            return []
    places = np.argsort(order)
    return [tuple(choice[place] for place in places) for choice, _ in states]


def _descended(model: PlanModel, choice: Choice, refused: Refused) -> Choice:
    """Tables moved one at a time, then in pairs, while that helps."""
    current = list(choice)
    ranked = model.sums(current)
    best = float(model.score_ns(ranked))
    improved, swaps = True, 0
    while improved and swaps < _MOST_SWAPS:
        improved = False
        for table in range(len(current)):
            rest = ranked - model.ranked[table][current[table]]
            scores = model.score_ns(rest + model.ranked[table]) + refused[table]
            place = int(scores.argmin())
            if scores[place] < best * (1 - 1e-12):
                best, improved = float(scores[place]), True
                current[table] = place
                ranked = model.sums(current)
        if not improved:
            swaps += 1
            improved = _swapped(model, current, best, refused)
            ranked = model.sums(current)
            best = float(model.score_ns(ranked))
    return tuple(current)


def _swapped(model: PlanModel, current: list[int], best: float, refused: Refused) -> bool:
    """Tries all options of two tables together, one of which is on the slowest rank."""
    ranked = model.sums(current)
    slowest = {int(row.argmax()) for row in ranked[:, :2].T}
    tables = range(len(current))
    heavy = [t for t in tables if any(model.ranked[t][current[t]][r, 0] > 0 for r in slowest)]
    for one in heavy:
        for other in tables:
            if one == other:
                continue
            rest = ranked - model.ranked[one][current[one]] - model.ranked[other][current[other]]
            scores = model.score_ns(rest + model.ranked[one][:, None] + model.ranked[other][None])
            scores += refused[one][:, None] + refused[other]
            places = np.unravel_index(int(scores.argmin()), scores.shape)
            if scores[places] < best * (1 - 1e-12):
                current[one], current[other] = int(places[0]), int(places[1])
                return True
    return False


def _annealed(model: PlanModel, choice: Choice, refused: Refused, seed: int) -> Choice:
    """Random moves and exchanges, accepted the less the worse they are and the later they come."""
    random = np.random.default_rng(seed)
    allowed = [np.flatnonzero(one == 0) for one in refused]
    current = list(choice)
    ranked = model.sums(current)
    score = best_score = float(model.score_ns(ranked))
    best = tuple(current)
    steps = _STEPS * len(current)
    for step in range(steps):
        changes = dict(_move(allowed, random))
        new_ranked = ranked
        for table, option in changes.items():
            old = current[table]
            new_ranked = new_ranked + model.ranked[table][option] - model.ranked[table][old]
        new = float(model.score_ns(new_ranked))
        temperature = _HOT * (_COLD / _HOT) ** (step / steps) * best_score
        if new <= score or random.random() < exp((score - new) / temperature):
            ranked, score = new_ranked, new
            for table, option in changes.items():
                current[table] = option
            if score < best_score:
                best, best_score = tuple(current), score
    return best


def _move(
    allowed: Sequence[NDArray[np.intp]], random: np.random.Generator
) -> Iterator[tuple[int, int]]:
    table = int(random.integers(len(allowed)))
    yield table, int(random.choice(allowed[table]))
    if random.random() < 0.5:
        other = int(random.integers(len(allowed)))
        if other != table:
            yield other, int(random.choice(allowed[other]))


def _exact(model: PlanModel, known: Choice | None) -> list[Choice]:
    """The best placement by branch and bound; nothing if that takes too long."""
    order, alike = _order(model), Symmetry(model.options, model.ranks)
    # What the tables after each place add at least, spread evenly over the ranks.
    least = np.array([model.ranked[t].sum(axis=-2).min(axis=0) for t in order]) / model.ranks
    later = np.concatenate([np.cumsum(least[::-1], axis=0)[::-1], np.zeros((1, least.shape[1]))])
    best = known
    best_score = model.cost_ns(known) if known else np.inf
    # The partial choice in `order`, with its sums.
    stack: list[tuple[Choice, Array]] = [((), model.nothing)]
    scored = 0
    while stack and scored < _MOST_SCORED:
        chosen, ranked = stack.pop()
        depth = len(chosen)
        scored += len(model.options[order[depth]])
        all_ranked = ranked + model.ranked[order[depth]]
        bounds = _bounds(model, all_ranked, later[depth + 1])
        seen = set()
        following = []
        for place in np.argsort(bounds):
            if bounds[place] >= best_score * (1 - 1e-12):
                break
            key = alike.key(all_ranked[place])
            if key in seen:
                continue
            seen.add(key)
            longer = (*chosen, int(place))
            if depth + 1 < len(order):
                following.append((longer, all_ranked[place]))
                continue
            places = np.argsort(order)
            best, best_score = tuple(longer[p] for p in places), float(bounds[place])
        stack += reversed(following)
    return [] if stack or best is None else [best]


def _bounds(model: PlanModel, ranked: Array, later: Array) -> Array:
    """No completion of these partial placements takes less."""
    evenly = ranked.mean(axis=-2) + later
    return model.score_ns(np.maximum(ranked, evenly[..., None, :]))

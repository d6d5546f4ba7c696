"""The search for a placement: greedy, with a beam, by annealing, and exactly where there is little
to choose from.

A placement is a list of the number of the option of each table. The score never falls when a table
is added, so that a partial placement bounds its completions from below.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import exp

import numpy as np

from phantora_py.plan.model import Array, PlanModel

Choice = tuple[int, ...]
METHODS = ("greedy", "beam", "anneal")
_BEAM = 32
# Steps of annealing for each table, and its temperatures as shares of the score (assumed).
_STEPS = 300
_HOT, _COLD = 0.05, 1e-5
# Exchanges of two tables' options that a descent makes at most.
_MOST_SWAPS = 25
# Partial placements that the exact search looks at before it gives up.
_MOST_NODES = 20_000
_FEW_TABLES = 8


def search(
    model: PlanModel, method: str, known: Sequence[Choice] = (), seed: int = 0
) -> list[Choice]:
    """Placements, the best first, different from each other; none is worse than a `known` one.

    Only those that fit are returned: none, if none was found.
    """
    found = list(known)
    found.append(_greedy(model))
    if method != "greedy":
        found += _beam(model)
    start = _best(model, found)[:2]
    found += [_descended(model, choice) for choice in start]
    found += [_descended(model, choice, whole=True) for choice in _best(model, known)[:1]]
    if method == "anneal" and (best := _best(model, found)):
        found.append(_descended(model, _annealed(model, best[0], seed)))
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
    least = [
        float(model.score_ns(ranked, shared).min())
        for ranked, shared in zip(model.ranked, model.shared, strict=True)
    ]
    return sorted(range(len(least)), key=lambda table: -least[table])


def _greedy(model: PlanModel) -> Choice:
    """One table after the other where the time grows least."""
    return _widened(model, 1)[0]


def _beam(model: PlanModel) -> list[Choice]:
    return _widened(model, _BEAM)


def _widened(model: PlanModel, width: int) -> list[Choice]:
    states: list[tuple[Choice, Array, Array]] = [((), np.zeros((8, model.ranks)), np.zeros(2))]
    order = _order(model)
    for table in order:
        options, both = model.ranked[table], model.shared[table]
        ranked = np.stack([state[1] for state in states])[:, None] + options
        shared = np.stack([state[2] for state in states])[:, None] + both
        scores = model.score_ns(ranked, shared)
        # Among equals the one that leaves more room, and then the more even one.
        evenness = (ranked[..., :2, :] ** 2).sum(axis=(-1, -2))
        flat = np.lexsort((evenness.ravel(), scores.ravel()))
        best = np.stack(np.unravel_index(flat[:width], scores.shape), axis=-1).tolist()
        states = [
            ((*states[before][0], option), ranked[before, option], shared[before, option])
            for before, option in best
        ]
    places = np.argsort(order)
    return [tuple(choice[place] for place in places) for choice, *_ in states]


def _descended(model: PlanModel, choice: Choice, whole: bool = False) -> Choice:
    """Tables moved one at a time, then in pairs, while that helps. `whole`: to one rank each."""
    refused = [
        np.where([whole and one.kind != "table_wise" for one in options], np.inf, 0.0)
        for options in model.options
    ]
    current = list(choice)
    ranked, shared = model.sums(current)
    best = float(model.score_ns(ranked, shared))
    improved, swaps = True, 0
    while improved and swaps < _MOST_SWAPS:
        improved = False
        for table in range(len(current)):
            rest = ranked - model.ranked[table][current[table]]
            rest_shared = shared - model.shared[table][current[table]]
            scores = model.score_ns(rest + model.ranked[table], rest_shared + model.shared[table])
            scores += refused[table]
            place = int(scores.argmin())
            if scores[place] < best * (1 - 1e-12):
                best, improved = float(scores[place]), True
                current[table] = place
                ranked, shared = model.sums(current)
        if not improved:
            swaps += 1
            improved = _swapped(model, current, best, refused)
            ranked, shared = model.sums(current)
            best = float(model.score_ns(ranked, shared))
    return tuple(current)


def _swapped(model: PlanModel, current: list[int], best: float, refused: Sequence[Array]) -> bool:
    """Tries all options of two tables together, one of which is on the slowest rank."""
    ranked, shared = model.sums(current)
    slowest = {int(row.argmax()) for row in ranked[:2]}
    tables = range(len(current))
    heavy = [t for t in tables if any(model.ranked[t][current[t]][0, r] > 0 for r in slowest)]
    for one in heavy:
        for other in tables:
            if one == other:
                continue
            rest = ranked - model.ranked[one][current[one]] - model.ranked[other][current[other]]
            left = shared - model.shared[one][current[one]] - model.shared[other][current[other]]
            scores = model.score_ns(
                rest + model.ranked[one][:, None] + model.ranked[other][None],
                left + model.shared[one][:, None] + model.shared[other][None],
            )
            scores += refused[one][:, None] + refused[other]
            places = np.unravel_index(int(scores.argmin()), scores.shape)
            if scores[places] < best * (1 - 1e-12):
                current[one], current[other] = int(places[0]), int(places[1])
                return True
    return False


def _annealed(model: PlanModel, choice: Choice, seed: int) -> Choice:
    """Random moves and exchanges, accepted the less the worse they are and the later they come."""
    random = np.random.default_rng(seed)
    current = list(choice)
    ranked, shared = model.sums(current)
    score = best_score = float(model.score_ns(ranked, shared))
    best = tuple(current)
    steps = _STEPS * len(current)
    for step in range(steps):
        changes = dict(_move(model, current, random))
        new_ranked, new_shared = ranked, shared
        for table, option in changes.items():
            old = current[table]
            new_ranked = new_ranked + model.ranked[table][option] - model.ranked[table][old]
            new_shared = new_shared + model.shared[table][option] - model.shared[table][old]
        new = float(model.score_ns(new_ranked, new_shared))
        temperature = _HOT * (_COLD / _HOT) ** (step / steps) * best_score
        if new <= score or random.random() < exp((score - new) / temperature):
            ranked, shared, score = new_ranked, new_shared, new
            for table, option in changes.items():
                current[table] = option
            if score < best_score:
                best, best_score = tuple(current), score
    return best


def _move(
    model: PlanModel, current: Sequence[int], random: np.random.Generator
) -> Iterator[tuple[int, int]]:
    table = int(random.integers(len(current)))
    yield table, int(random.integers(len(model.options[table])))
    if random.random() < 0.5:
        other = int(random.integers(len(current)))
        if other != table:
            yield other, int(random.integers(len(model.options[other])))


def _exact(model: PlanModel, known: Choice | None) -> list[Choice]:
    """The best placement by branch and bound; nothing if that takes too long."""
    order = _order(model)
    # What the tables after each place add at least, spread evenly over the ranks.
    least = np.array([model.ranked[t].sum(axis=-1).min(axis=0) for t in order]) / model.ranks
    later = np.concatenate([np.cumsum(least[::-1], axis=0)[::-1], np.zeros((1, 8))])
    best = known
    best_score = model.cost_ns(known) if known else np.inf
    # The partial choice in `order`, with its sums.
    stack: list[tuple[Choice, Array, Array]] = [((), np.zeros((8, model.ranks)), np.zeros(2))]
    for _ in range(_MOST_NODES):
        if not stack:
            return [best] if best is not None else []
        chosen, ranked, shared = stack.pop()
        depth = len(chosen)
        table = order[depth]
        all_ranked, all_shared = ranked + model.ranked[table], shared + model.shared[table]
        bounds = _bounds(model, all_ranked, all_shared, later[depth + 1])
        seen = set()
        following = []
        for place in np.argsort(bounds):
            if bounds[place] >= best_score * (1 - 1e-12):
                break
            # Ranks are alike: what differs only in their order is one.
            rows = all_ranked[place]
            key = rows[:, np.lexsort(rows)].round(6).tobytes() + all_shared[place].tobytes()
            if key in seen:
                continue
            seen.add(key)
            longer = (*chosen, int(place))
            if depth + 1 < len(order):
                following.append((longer, all_ranked[place], all_shared[place]))
                continue
            places = np.argsort(order)
            best, best_score = tuple(longer[p] for p in places), float(bounds[place])
        stack += reversed(following)
    return []


def _bounds(model: PlanModel, ranked: Array, shared: Array, later: Array) -> Array:
    """No completion of these partial placements takes less."""
    evenly = ranked.mean(axis=-1) + later
    bound = np.maximum(ranked, evenly[..., None])
    return model.score_ns(bound, shared)
